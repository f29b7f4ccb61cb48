"""Deletion curves against a plain loop over the model."""

import numpy as np
import pytest
import torch

from normxlogit import DataError, Explainer, UnsupportedModelError
from normxlogit.evaluation.deletion import DeletionCurve, deletion_curve
from tests import tiny
from tests.factories import make_attribution

TEXT = tiny.TEXTS[2]


def by_hand(model, ids, order, mask, read):
    """Take the tokens away one after the other, the first of the order first."""
    values = []
    for count in range(len(order) + 1):
        gone = set(order[:count])
        if mask is None:
            left = [i for place, i in enumerate(ids) if place not in gone] or [tiny.IDS["bos_token_id"]]
        else:
            left = [mask if place in gone else i for place, i in enumerate(ids)]
        with torch.no_grad():
            values.append(read(model(input_ids=torch.tensor([left])).logits[0]))
    return values


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({}, lambda logits: float(logits.softmax(-1)[1])),
        ({"num_labels": 1}, lambda logits: float(logits[0])),
        ({"problem_type": "multi_label_classification"}, lambda logits: float(logits.sigmoid()[1])),
    ],
)
def test_classifiers_equal_a_plain_loop(options, read):
    model, tokenizer = tiny.model("roberta", **options), tiny.tokenizer_for("roberta")
    explainer = Explainer(model, tokenizer)
    a = explainer(TEXT, method="random", target=0 if options.get("num_labels") else 1)
    curve = deletion_curve(explainer, a, points=100)
    ids = tokenizer(TEXT)["input_ids"]
    words = sorted(a.words(), key=lambda word: -word.score)
    order = [i for word in words for i in word.tokens]
    assert len(order) == len(words) == len(ids) - 2
    assert curve.units == tuple(word.text for word in words)
    mask = tokenizer.mask_token_id
    np.testing.assert_allclose(curve.highest_first, by_hand(model, ids, order, mask, read), atol=1e-5)
    np.testing.assert_allclose(curve.lowest_first, by_hand(model, ids, order[::-1], mask, read), atol=1e-5)
    assert curve.quantity == ("value" if options.get("num_labels") else "probability")
    assert curve.masked


def test_a_causal_model_reads_at_the_last_token_that_is_left():
    model, tokenizer = tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama")
    explainer = Explainer(model, tokenizer)
    a = explainer("once upon a time the cat", method="random", target="sat")
    curve = deletion_curve(explainer, a)
    ids = tokenizer("once upon a time the cat")["input_ids"]
    order = np.argsort(-a.scores[:-1], kind="stable").tolist()  # all but the token at which the answer is read
    row = tiny.VOCABULARY["sat"]
    wanted = by_hand(model, ids, order, None, lambda logits: float(logits[-1].softmax(-1)[row]))
    np.testing.assert_allclose(curve.highest_first, wanted, atol=1e-5)
    assert not curve.masked
    assert "cat" not in curve.units


def test_a_masked_model_keeps_its_mask():
    explainer = Explainer(tiny.model("bert", "MaskedLM"), tiny.tokenizer_for("bert"))
    a = explainer(tiny.MASKED)
    curve = deletion_curve(explainer, a)
    assert "[MASK]" not in curve.units
    assert curve.highest_first[0] == pytest.approx(a.prediction.probability, rel=1e-4)


def test_a_mask_that_stands_first_is_read_there():
    explainer = Explainer(tiny.model("bert", "MaskedLM"), tiny.tokenizer(specials=False))
    a = explainer("[MASK] cat sat on the mat")
    assert a.target.position == 0
    assert deletion_curve(explainer, a).highest_first[0] == pytest.approx(a.prediction.probability, rel=1e-4)


def test_long_texts_lose_several_words_at_once():
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    curve = deletion_curve(explainer, explainer(TEXT), points=4)
    assert len(curve.shares) == 5
    assert (curve.shares[0], curve.shares[-1]) == (0, 1)
    assert curve.highest_first[0] == curve.lowest_first[0]
    assert curve.highest_first[-1] == pytest.approx(curve.lowest_first[-1])


def test_the_gap_is_the_area_between():
    curve = DeletionCurve("x", "probability", ("a", "b"), (0.0, 0.5, 1.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), True)
    assert curve.gap == pytest.approx(0.5)


def test_what_has_no_curve_says_why():
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    several = explainer(TEXT, layers=[1, 2])
    with pytest.raises(DataError, match="one score for each token"):
        deletion_curve(explainer, several)
    with pytest.raises(DataError, match="not those that this model reads"):
        deletion_curve(explainer, make_attribution())
    reader = Explainer(tiny.model("bert", "QuestionAnswering"), tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="not of question-answering"):
        deletion_curve(reader, reader(tiny.PAIR))
