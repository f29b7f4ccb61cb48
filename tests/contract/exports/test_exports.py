"""Results for other programs: the numbers are those of the result."""

import sys

import numpy as np
import pytest

from normxlogit import ALL, Attributions, DataError, Explainer
from tests import tiny
from tests.contract.compare import refused
from tests.contract.test_sum_rules import CLOSE, FROZEN, TEXT


@pytest.fixture(scope="module")
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


@pytest.mark.usefixtures("shap")
def test_shap_has_no_base_for_the_scores_of_two_texts():
    pytest.importorskip("normxlogit.similarity", reason="the wing is not there")
    embedder = Explainer(tiny.model("bert").base_model, tiny.tokenizer_for("bert"), task="embedding", pooling="mean")
    refused(DataError, "each of its texts", embedder.similarity("the cat", "a dog").to_shap)


def rows_of(latex: str) -> list[list[str]]:
    """Return the cells of a table, its head first."""
    assert latex.startswith("\\begin{tabular}")
    assert [latex.count(rule) for rule in ("\\toprule", "\\midrule", "\\bottomrule")] == [1, 1, 1]
    lines = [line.removesuffix("\\\\") for line in latex.splitlines() if line.endswith("\\\\")]
    return [[cell.strip() for cell in line.split(" & ")] for line in lines]


def test_latex_has_a_row_for_each_word_with_its_score(explainer):
    pytest.importorskip("pandas")
    a = explainer(TEXT)
    head, *rows = rows_of(a.to_latex())
    assert head == ["unit", "score"]
    assert rows == [[word.text, f"{word.score:.3f}"] for word in a.words()]


def test_latex_of_several_methods_has_a_column_for_each_and_of_several_texts_a_row(explainer):
    pytest.importorskip("pandas")
    methods = explainer.compare(TEXT, ["normxlogit", "logat"])
    head, *rows = rows_of(methods.to_latex())
    assert head == ["unit", "normxlogit", "logat"]
    words = zip(*(a.words() for a in methods), strict=True)
    assert rows == [[first.text, f"{first.score:.3f}", f"{second.score:.3f}"] for first, second in words]
    head, *rows = rows_of(explainer([TEXT, "bad"]).to_latex())
    assert head[:2] == ["text", "prediction"]
    assert [row[0] for row in rows] == [TEXT, "bad"]


def test_latex_escapes_what_texts_hold(explainer):
    pytest.importorskip("pandas")
    texts = ["50% & \\input{x}", "a_b #1 $x$ ~ ^\nsecond line"]
    latex = explainer(texts).to_latex()
    assert "50\\% \\& \\textbackslash input\\{x\\}" in latex
    assert "a\\_b \\#1 \\$x\\$ \\textasciitilde" in latex
    assert "\\textasciicircum" in latex
    refused(DataError, "one score for each unit", lambda: explainer(TEXT, target=ALL).to_latex())


def test_an_export_that_is_not_there_is_refused_with_those_that_are(explainer):
    refused(DataError, "no extension exports 'word'; there are", lambda: explainer(TEXT).export("word"))
