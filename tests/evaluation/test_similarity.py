"""How methods rank the tokens of two texts: on scores known beforehand, and what is averaged, recomputed plainly."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import rankdata

from normxlogit import DataError
from normxlogit.evaluation.similarity import SimilarityResult, _summarised, evaluate_similarity, similarity_table
from normxlogit.methods import method_named

SCORES = {
    "occlusion": {"ab": [9, 3, 1, 2, 9, 8, 5, 7, 6, 9], "cd": [0, 1, 2, 0, 4, 0], "ef": [0, 5, 6, 0]},
    "random": {"ab": [0, 1, 3, 2, 0, 4, 4, 4, 4, 0], "cd": [0, 5, 4, 3, 0, 9], "ef": [0, 6, 5, 0]},
}
SIDES = {"ab": "x000x1111x", "cd": "x00x1x", "ef": "x01x"}
"""Of which text each token is; x is special."""


class Told:
    """An explainer that says what it is told to."""

    def __init__(self):
        self.asked = []

    def similarity(self, first, second, *, method):
        self.asked.append(method_named(method).info.name)
        sides = SIDES[first + second]
        return SimpleNamespace(
            scores=np.array(SCORES[method_named(method).info.name][first + second], np.float32),
            sequence_ids=np.array([side == "1" for side in sides], int),
            special_tokens_mask=[side == "x" for side in sides],
        )


def test_each_text_of_three_tokens_is_compared_with_leave_one_out():
    told, explainer = [], Told()
    found = evaluate_similarity(
        explainer, [("a", "b"), ("c", "d")], ["random", "occlusion"], on_progress=lambda *step: told.append(step)
    )
    assert [r.method for r in found] == ["occlusion", "random"]
    assert told == [("pairs", 1, 2), ("pairs", 2, 2)]
    assert explainer.asked == ["occlusion", "random"] * 2, "each once for a pair"
    occlusion, random = found
    assert (occlusion.texts, random.texts) == (2, 2), "c and d are too short"
    assert occlusion.spearman == pytest.approx((1, 1, 1))
    assert occlusion.agrees == (1, 1, 1)
    assert occlusion.drop == pytest.approx((5.5, 5.5, 5.5)), "the mean of 3 and 8: one pair, so no spread"
    ranks = np.corrcoef(rankdata([3, 1, 2]), rankdata([1, 3, 2]))[0, 1]
    assert random.spearman[0] == pytest.approx(ranks / 2), "what says the same of all tokens has no rank correlation"
    assert random.agrees[0] == 0.5, "of those that are all the same the first token counts"
    assert random.drop[0] == pytest.approx((1 + 8) / 2), "what leave-one-out says of the method's first token"
    assert (occlusion.passes, random.passes) == tuple(method_named(n).info.passes for n in ("occlusion", "random"))


def test_leave_one_out_that_says_the_same_of_all_ranks_nothing(monkeypatch):
    monkeypatch.setitem(SCORES["occlusion"], "ab", [0, 1, 2, 3, 0, 4, 4, 4, 4, 0])
    monkeypatch.setitem(SCORES["random"], "ab", [0, 3, 2, 1, 0, 5, 6, 7, 8, 0])
    found = evaluate_similarity(Told(), [("a", "b")], ["random"])[1]
    assert (found.spearman[0], found.agrees[0]) == (pytest.approx(-0.5), 0)


def test_texts_of_fewer_tokens_are_refused():
    with pytest.raises(DataError, match="no text has 3 tokens"):
        evaluate_similarity(Told(), [("c", "d"), ("e", "f")], ["random"])


def test_intervals_are_quantiles_of_resampled_pairs():
    rng = np.random.default_rng(0)
    pairs = [rng.random((texts, 3)) for texts in (1, 2, 2, 1, 2, 2)]
    found = _summarised(method_named("random"), pairs, 3)
    assert found.texts == 10
    draws = np.random.default_rng(3).integers(0, 6, (2000, 6))
    for column, (mean, low, high) in enumerate((found.spearman, found.agrees, found.drop)):
        assert mean == pytest.approx(np.concatenate(pairs)[:, column].mean())
        means = [np.concatenate([pairs[i] for i in row])[:, column].mean() for row in draws]
        np.testing.assert_allclose([low, high], np.quantile(means, [0.025, 0.975]))


def test_the_seed_is_the_bootstraps_and_zero_unless_given(monkeypatch):
    pairs = [(str(number), "") for number in range(30)]
    for first, _ in pairs:
        monkeypatch.setitem(SIDES, first, "0000011111")
        for place, scores in enumerate(SCORES.values()):
            monkeypatch.setitem(scores, first, np.random.default_rng([int(first), place]).random(10))
    found = {seed: evaluate_similarity(Told(), pairs, ["random"], seed=seed) for seed in (0, 1)}
    assert evaluate_similarity(Told(), pairs, ["random"]) == found[0]
    assert found[0] != found[1]


def test_the_table_begins_with_leave_one_out_and_goes_on_with_the_best():
    def result(method, rho):
        return SimilarityResult(method, 4, (rho, 0.3 - rho, 0.9 - rho), (0.75, 0.5, 1.0), (0.123, 0.0, 0.25), "1")

    rows = [result("occlusion", 0.3), result("logat", 0.1), result("normxlogit", 0.2)]
    assert similarity_table(rows) == (
        "| method | passes | Spearman ↑ | first token as leave-one-out's ↑ | its drop ↑ |\n"
        "|---|---|---:|---:|---:|\n"
        "| occlusion | 1 | 0.30 (0.00 to 0.60) | 0.75 (0.50 to 1.00) | 0.12 (0.00 to 0.25) |\n"
        "| normxlogit | 1 | 0.20 (0.10 to 0.70) | 0.75 (0.50 to 1.00) | 0.12 (0.00 to 0.25) |\n"
        "| logat | 1 | 0.10 (0.20 to 0.80) | 0.75 (0.50 to 1.00) | 0.12 (0.00 to 0.25) |\n"
    )
