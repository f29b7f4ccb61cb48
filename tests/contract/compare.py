"""Tiny explainers, and comparisons of their results."""

import numpy as np

from tests import tiny


def explainer(family="bert", kind="SequenceClassification", **options):
    """Return the explainer of a tiny model."""
    return tiny.explainer(family, kind, **options)


def close(actual, expected, tolerance=1e-5):
    """Compare arrays, relative to the largest value that is expected."""
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(expected).max()))
    )


def same(actual, expected):
    """Compare the scores of two lists of results."""
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-4, atol=1e-5)
