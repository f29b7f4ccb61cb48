"""Memory that runs out at any operation: smaller batches or one line, and the next call is right."""

import contextlib

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer, InputError
from tests import tiny
from tests.contract.compare import same
from tests.contract.faults import AtOperation, moments
from tests.contract.untouched import nothing_left_behind

CALLS = [
    *(("normxlogit", ALL), ("frozen-gradient", None), ("frozen-gradient", ALL), ("occlusion", None)),
    *(("lime:samples=6", None), ("integrated-gradients:steps=2", None), ("decompx", ALL), ("value-zeroing", None)),
]


def bert(tokenizer):
    return Explainer(tiny.model("bert"), tokenizer)


@pytest.mark.parametrize(("method", "layers"), CALLS, ids=str)
def test_once_at_any_operation(method, layers):
    """Reading, finding the parts, the trunk, the head, the way back, the perturbed texts: each has its moment."""
    tokenizer = tiny.tokenizer_for("bert")
    expected = bert(tokenizer)(tiny.TEXTS, method=method, layers=layers)
    counted = bert(tokenizer)
    with AtOperation() as operations:
        counted(tiny.TEXTS, method=method, layers=layers)
    for moment in moments(operations.seen, 6):
        explainer = bert(tokenizer)
        with nothing_left_behind(explainer._model.caller_model, tokenizer):
            with AtOperation(moment):
                same(explainer(tiny.TEXTS, method=method, layers=layers), expected)
            same(explainer(tiny.TEXTS, method=method, layers=layers), expected)


DOORS = {
    "completion": lambda e: e.explain_completion("the cat sat", " on the mat"),
    "generation": lambda e: e.generate("the cat sat", max_new_tokens=3),
    "citations": lambda e: e.cite("a cat ?", ["the cat sat . the mat is good .", "a film ."], max_new_tokens=3),
    "comparison": lambda e: e.compare("the cat sat on", ["normxlogit", "frozen-gradient", "occlusion"]),
    "a long text": lambda e: e(" ".join(["the cat sat"] * 30), long_text="window"),
    "outputs": lambda e: e.from_outputs(*OUTPUTS["of the first text"]),
}


OUTPUTS = {}
"""Made where memory does not run out: it is the caller's own pass."""


def numbers(result):
    if hasattr(result, "scores"):
        return np.asarray(result.scores)
    if hasattr(result, "attribution"):
        return np.asarray(result.attribution.scores)
    return np.concatenate([np.ravel(one.scores) for one in getattr(result, "results", result)])


@pytest.mark.parametrize("name", DOORS)
def test_once_behind_another_door(name):
    tokenizer, door = tiny.tokenizer_for("llama"), DOORS[name]
    tokenizer.model_max_length = 40 if name == "a long text" else 400
    kind = "SequenceClassification" if name in ("a long text", "outputs") else "CausalLM"

    def explainer():
        return Explainer(tiny.model("llama", kind), tokenizer)

    inputs = tokenizer(tiny.TEXTS[:1], return_tensors="pt")
    with torch.no_grad():
        OUTPUTS["of the first text"] = inputs, explainer()._model.caller_model(**inputs, output_hidden_states=True)
    expected = numbers(door(explainer()))
    counted = explainer()
    with AtOperation() as operations:
        door(counted)
    for moment in moments(operations.seen, 6):
        struck = explainer()
        with nothing_left_behind(struck._model.caller_model, tokenizer):
            with contextlib.suppress(InputError), AtOperation(moment):  # a lack of memory, raw, is none
                np.testing.assert_allclose(numbers(door(struck)), expected, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(numbers(door(struck)), expected, rtol=1e-4, atol=1e-5)
