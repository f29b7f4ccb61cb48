"""Guided LIME against a plain ridge regression, on games whose weights are known, and what it says of its own fit."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, Method
from normxlogit.decompositions.guided_lime import halves_of
from normxlogit.methods import Scores, register, registry
from tests import plain, tiny

from .test_perturbation import MASK, bert, close, masked_logits

TEXT = "the movie never was very good and awful"


def bag():
    """The explainer of a bag of words, and what each token of a text adds to its second label when it is not masked."""
    torch.manual_seed(3)
    model, made = plain.Bag().eval(), tiny.tokenizer_for("bert")

    def weights(text):
        values = model.shares(torch.tensor(made(text)["input_ids"]), MASK)[:, 1]
        values[[0, -1]] = 0
        return values

    return Explainer(model, made, task="sequence-classification", labels=["no", "yes"]), weights


@pytest.fixture
def noisy():
    """A prior that is right up to its scale, and one that says nothing."""

    @register("known", paper="none", signed=True)
    class Known(Method):
        def __init__(self, scale: float = 1.0) -> None:
            self.scale = scale

        def score(self, request):
            ids = request.forward.batch.inputs["input_ids"]
            weights = request.model.module.shares(ids, tiny.VOCABULARY["[MASK]"])  # (B, T, C)
            rows = weights.gather(2, request.target.ids[:, None].expand(-1, ids.shape[1], -1))  # (B, T, K)
            return Scores(self.scale * rows.permute(0, 2, 1)[:, :, None])

    yield "known"
    del registry._METHODS["known"]


def plain_ridge(signs, difference, prior, alpha):
    """The definition: a ridge on the distance to the prior, its scale tried until none is better."""

    def fitted(scale):
        rest = difference - scale * signs @ prior
        away = np.linalg.solve(signs.T @ signs + alpha * np.eye(signs.shape[1]), signs.T @ rest)
        cost = np.sum((rest - signs @ away) ** 2) + alpha * np.sum(away**2)
        return cost, scale * prior + away

    low, high = -100.0, 100.0  # the cost is a parabola in the scale
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if fitted(left)[0] < fitted(right)[0] else (left, high)
    return fitted((low + high) / 2)[1]


def plain_r2(halves, there, gone, prior, alpha):
    """Every pair left out in turn, everything fitted anew."""
    signs, errors, spread = 2.0 * halves - 1, [], []
    for i in range(len(halves)):
        others = np.arange(len(halves)) != i
        weights = plain_ridge(signs[others], (there - gone)[others], prior, alpha)
        middle = (there[others] + gone[others]).mean() / 2
        half = signs[i] @ weights / 2
        errors += [there[i] - middle - half, gone[i] - middle + half]
        spread += [there[i] - middle, gone[i] - middle]
    return 1 - np.sum(np.square(errors)) / np.sum(np.square(spread))


def test_scores_equal_a_plain_loop():
    (e, inputs), count = bert(TEXT, scale=8.0), 8
    prior = e(TEXT, method="normxlogit", target=1).scores[1:-1].astype(float)
    halves = halves_of(count, 6, seed=5).numpy()
    there, gone = (
        np.array([float(masked_logits(e, inputs, 1 + np.flatnonzero(row == out))[1]) for row in halves])
        for out in (0, 1)
    )
    found = e(TEXT, method="guided-lime:samples=12,prior=normxlogit,alpha=2,seed=5", target=1)
    close(found.scores[1:-1], plain_ridge(2.0 * halves - 1, there - gone, prior, 2.0), 1e-3)
    assert (found.scores[0], found.scores[-1]) == (0, 0)
    assert found.diagnostics["r2"] == pytest.approx(plain_r2(halves, there, gone, prior, 2.0), abs=1e-3)


def test_a_linear_game_with_a_right_prior_is_recovered_from_four_texts(noisy):
    e, weights = bag()
    expected = weights(TEXT)
    for scale in (1, -0.01, 300):
        found = e(TEXT, method=f"guided-lime:samples=4,prior=({noisy}:scale={scale}),alpha=100", target=1)
        close(found.scores, expected, 1e-3)
        assert found.diagnostics["r2"] > 0.999
