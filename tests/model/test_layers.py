"""Which layers a caller means."""

import numpy as np
import pytest

from normxlogit import ALL, Explainer, MethodError
from normxlogit.model.layers import layer_numbers
from tests import tiny


@pytest.fixture(scope="module")
def model():
    e = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    e("the cat")
    return e._model


@pytest.mark.parametrize(
    ("layers", "numbers"),
    [(None, ()), (ALL, (1, 2, 3)), (2, (2,)), ([3, 1], (3, 1)), (np.int64(1), (1,)), ((np.int8(2), 3), (2, 3))],
)
def test_numbers(model, layers, numbers):
    assert layer_numbers(layers, model) == numbers


@pytest.mark.parametrize("layers", [0, 4, -1, [1, 4], True, [], 1.0, "1", "all", [True], [1.5], ["1"]])
def test_what_is_no_layer_is_refused(model, layers):
    with pytest.raises(MethodError, match=r"layer"):
        layer_numbers(layers, model)
