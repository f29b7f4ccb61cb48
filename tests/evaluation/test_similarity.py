"""What is averaged over pairs of texts, recomputed plainly."""

import numpy as np
import pytest

from normxlogit.evaluation.similarity import _summarised
from normxlogit.methods import method_named


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
