"""All methods at little cost, and comparisons of results."""

import numpy as np
import pytest

from normxlogit import list_methods

CHEAP = {
    "lime": "lime:samples=30,alpha=0.0001",  # with the default penalty the scores of models so small are zero
    "context-cite": "context-cite:alpha=0.0001",
    "kernel-shap": "kernel-shap:samples=30",
    "integrated-gradients": "integrated-gradients:steps=4",
}
METHODS = {info.name: CHEAP.get(info.name, info.name) for info in list_methods()}
"""Every method as it is typed, with few samples."""


def present(*methods):
    """Return the methods that are registered: those of a wing are not where its folder is deleted."""
    return [method for method in methods if method.partition(":")[0] in METHODS]


every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def close(actual, expected, tolerance=1e-5):
    """Compare arrays, relative to the largest value that is expected."""
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(expected).max()))
    )


def total(result):
    """Return what scores, bias and attention sinks add up to, of each target and layer."""
    return result.scores.sum(-1) + result.bias + (0 if result.sink is None else result.sink)


def same(actual, expected):
    """Compare the scores of two lists of results."""
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-4, atol=1e-5)
