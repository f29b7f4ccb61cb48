"""In a corpus: right labels as users have them: any column of names, numbers or booleans, with values missing."""
# ruff: noqa: F811  # fixtures

from decimal import Decimal

import numpy as np
import pytest

from normxlogit import DataError, Explainer, Predictions, attribute, summarize
from tests import tiny
from tests.contract.compare import refused
from tests.gold import SEVERAL, SPELLED, TEXTS, YES, explainer, feelings, results, right_or_wrong  # noqa: F401  # fixtures

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.bool_(), pa.decimal128(9, 2)], ids=str)
def test_a_column_with_nothing_in_it(results, tmp_path, kind):
    table = pa.table({"text": TEXTS, "gold": pa.nulls(len(TEXTS), kind)})
    attribute(results(*YES)[0], table, tmp_path, keep=["gold"])
    summary = summarize(tmp_path, gold="gold")
    assert (summary.accuracy, summary.wrong) == (None, [])


@pytest.mark.parametrize("name", ["Target", "SCORES", "Row", "gold", "value label", 'a"b', "n", "k", "labels", "Text"])
def test_a_column_of_any_name(results, tmp_path, name):
    """DuckDB does not tell capitals apart; the run's own columns are called "target" and "scores"."""
    model, found = results(*YES)
    ids, right = right_or_wrong(found, YES)
    rows = pa.table({"text": TEXTS, name: ids, "other": ids[::-1]})
    attribute(model, rows, tmp_path, Predictions(words=True), keep=[name, "other"])
    assert summarize(tmp_path, gold=name, gold_labels="id2label").accuracy == pytest.approx(np.mean(right))


@pytest.mark.parametrize(
    "kind", ["float16", "float32", "uint64", "int8", "large_string", "string_view", "binary", "dictionary"]
)
def test_a_column_of_any_type(results, tmp_path, kind):
    """Also beside others that have no part in it, of types that DuckDB may not know."""
    model, found = results(*YES)
    ids, right = right_or_wrong(found, YES)
    gold = pa.array(ids if "int" in kind or "float" in kind else [YES[i] for i in ids])
    gold = gold.dictionary_encode() if kind == "dictionary" else gold.cast(getattr(pa, kind)())
    count, pairs = len(TEXTS), pa.map_(pa.string(), pa.int8())
    beside = {"duration": pa.array([1] * count, pa.duration("s")), "half": pa.array([np.float16(1)] * count)}
    beside["map"] = pa.array([[("a", 1)]] * count, pairs)
    attribute(model, pa.table({"text": TEXTS, "gold": gold, **beside}), tmp_path, keep=["gold", *beside])
    assert summarize(tmp_path, gold="gold", gold_labels="id2label").accuracy == pytest.approx(np.mean(right))


def test_the_right_next_tokens_of_a_language_model(tmp_path):
    model = Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"))
    texts = ["the movie is not", "the movie is good", "the movie is bad"]
    predicted = [model(text).prediction for text in texts]
    gold = [predicted[0].label, str(predicted[1].id), f"{predicted[2].label}s"]
    attribute(model, pa.table({"text": texts, "gold": gold}), tmp_path, keep=["gold"])
    right = summarize(tmp_path, gold="gold").right
    assert (right.part, right.texts) == (1, 3)  # a text is the text of a token, and not its id


@pytest.mark.parametrize("name", SPELLED)
def test_every_spelling_says_what_is_right(results, tmp_path, name):
    labels, spelled = SPELLED[name]
    model, found = results(*labels)
    ids, right = right_or_wrong(found, labels)
    gold = [*(spelled(i, labels) for i in ids[:-2]), None, None]
    attribute(model, pa.table({"text": TEXTS, "gold": gold}), tmp_path, keep=["gold"])
    assert summarize(tmp_path, gold="gold").accuracy == pytest.approx(np.mean(right[:-2]))


def test_what_can_be_no_label_is_refused(results, tmp_path):
    scored = pa.table({"text": TEXTS, "gold": [0.5] * len(TEXTS)})
    attribute(explainer("score"), scored, tmp_path / "scored", keep=["gold"])
    refused(DataError, "regression", lambda: summarize(tmp_path / "scored", gold="gold"))
    model, _ = results(*YES)
    attribute(model, pa.table({"text": TEXTS, "gold": [-1] * len(TEXTS)}), tmp_path, keep=["gold"])
    refused(DataError, "column 'gold': cannot tell .*: '-1' ", lambda: summarize(tmp_path, gold="gold"))
    refused(DataError, "'-1' ", lambda: summarize(tmp_path, gold="gold", gold_labels="id2label"))
    wide = pa.array([Decimal(1)] * len(TEXTS), pa.decimal256(40, 3))
    attribute(model, pa.table({"text": TEXTS, "gold": wide}), tmp_path / "wide", keep=["gold"])
    refused(DataError, "Decimal", lambda: summarize(tmp_path / "wide", gold="gold"))


@pytest.mark.parametrize("spelled", [name for name in SEVERAL if not name.startswith("an array")])
def test_an_answer_is_right_if_it_is_among_several_labels(feelings, tmp_path, spelled):
    asked, gold = feelings
    rows = [{"text": text, "gold": SEVERAL[spelled](names)} for text, names in zip(TEXTS, gold, strict=True)]
    attribute(asked, rows, tmp_path, keep=["gold"], keep_text=True)
    summary = summarize(tmp_path, gold="gold", gold_labels="id2label", top=100)
    assert summary.accuracy == pytest.approx((len(TEXTS) // 2) / (len(TEXTS) - 1))
    wrong = [i for i in range(0, len(TEXTS), 2) if i != 2]
    assert {answer.id: answer.gold for answer in summary.wrong} == {str(i): ", ".join(gold[i]) for i in wrong}
