from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import rankdata

from benchmarks.similarity import evaluate_similarity
from normxlogit.methods import method_named

SCORES = {
    "occlusion": {"ab": [9, 3, 1, 2, 9, 8, 5, 7, 6, 9], "cd": [0, 1, 2, 0, 4, 0], "ef": [0, 5, 6, 0]},
    "random": {"ab": [0, 1, 3, 2, 0, 4, 4, 4, 4, 0], "cd": [0, 5, 4, 3, 0, 9], "ef": [0, 6, 5, 0]},
}
SIDES = {"ab": "x000x1111x", "cd": "x00x1x", "ef": "x01x"}
"""Of which text each token is; x is special."""


class Known:
    def __init__(self):
        self.calls = []

    def similarity(self, first, second, *, method):
        self.calls.append(method_named(method).info.name)
        sides = SIDES[first + second]
        return SimpleNamespace(
            scores=np.array(SCORES[method_named(method).info.name][first + second], np.float32),
            units=SimpleNamespace(sequence=np.array([side == "1" for side in sides], int)),
            special_tokens_mask=[side == "x" for side in sides],
        )


def test_each_text_of_three_tokens_is_compared_with_leave_one_out():
    steps, explainer = [], Known()
    found = evaluate_similarity(
        explainer, [("a", "b"), ("c", "d")], ["random", "occlusion"], on_progress=lambda *step: steps.append(step)
    )
    assert [r.method for r in found] == ["occlusion", "random"]
    assert steps == [("pairs", 1, 2), ("pairs", 2, 2)]
    assert explainer.calls == ["occlusion", "random", "occlusion"], "each once for a pair with long texts"
    occlusion, random = found
    assert (occlusion.texts, random.texts) == (2, 2), "c and d are too short"
    assert occlusion.means["spearman"] == pytest.approx((1, 1, 1))
    assert occlusion.means["agrees"] == (1, 1, 1)
    assert occlusion.means["first"] == pytest.approx((5.5, 5.5, 5.5)), "the mean of 3 and 8: one pair, so no spread"
    ranks = np.corrcoef(rankdata([3, 1, 2]), rankdata([1, 3, 2]))[0, 1]
    assert random.means["spearman"][0] == pytest.approx(ranks / 2), "the second text's scores are constant"
    assert random.means["agrees"][0] == 0.5, "of equal scores the first token counts"
    assert random.means["first"][0] == pytest.approx((1 + 8) / 2)
    assert (occlusion.passes, random.passes) == tuple(method_named(n).info.passes for n in ("occlusion", "random"))
