import numpy as np
import pytest
import torch
import transformers
from torch import nn

from normxlogit import Explainer
from normxlogit.errors import InputError, NormXLogitError, UnsupportedModelError
from tests import plain, tiny


def explainer(module, task="sequence-classification", labels=None, **options):
    return Explainer(module, tiny.tokenizer(specials=False), task=task, labels=labels, **options)


def by_hand(module, ids, label):
    with torch.no_grad():
        ids = torch.tensor([ids])
        if isinstance(module, plain.Transformer):
            first, final = module.embed(ids), module.states(ids)
        elif isinstance(module, plain.Wrapped):
            states = module.encoder(ids, torch.ones_like(ids), output_hidden_states=True).hidden_states
            first, final = states[0], states[-1]
        else:
            first = module.words(ids)
            final = module.lstm(first)[0]
        return (first[0].norm(dim=-1) * module.out(final)[0, :, label]).numpy()


@pytest.mark.parametrize("kind", [plain.Transformer, plain.Wrapped, plain.Recurrent])
def test_a_plain_module_is_explained_by_its_own_head(kind):
    module = plain.grown(kind())
    e = explainer(module, labels=plain.LABELS)
    alone = [e(text, method="normxlogit") for text in tiny.TEXTS]
    for result, among in zip(alone, e(tiny.TEXTS, method="normxlogit"), strict=True):
        ids = torch.tensor([result.token_ids])
        with torch.no_grad():
            logits = module(ids, torch.ones_like(ids)) if kind is not plain.Recurrent else module(ids)
        logits = logits[1] if isinstance(logits, tuple) else logits
        assert result.prediction.label == plain.LABELS[int(logits.argmax())]
        assert result.prediction.value == pytest.approx(logits.max().item(), abs=1e-5)
        expected = by_hand(module, list(result.token_ids), result.prediction.id)
        np.testing.assert_allclose(result.scores, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(among.scores, expected, rtol=1e-4, atol=1e-5)


class NoHead(nn.Module):
    def forward(self, input_ids):
        return input_ids


REFUSED = [
    (plain.Transformer, {"task": None}, UnsupportedModelError, "task= one of sequence-classification"),
    (plain.Transformer, {"task": "multiple-choice"}, UnsupportedModelError, "what it is for must be said"),
    (plain.Transformer, {"task": "causal-lm"}, UnsupportedModelError, "needs logits for every token"),
    (plain.Tagger, {}, UnsupportedModelError, "needs logits for the whole text"),
    (plain.Transformer, {"labels": ["no", "yes"]}, InputError, "3 outputs and 2 labels"),
    (NoHead, {}, UnsupportedModelError, r"returns a tensor of shape \(1, 3\) and type int64"),
]


@pytest.mark.parametrize(("kind", "options", "error", "message"), REFUSED)
def test_what_a_plain_module_must_be(kind, options, error, message):
    with pytest.raises(error, match=message):
        explainer(plain.grown(kind()), **options)


@pytest.mark.parametrize(("count", "shown"), [(6, "'L4', 'L5'], "), (8, "'L4', 'L5' and 2 more], ")])
def test_a_summary_has_six_labels_at_most(count, shown):
    named = {i: f"L{i}" for i in range(count)}
    model = tiny.model("bert", id2label=named, label2id={name: i for i, name in named.items()})
    assert shown in repr(Explainer(model, tiny.tokenizer_for("bert")))


class Probabilities(transformers.BertForSequenceClassification):
    """A class of one's own whose forward ends in a softmax."""

    def forward(self, *args, **inputs):
        output = super().forward(*args, **inputs)
        output["logits"] = output.logits.softmax(-1)
        return output


def test_the_logits_of_a_class_of_ones_own_that_ends_in_a_softmax_are_explained():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    usual = Explainer(model, tokenizer)(tiny.TEXTS[0])
    model.__class__ = Probabilities
    own = Explainer(model, tokenizer)(tiny.TEXTS[0])
    assert own.prediction.value == pytest.approx(usual.prediction.value, abs=1e-5)
    assert own.prediction.probability == pytest.approx(usual.prediction.probability, abs=1e-6)
    np.testing.assert_allclose(own.scores, usual.scores, atol=1e-5)
    assert any("softmax" in note or "probabilities" in note for note in own.notes)


class OtherName(plain.Tagger):
    """Takes ids by a name of its own alone, and returns logits in a mapping."""

    def forward(self, sentence):
        return super().forward(sentence)


def test_a_module_may_call_its_ids_by_another_name():
    module = plain.grown(OtherName())
    result = explainer(module, "token-classification", labels=plain.LABELS)(tiny.TEXTS[0], position=2)
    with torch.no_grad():
        logits = module(torch.tensor([result.token_ids]))["logits"][0, 2]
    assert result.prediction.value == pytest.approx(logits.max().item(), abs=1e-5)


class AnswersOtherwiseAlone(transformers.BartForConditionalGeneration):
    """Answers twice as loud where it reads its source itself, and not an encoder's states."""

    def forward(self, input_ids=None, **inputs):
        output = super().forward(input_ids=input_ids, **inputs)
        output["logits"] = output.logits * (1.0 if input_ids is None else 2.0)
        return output


def test_a_copy_that_is_called_in_another_way_must_answer_as_the_callers_model():
    model, tokenizer = tiny.model("bart", "Seq2SeqLM"), tiny.tokenizer_for("bart")
    Explainer(model, tokenizer).explain_completion("a film", "the cat")
    model.__class__ = AnswersOtherwiseAlone
    with pytest.raises(NormXLogitError, match="differ"):
        Explainer(model, tokenizer).explain_completion("a film", "the cat")
