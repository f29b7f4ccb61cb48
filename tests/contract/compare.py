"""All methods at little cost, and comparisons of results."""

import json

import numpy as np
import pytest

import normxlogit
from normxlogit import list_methods
from tests import tiny

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


def same(actual, expected, atol=1e-5):
    """Compare the scores of two lists of results."""
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-4, atol=atol)


def nats_of(model, ids, count):
    """Return the log-probability of the last tokens of a row, by the caller's own model in one pass."""
    logs = tiny.logits_of(model, ids).log_softmax(-1)
    return sum(float(logs[i - 1, ids[i]]) for i in range(len(ids) - count, len(ids)))


def nats(explainer, before, after):
    """Return the log-probability of a text after another, by the caller's own model in one pass."""
    encode = explainer.tokenizer
    first, both = (encode(text, add_special_tokens=False)["input_ids"] for text in (before, before + after))
    return nats_of(explainer.model, both, len(both) - len(first))


def refused(error, message, *calls):
    """Check that each call is an error of this type that says so."""
    for call in calls:
        with pytest.raises(error, match=message):
            call()


def comes_back(result, folder):
    """Check that a result or a collection is the same again after it was written in every form that is read."""
    assert type(result).from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False))) == result
    for name in ("result.json", "result.parquet"):
        result.save(folder / name)
        loaded = normxlogit.load(folder / name)
        assert (type(loaded), loaded) == (type(result), result)
    json.loads((folder / "result.json").read_text("utf-8"), parse_constant=pytest.fail)  # as any other parser
