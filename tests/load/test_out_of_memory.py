"""Memory that runs out at any operation: smaller batches or one line, and the next call is right."""

import pytest

from normxlogit import ALL, Explainer
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
