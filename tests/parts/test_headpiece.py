import random
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer, HeadMismatchError, UnsupportedModelError
from normxlogit.model.task_model import TaskModel
from normxlogit.parts import headpiece
from normxlogit.parts.model_proofs import rows_are_of_the_vocabulary
from tests import tiny


class Peeking(transformers.BertForSequenceClassification):
    def keep(self, _, __, output):
        self.kept = output[0] if isinstance(output, tuple) else output

    def forward(self, input_ids=None, **kwargs):
        outputs = super().forward(input_ids=input_ids, **kwargs)
        outputs["logits"] = outputs.logits + 0.1 * self.kept[:, 0, :2]
        return outputs


@pytest.mark.parametrize("asked", ["a cat", tiny.TEXTS[0]])
def test_a_head_that_cannot_stand_alone_is_refused(asked):
    """A head that reads more than the trunk's output must not give numbers, whatever its owner asked before."""
    plain, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    plain.__class__ = Peeking
    plain.bert.encoder.layer[0].register_forward_hook(plain.keep)
    plain(**tokenizer(asked, return_tensors="pt"))
    kept = plain.kept
    task = TaskModel(plain, tokenizer)
    with pytest.raises(HeadMismatchError, match=r"Tried bert: logits differ|on one text and not on another"):
        _ = task.run(task.batch(task.encoder([tiny.TEXTS[0]]), [0])).hidden
    assert plain.kept is kept, "the hook of a copy keeps what it sees on the copy"


BY_CHANCE = {
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.1),  # in evaluation, too: the mode was forgotten
    "Python": lambda x: x * (1.0 if random.random() < 0.6 else 2.0),
    "numpy": lambda x: x * (1.0 if np.random.random() < 0.6 else 2.0),  # noqa: NPY002
}
"""What draws from each generator; the latter two mostly do nothing with it."""


@pytest.mark.parametrize("name", BY_CHANCE)
def test_a_model_that_answers_by_chance_is_refused(name):
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    plain, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    plain.bert.pooler.dense.register_forward_hook(lambda _, __, x: BY_CHANCE[name](x))
    task = TaskModel(plain, tokenizer)
    with pytest.raises(UnsupportedModelError, match="answers the same input differently each time"):
        task.run(task.batch(task.encoder([tiny.TEXTS[0]]), [0]))


def centred(_, __, output):
    return output - output.mean(0, keepdim=True)


def experts(model):
    """Let a layer see a whole batch, as experts of limited capacity do."""
    model.bert.encoder.layer[0].output.dense.register_forward_hook(centred)


def batch_norm(model):
    model.classifier = torch.nn.Sequential(torch.nn.BatchNorm1d(32, track_running_stats=False), model.classifier)
    model.classifier.eval()
    own = torch.nn.functional.batch_norm
    model.classifier[0].forward = lambda x: own(x, None, None, training=True) if len(x) > 1 else x


@pytest.mark.parametrize("change", [batch_norm, experts])
@pytest.mark.parametrize("method", [None, "frozen-gradient", "normxlogit"])
def test_a_model_whose_texts_change_each_others_answers_is_refused(change, method):
    plain = tiny.model("bert")
    change(plain)
    explainer = Explainer(plain, tiny.tokenizer_for("bert"))
    for inputs in (tiny.TEXTS[0], tiny.TEXTS):  # and again
        with pytest.raises(UnsupportedModelError, match="answers a text differently beside another one"):
            explainer(inputs, method=method)


@pytest.mark.parametrize("row", [None, 0, 1, 7, 33, 62, 63])
def test_every_row_of_the_vocabulary_is_proved(row):
    task, _, forward = tiny.task_run("llama", "CausalLM", tiny.TEXTS[:1])
    head, hidden = task.head, forward.hidden[0]
    with torch.inference_mode():
        logits = head.tokens(hidden)  # (T, V)
        if row is not None:
            logits[:, row] += 1  # as if the model did something to this entry
        assert rows_are_of_the_vocabulary(head, "lm_head", hidden, logits) is (row is None)


