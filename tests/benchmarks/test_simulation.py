"""Forward simulation of a linear module, of which a word's score is what the answer loses without it."""

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score, recall_score, roc_auc_score

from benchmarks import simulation
from normxlogit import Explainer
from tests import plain, tiny

WORDS = [word for word in tiny.WORDS if word.isalpha()]


@pytest.fixture(scope="module")
def linear():
    """Two labels with opposite logits: the log odds are twice the sum of the words' weights, which are small."""
    module = plain.Bag(2).eval()
    with torch.no_grad():
        module.words.weight.copy_(torch.randn(module.words.weight.shape, generator=torch.manual_seed(0)) * 0.4)
        module.head.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        module.head.bias.zero_()
    return Explainer(module, tiny.tokenizer(specials=False), task="sequence-classification", labels=["no", "yes"])


@pytest.fixture(scope="module")
def texts():
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, 8)) for _ in range(80)]


def test_deleted_words_are_what_a_plain_loop_measures(linear, texts):
    words = simulation.delete_each_word(linear, linear.encode(texts[:3]))
    ids = [linear.tokenizer(text)["input_ids"] for text in texts[:3]]
    with torch.no_grad():
        for text, tokens, without, flips in zip(words.text, words.tokens, words.without, words.flips, strict=True):
            left = [i for place, i in enumerate(ids[text]) if place not in tokens]
            before, after = (linear.model(torch.tensor([row]), torch.ones(1, len(row)))[0] for row in (ids[text], left))
            label = int(before.argmax())
            assert without == pytest.approx(float(after[label] - after[1 - label]), abs=1e-4)
            assert flips == (int(after.argmax()) != label)


def test_figures_and_intervals_are_those_of_scikit_learn_on_drawn_texts():
    draw = np.random.default_rng(1)
    text = np.repeat(np.arange(12), 9)
    whole = np.repeat(draw.uniform(0.1, 0.5, 12), 9)
    without = whole - draw.normal(size=108)
    words = simulation.Deletions(text, [], whole, without, without < 0)
    scores = (whole - without) + draw.normal(size=108)
    told, p = simulation.simulate(words, scores)
    result = simulation.judge("noisy", 1.0, words, scores)
    before = simulation.probability_of(whole)
    assert result.auroc[0] == pytest.approx(roc_auc_score(words.flips, told))
    assert result.changed[0] == pytest.approx(recall_score(words.flips, told > 0.5))
    assert result.unchanged[0] == pytest.approx(recall_score(~words.flips, told <= 0.5))
    assert result.r2[0] == pytest.approx(r2_score(before - simulation.probability_of(without), before - p))
    drawn = [draw.choice(12, 12) for _ in range(400)]
    rows = [np.concatenate([np.flatnonzero(text == t) for t in sample]) for sample in drawn]
    low, high = np.percentile([roc_auc_score(words.flips[r], told[r]) for r in rows], [2.5, 97.5])
    assert result.auroc[1:] == pytest.approx((low, high), abs=0.03)
