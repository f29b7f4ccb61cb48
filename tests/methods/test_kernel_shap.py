"""KernelSHAP's own subsets; what it has in common with other perturbation methods is tested with them."""

import itertools

import numpy as np

from normxlogit import Explainer
from normxlogit.methods.perturbation import shapley_subsets

from .test_perturbation import bert, close


def test_sizes_are_drawn_as_the_shapley_kernel_weighs_them():
    drawn = itertools.islice(shapley_subsets(6, 0), 4002)
    sizes = [int(subset.sum()) for subset in drawn]
    assert sizes[:2] == [6, 0]
    chances = np.array([1 / (size * (6 - size)) for size in range(1, 6)])
    np.testing.assert_allclose(np.bincount(sizes[2:])[1:] / 4000, chances / chances.sum(), atol=0.025)


def test_as_many_samples_as_subsets_are_exact():
    e = Explainer(*bert())
    text = "the movie good"
    close(e(text, method="kernel-shap:samples=8").scores, e(text, method="kernel-shap:samples=200").scores, 1e-3)
