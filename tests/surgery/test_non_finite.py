"""Where the first value appears that is no number."""

import pytest
import torch

from normxlogit.surgery.clone import clone
from normxlogit.surgery.non_finite import is_finite, non_finite_error
from tests import tiny

INF, NAN = torch.inf, torch.nan


@pytest.mark.parametrize(
    ("values", "number"),
    [([1.0, 2.0], True), ([], True), ([1.0, NAN], False), ([INF, 1.0], False), ([1.0, -INF], True),
     ([-INF, -INF], False), ([-3e38, -3e38, 1.0], True), ([INF, -INF], False)],
)  # fmt: skip
def test_numbers(values, number):
    assert is_finite(torch.tensor(values)) is number


def test_the_innermost_module_that_spoils_a_real_token():
    model = clone(tiny.model("bert"))
    inputs = {"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": torch.tensor([[1, 1, 0]])}
    last = model.bert.encoder.layer[-1]
    first, second = last.intermediate, last.output.dense

    def spoil(row):
        def hook(_, __, output):
            output = output.clone()
            output[0, row] = NAN
            return output

        return hook

    first.register_forward_hook(spoil(2))  # padding
    second.register_forward_hook(spoil(0))
    said = str(non_finite_error(model, inputs))
    assert "first in what bert.encoder.layer.2.output.dense returns; load the model" in said


def test_weights_are_blamed_where_they_are_broken():
    model = clone(tiny.model("bert"))
    with torch.no_grad():
        model.classifier.bias[0] = INF
    said = str(non_finite_error(model, {"input_ids": torch.tensor([[5, 6]])}))
    assert said.endswith("first in what classifier returns, whose bias is not finite: the weights are broken")


def test_a_model_that_no_longer_runs_is_blamed_as_a_whole(monkeypatch):
    model = clone(tiny.model("bert"))
    monkeypatch.setattr(type(model), "forward", lambda *_, **__: 1 / 0)
    assert "in its head" in str(non_finite_error(model, {"input_ids": torch.tensor([[5, 6]])}))
