"""A task model: what it is called, what a pass computes and keeps, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from normxlogit.errors import HeadMismatchError, UnsupportedModelError
from normxlogit.models.task_model import TaskModel
from tests import tiny
from tests.contract.test_own_answers import CLOSE, logits_of


def made(family="bert", kind="SequenceClassification", texts=tiny.TEXTS, **options):
    task = TaskModel(tiny.model(family, kind, **options), tiny.tokenizer_for(family))
    return task, task.batch(task.encoder(texts), list(range(len(texts))))


def test_what_a_model_is_called_and_reads_at_once():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    assert TaskModel(model, tokenizer).name == "BertForSequenceClassification"
    model.config._name_or_path = "there/it-is"
    assert TaskModel(model, tokenizer).name == "there/it-is"
    assert [TaskModel(model, tokenizer, name).name for name in ("", "mine", Path("a/b"))] == [
        "there/it-is",
        "mine",
        "a/b",
    ]
    assert TaskModel(model, tokenizer).budget.tokens == 8192


def test_on_which_side_is_padded_and_where_padding_would_be_taken_for_text():
    for family, kind, left in [
        ("xlnet", "SequenceClassification", True),
        ("xlnet", "TokenClassification", False),
        ("electra", "MultipleChoice", False),
    ]:
        assert TaskModel(tiny.model(family, kind), tiny.tokenizer_for(family)).pad_left is left
    for family, kind, pad, together in [
        ("llama", "SequenceClassification", None, False),
        ("llama", "SequenceClassification", 0, True),
        ("llama", "CausalLM", None, True),
        ("xlnet", "SequenceClassification", None, True),
    ]:
        model = tiny.model(family, kind)
        model.config.pad_token_id = pad
        assert TaskModel(model, tiny.tokenizer_for(family)).copy.padding.refuted is not together


def test_where_the_inputs_go():
    def device(*places):
        weights = [SimpleNamespace(device=torch.device(place)) for place in places]
        return TaskModel.device.fget(SimpleNamespace(module=SimpleNamespace(parameters=lambda: iter(weights)))).type

    assert [device(), device("meta"), device("cpu"), device("cuda", "cpu")] == ["cpu", "cpu", "cpu", "cuda"]


def test_a_pass_ends_where_nothing_more_is_needed():
    for family, kind, layers, ends in [
        ("llama", "CausalLM", False, False),
        ("llama", "CausalLM", True, False),
        ("bert", "SequenceClassification", False, True),
        ("bert", "SequenceClassification", True, True),
        ("bert", "TokenClassification", False, True),
    ]:
        task, batch = made(family, kind)
        copy, passes = task.prepare(batch), []
        run = copy.run
        vars(copy)["run"] = lambda *a, _run=run, _seen=passes, **k: _seen.append(_run(*a, **k)) or _seen[-1]
        with torch.no_grad():
            found = task.run(batch, layers=layers)
        assert [done.output is not None for done in passes] == [ends]
        assert (found.states is None) is not layers
        assert len(found.states or [0] * 4) == 4
        assert found.logits.shape == (3, tiny.SIZE if kind == "CausalLM" else 2)


def test_a_pass_keeps_no_layers_and_predicts_if_it_is_not_told_otherwise():
    task, batch = made("llama", "CausalLM")
    with torch.no_grad():
        run, silent = task.run(batch), task.run(batch, predict=False)
        own = logits_of(task.caller_model, batch.encodings[0].ids)[-1]
        again = task.finish(batch, run.hidden, run.embedded, None, None)
        nothing = task.finish(batch, run.hidden, run.embedded, None, None, predict=False)
    assert run.states is None
    torch.testing.assert_close(run.logits[0], own, **CLOSE)
    torch.testing.assert_close(again.logits, run.logits)
    assert silent.logits.shape == nothing.logits.shape == (3, 0)
    task, batch = made()
    with torch.no_grad():
        run = task.run(batch)
        torch.testing.assert_close(task.finish(batch, run.hidden, run.embedded, None, None).logits, run.logits, **CLOSE)


def test_answers_at_a_position_of_each_text():
    task, batch = made(kind="TokenClassification")
    positions = torch.tensor([1, 2, 3])
    with torch.no_grad():
        own = task.caller_model(**batch.inputs).logits
        torch.testing.assert_close(task.answer(batch.inputs, positions), own[[0, 1, 2], positions], **CLOSE)
        torch.testing.assert_close(task.answer(batch.inputs), own, **CLOSE)
        other = tiny.model("bert", "TokenClassification", seed=1)
        torch.testing.assert_close(task.answer(batch.inputs, on=other), other(**batch.inputs).logits)


def test_a_head_that_sees_other_tokens_reads_the_whole_text_and_the_last_layer_is_what_it_reads():
    task, batch = made(kind="TokenClassification")
    with torch.no_grad():
        run = task.run(batch, layers=True)
        alone = task.read(run.hidden, batch)
        task.copy.parts = replace(task.copy.parts, tokenwise=False)
        torch.testing.assert_close(task.read(run.hidden, batch), alone, **CLOSE)
        torch.testing.assert_close(
            task.read(run.hidden, batch), task.caller_model(**batch.inputs).logits[batch.mask], **CLOSE
        )
        assert task.final(run, 3) is run.hidden
        torch.testing.assert_close(task.final(run, 2)[batch.mask], run.states[2][batch.mask])
    assert task.layer_count() == 3
    task.copy.parts = replace(task.copy.parts, layers=None)
    with pytest.raises(UnsupportedModelError, match="layers of BertForTokenClassification cannot be read one by one"):
        task.layer_count()


def test_parts_and_new_copies_are_there_when_they_are():
    task = TaskModel(tiny.model("bert"), tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="has not read anything yet"):
        _ = task.parts
    first = task.copy
    task.batch(task.encoder(tiny.TEXTS), [0, 1, 2])
    assert task.refresh() is False
    assert first.parts is None, "nothing was read yet"
    task.prepare(task.batch(task.encoder(tiny.TEXTS), [0, 1, 2]))
    task.caller_model.classifier = torch.nn.Linear(32, 2)
    task.batch(task.encoder(tiny.TEXTS), [0, 1, 2])
    assert task.parts is not first.parts, "a changed model is taken apart anew where the batch is made"
    first = task.copy
    task.caller_model.classifier = torch.nn.Linear(32, 2)
    assert task.refresh() is True
    assert task.copy is not first
    assert task.refresh() is False


@pytest.mark.parametrize("name", ["states_of", "hidden_of", "answer_of", "embedded"])
@pytest.mark.parametrize("layers", [True, False])
def test_a_model_that_gives_no_states_or_logits_is_refused(monkeypatch, name, layers):
    task, batch = made()
    with torch.no_grad():
        own = task.run(batch).logits
        if name == "embedded":
            task.copy.parts = replace(task.copy.parts, embedding_tap=None)
            torch.testing.assert_close(task.run(batch, layers=layers).embedded.shape, (3, len(batch.mask[0]), 32))
            name = "embedded_of"
        room = "surgery.parts" if name == "hidden_of" else "models.task_model"
        monkeypatch.setattr(f"normxlogit.{room}.{name}", lambda _: None)
        if name == "states_of" and not layers:
            torch.testing.assert_close(task.run(batch).logits, own)
            return
        says = {"hidden_of": "returned no hidden states", "answer_of": None}.get(
            name, "does not give its layers' outputs"
        )
        if says is None:  # the head is run over the states again
            torch.testing.assert_close(task.run(batch, layers=layers).logits, own, **CLOSE)
            with pytest.raises(HeadMismatchError, match="returned no logits"):
                task.answer(batch.inputs)
            return
        with pytest.raises((UnsupportedModelError, HeadMismatchError), match=says):
            _ = task.run(batch, layers=layers).embedded
        if name == "hidden_of":
            with pytest.raises(HeadMismatchError, match=says):
                task.states(batch)


def test_scores_are_no_numbers_only_where_one_of_them_is_none():
    task, batch = made()
    task.check_finite(np.array([3e38, 3e38], np.float32), batch)  # whose sum is none
    with pytest.raises(UnsupportedModelError):
        task.check_finite(np.array([1.0, np.nan], np.float32), batch)
