"""Forward passes that somebody else has run: of this model, over these inputs, whole, and numbers."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from normxlogit.errors import HeadMismatchError, InputError, UnsupportedModelError
from normxlogit.inputs.batching import Batch
from normxlogit.inputs.encoding import Encoding
from normxlogit.models.given_outputs import (
    check_layer_count,
    check_same,
    check_shapes,
    read_embedded,
    read_outputs,
)
from normxlogit.models.task_model import TaskModel
from normxlogit.surgery.run import Pass
from tests import tiny


def batch_of(*lengths):
    width = max(lengths)
    mask = torch.tensor([[t < n for t in range(width)] for n in lengths])
    texts = [Encoding({"input_ids": [7] * n}, ("x",) * n, None, None, (0,) * n, (False,) * n) for n in lengths]
    return Batch({}, mask, texts, list(range(len(lengths))))


STATES = (torch.zeros(2, 3, 4), torch.ones(2, 3, 4))


@pytest.mark.parametrize(
    ("changes", "per_token", "said"),
    [
        ({}, False, None),
        ({"logits": torch.zeros(2, 3, 5)}, True, None),
        ({}, True, r"of shape \(2, 5\), the input \(2, 3\)"),
        ({"logits": torch.zeros(3, 5)}, False, r"of shape \(3, 5\)"),
        ({"hidden_states": (STATES[0], torch.ones(2, 2, 4))}, False, r"of shape \(2, 2, 4\)"),
        ({"hidden_states": (STATES[0], torch.ones(1, 3, 4))}, False, r"of shape \(1, 3, 4\)"),
        ({"hidden_states": ()}, False, "need logits and hidden states"),
        ({"hidden_states": None}, False, "need logits and hidden states"),
        ({"hidden_states": (STATES[0], None)}, False, "need logits and hidden states"),
        ({"logits": None}, False, "need logits and hidden states"),
    ],
)
def test_the_shapes_of_outputs(changes, per_token, said):
    outputs = {"logits": torch.zeros(2, 5), "hidden_states": STATES} | changes
    if said is None:
        states, logits = check_shapes(outputs, batch_of(3, 2), per_token=per_token)
        assert states is STATES
        assert logits is outputs["logits"]
        return
    with pytest.raises(InputError, match=said):
        check_shapes(outputs, batch_of(3, 2), per_token=per_token)


def test_states_of_other_inputs_differ_at_a_token_and_not_in_the_padding():
    batch, ours = batch_of(3, 2), torch.arange(24.0).view(2, 3, 4)
    padded = ours.clone()
    padded[1, 2] = torch.nan
    check_same(batch, padded, ours)
    check_same(batch, ours + 1e-6, ours)
    for theirs in (ours + 0.1, ours - 0.1, ours * torch.nan, torch.zeros(2, 3, 5)):
        with pytest.raises(InputError, match="do not come from these inputs"):
            check_same(batch, theirs, ours)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, True),
        ({"early_exit": 1}, False),
        ({"token_pooling": 1}, False),
        ({"layers": None}, False),
        ({"layers": 1}, False),
    ],
)
def test_states_are_counted_where_each_layer_gives_one(changes, refused):
    parts = SimpleNamespace(**{"early_exit": None, "token_pooling": None, "layers": 3} | changes)
    if not refused:
        check_layer_count(STATES, parts)
        return
    with pytest.raises(InputError, match="hold 2 hidden states, and the model gives 4"):
        check_layer_count(STATES, parts)


def test_the_embeddings_are_read_without_the_layers():
    task = TaskModel(tiny.model("bert"), tiny.tokenizer_for("bert"))
    batch = task.batch(task.encoder(tiny.TEXTS), [0, 1, 2])
    task.prepare(batch)
    with torch.no_grad():
        wanted = task.caller_model(**batch.inputs, output_hidden_states=True).hidden_states[0]
        ran = []
        task.module.bert.encoder.layer[0].register_forward_hook(lambda *_: ran.append(1))
        torch.testing.assert_close(read_embedded(task, batch), wanted)
        assert not ran
        task.copy.parts = replace(task.copy.parts, embedding_tap=None)
        torch.testing.assert_close(read_embedded(task, batch), wanted)
        assert ran, "a model that does not show them is asked for all"


def test_nothing_was_heard_where_the_embeddings_pass_by(monkeypatch):
    task = TaskModel(tiny.model("bert"), tiny.tokenizer_for("bert"))
    batch = task.batch(task.encoder(["a cat"]), [0])
    task.prepare(batch)
    monkeypatch.setattr(task.copy, "run", lambda *_, **__: Pass())
    with pytest.raises(UnsupportedModelError, match="does not give its embedding layer's output"):
        read_embedded(task, batch)


def test_a_pass_that_was_run_is_kept_as_one_of_its_own():
    task = TaskModel(tiny.model("bert"), tiny.tokenizer_for("bert"))
    batch = task.batch(task.encoder(tiny.TEXTS), [0, 1, 2])
    with torch.no_grad():
        outputs = task.caller_model(**batch.inputs, output_hidden_states=True)
        own = task.run(batch, layers=True)
        for layers in (False, True):
            run = read_outputs(task, batch, outputs, layers=layers)
            for name in ("hidden", "embedded", "logits", "token_logits"):
                torch.testing.assert_close(getattr(run, name), getattr(own, name), rtol=1e-4, atol=1e-5)
            assert (run.states is not None) is layers
        assert read_outputs(task, batch, outputs).states is None
        wider = outputs.copy()
        wider["logits"] = torch.zeros(3, 5)
        with pytest.raises(InputError, match=r"logits of shape \(3, 5\), not \(3, 2\)"):
            read_outputs(task, batch, wider)
        outputs["logits"] = outputs.logits + 0.1
        with pytest.raises(HeadMismatchError, match=r"differ from these outputs' by 0\.1"):
            read_outputs(task, batch, outputs)