def test_columns_that_cannot_be_cut_are_computed_in_pieces(monkeypatch):
    task, _, forward = tiny.task_run("llama", "CausalLM", tiny.TEXTS[2:])
    head, hidden = task.head, forward.hidden[0].repeat(4, 1)  # (T, H)
    monkeypatch.setattr(headpiece, "LOGITS_AT_ONCE", 1000)
    apply, sizes = headpiece.Head.tokens_with, []
    monkeypatch.setattr(
        headpiece.Head, "tokens_with", lambda self, states: sizes.append(len(states)) or apply(self, states)
    )
    without = headpiece.Head(head.pool, replace(head.piece, output_embedding=None))
    with torch.inference_mode():
        columns = without.tokens(hidden, torch.tensor([3, 7]))
        torch.testing.assert_close(columns, apply(head, hidden)[:, [3, 7]])
    assert max(sizes) * tiny.SIZE <= 1000 < len(hidden) * tiny.SIZE


@pytest.mark.parametrize(("where", "entry"), [("lm_head", 17), ("", 0), ("", 18)])
def test_single_entries_of_the_vocabulary_may_be_changed_by_hooks(where, entry):
    """None of them stands among a few rows that the proof could have looked at, or stands there at its own place."""

    def raise_entry(_, __, output):
        changed = output if isinstance(output, torch.Tensor) else output.logits
        changed[..., entry] += 5.0  # as a bias on tokens does, or a ban of some

    plain = tiny.model("llama", "CausalLM")
    plain.get_submodule(where).register_forward_hook(raise_entry)
    found = Explainer(plain, tiny.tokenizer_for("llama"))(tiny.TEXTS[2], target=[17, 18, 23], method="logat")
    logits = tiny.logits_of(plain, found.token_ids)  # (T, V)
    torch.testing.assert_close(torch.tensor(found.scores), logits[:, [17, 18, 23]].T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("family", "kind"), [("gpt2", "CausalLM"), ("bert", "MaskedLM"), ("t5", "Seq2SeqLM")])
def test_rows_of_a_vocabulary_are_computed_alone_unless_a_hook_sees_all_of_them(family, kind):
    model = tiny.model(family, kind)
    path = headpiece.output_embedding_path(model)
    assert model.get_submodule(path) is model.get_output_embeddings()
    model.get_output_embeddings().register_forward_hook(lambda *_: None)
    assert headpiece.output_embedding_path(model) is None
    assert headpiece.output_embedding_path(tiny.model("bert")) is None


class BesideOthers(torch.nn.Module):
    """A head that answers a text by itself, but reads the one before it where there are more than two."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, x):
        return self.head(x + 0.5 * x.roll(1, 0) if len(x) > 2 else x)


def test_a_head_whose_logits_at_a_token_depend_on_the_tokens_beside_it_is_refused():
    plain = tiny.model("bert")
    plain.classifier = BesideOthers(plain.classifier)
    explainer = Explainer(plain, tiny.tokenizer_for("bert"))
    with pytest.raises(HeadMismatchError, match="the logits at a token differ beside others"):
        explainer(tiny.TEXTS[0], method="normxlogit")


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient"])
def test_a_model_without_layers_is_its_embeddings_and_its_head(method):
    model = tiny.model("bert", num_hidden_layers=0)
    result = Explainer(model, tiny.tokenizer_for("bert"))(tiny.TEXTS[0], method=method)
    logits = tiny.logits_of(model, result.token_ids)
    assert result.prediction.value == pytest.approx(logits.max().item(), abs=1e-5)
    if method == "frozen-gradient":
        assert result.scores.sum() + result.bias == pytest.approx(logits.max().item(), abs=1e-4)


def test_an_output_embedding_without_a_matrix_has_no_rows(monkeypatch):
    model = tiny.model("gpt2", "CausalLM")
    for embedding in (None, torch.nn.Identity(), torch.nn.LayerNorm(32), torch.nn.Conv1d(2, 2, 1)):
        monkeypatch.setattr(type(model), "get_output_embeddings", lambda _, embedding=embedding: embedding)
        assert headpiece.output_embedding_path(model) is None
