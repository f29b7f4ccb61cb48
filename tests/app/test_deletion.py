"""Deletion curves against a plain loop over the model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from normxlogit import DataError, Explainer
from normxlogit.app.deletion import DeletionCurve, deletion_curve
from tests import tiny

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
        values.append(read(tiny.logits_of(model, left)))
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
    curve = deletion_curve(explainer.task_model, a, points=100)
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
    curve = deletion_curve(explainer.task_model, a)
    ids = tokenizer("once upon a time the cat")["input_ids"]
    order = np.argsort(-a.scores[:-1], kind="stable").tolist()  # all but the token at which the answer is read
    row = tiny.VOCABULARY["sat"]
    wanted = by_hand(model, ids, order, None, lambda logits: float(logits[-1].softmax(-1)[row]))
    np.testing.assert_allclose(curve.highest_first, wanted, atol=1e-5)
    assert not curve.masked
    assert "cat" not in curve.units


def test_a_mask_that_stands_first_is_read_there():
    explainer = Explainer(tiny.model("bert", "MaskedLM"), tiny.tokenizer(specials=False))
    a = explainer("[MASK] cat sat on the mat")
    assert a.target.position == 0
    assert deletion_curve(explainer.task_model, a).highest_first[0] == pytest.approx(a.prediction.probability, rel=1e-4)


@pytest.mark.parametrize(("text", "specials", "position"), [(TEXT, False, 4), ("bad", True, 1), ("bad", False, 0)])
def test_a_label_is_read_at_the_last_token_before_its_own_that_is_left(text, specials, position):
    model, tokenizer = tiny.model("gpt2", "TokenClassification"), tiny.tokenizer(specials=specials)
    explainer = Explainer(model, tokenizer)
    a = explainer(text, position=position, target=1, method="random")
    ids = tokenizer(text)["input_ids"]
    order = np.argsort(-a.scores, kind="stable").tolist()
    plain = [place for place in order if not a.special_tokens_mask[place]]
    order = [place for place in plain if place != position] or plain  # its own token stays while there are others
    values = []
    for count in range(len(order) + 1):
        left = [place for place in range(len(ids)) if place not in order[:count]]
        before = sum(place <= position for place in left)
        row = torch.tensor([[ids[place] for place in left] or [tiny.IDS["eos_token_id"]]])
        with torch.no_grad():
            values.append(float(model(row).logits[0, max(before - 1, 0)].softmax(-1)[1]))
    np.testing.assert_allclose(deletion_curve(explainer.task_model, a).highest_first, values, atol=1e-5)
    assert np.ptp(values) > 1e-3


def test_tokens_are_taken_away_where_words_cannot_be_told():
    explainer = tiny.explainer("bert")
    a = explainer("the cats", method="random")
    scores = np.array([9, 1, 3, 2, 9], np.float32)
    assert a.tokens[1:-1] == ("the", "cat", "##s")
    wordless = replace(a, scores=scores, units=replace(a.units, spans=None))
    curve = deletion_curve(explainer.task_model, wordless)
    assert curve.units == ("cat", "##s", "the")
    assert curve.shares == pytest.approx((0, 1 / 3, 2 / 3, 1))
    assert deletion_curve(explainer.task_model, replace(a, scores=scores)).units == ("cats", "the")
    nothing = replace(wordless, units=replace(wordless.units, special=(True,) * 5))
    with pytest.raises(DataError, match="only special tokens, and nothing to delete"):
        deletion_curve(explainer.task_model, nothing)


@pytest.mark.parametrize(
    ("options", "points"), [({"points": 4}, 4), ({"points": 5}, 5), ({"points": 99}, 33), ({}, 20)]
)
def test_long_texts_lose_several_words_at_once(options, points):
    explainer = tiny.explainer("bert")
    a = explainer(" ".join(["good", "bad", "cat"] * 11), method="random")
    curve = deletion_curve(explainer.task_model, a, **options)
    assert curve.shares == tuple(round(33 * place / points) / 33 for place in range(points + 1))
    assert curve.highest_first[0] == curve.lowest_first[0]
    assert curve.highest_first[-1] == pytest.approx(curve.lowest_first[-1])


def test_the_gap_is_the_area_between():
    shares, highest, lowest = (0.0, 0.25, 0.75, 1.0), (0.9, 0.2, 0.4, 0.1), (0.9, 0.8, 0.3, 0.1)
    curve = DeletionCurve("random", "x", "probability", ("a", "b", "c", "d"), "words", shares, highest, lowest, True)
    triangles = 0.25 * 0.6 / 2, 0.5 * (0.6 - 0.1) / 2, -0.25 * 0.1 / 2
    assert curve.gap == pytest.approx(sum(triangles))
