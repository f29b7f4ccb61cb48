"""Results as SHAP's explanations: values and base value add up to what is explained."""

import sys

import numpy as np
import pytest

from normxlogit import ALL, Attributions, Explainer
from tests import tiny
from tests.contract.test_sum_rules import CLOSE, FROZEN, TEXT


@pytest.fixture
def explainer():
    return Explainer(tiny.model("bert", num_labels=3), tiny.tokenizer_for("bert"))


@pytest.fixture
def shap(monkeypatch):
    """The class of shap that is used."""

    class Explanation:
        def __init__(self, values, base_values, data, **names):
            self.values, self.base_values = values, base_values

    module = type(sys)("shap")
    module.Explanation = Explanation
    monkeypatch.setitem(sys.modules, "shap", module)


@pytest.mark.usefixtures("shap")
def test_shap_begins_at_the_bias(explainer):
    many = explainer([TEXT, "bad"], method=FROZEN)
    for one in many:
        found = one.to_shap()
        assert found.values.sum() + found.base_values == pytest.approx(one.prediction.value, abs=1e-3)
    found = many.to_shap()
    totals = [values.sum() + base for values, base in zip(found.values, found.base_values, strict=True)]
    np.testing.assert_allclose(totals, [one.prediction.value for one in many], **CLOSE)
    labels = explainer(TEXT, method=FROZEN, target=ALL)
    found = labels.to_shap()
    assert found.base_values.shape == (3,)
    np.testing.assert_allclose(found.values.sum(0) + found.base_values, labels.scores.sum(-1) + labels.bias, **CLOSE)
    mixed = Attributions([labels, many[0]]).to_shap()
    totals = mixed.values[0].sum(0) + mixed.base_values[0]
    np.testing.assert_allclose(totals, labels.scores.sum(-1) + labels.bias, **CLOSE)
    assert explainer(TEXT, method="normxlogit").to_shap().base_values == 0
