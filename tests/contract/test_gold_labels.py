"""Right labels as users have them: any column of names, numbers or booleans, with values missing."""

import itertools
import json
from decimal import Decimal

import numpy as np
import pytest
import torch

from normxlogit import DataError, Explainer, InputError, Predictions, attribute, summarize
from tests import tiny

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

TEXTS = [" ".join(words) for words in itertools.islice(itertools.permutations(tiny.WORDS[:9], 3), 0, 400, 16)]


def explainer(*labels, kind="SequenceClassification"):
    """A model that gives every label to some of the texts: its head is that of a small random one, centred."""
    model = tiny.model("bert", kind, num_labels=len(labels))
    with torch.no_grad():
        model.classifier.weight.mul_(50)
        logits = model(**tiny.tokenizer()(TEXTS, return_tensors="pt", padding=True)).logits
        model.classifier.bias.sub_(logits.mean(0))
    return Explainer(model, tiny.tokenizer(), labels=list(labels))


@pytest.fixture(scope="module")
def results():
    """Results of models by their labels."""
    made = {}

    def of(*labels):
        if labels not in made:
            made[labels] = explainer(*labels), explainer(*labels)(TEXTS)
        return made[labels]

    return of


def right_or_wrong(found, labels):
    """Indices of gold labels of which every other one is right, and which are."""
    ids = [result.prediction.id for result in found]
    assert len(set(ids)) > 1
    right = [i % 2 == 0 for i in range(len(ids))]
    return [i if ok else (i + 1) % len(labels) for i, ok in zip(ids, right, strict=True)], right


STARS = ("1", "2", "3", "4", "5")
YES = ("no", "yes")
SPELLED = {
    "names": (STARS, lambda i, labels: labels[i]),
    "names in other capitals": (YES, lambda i, labels: f" {labels[i].upper()} "),
    "names that differ in capitals": (("Yes", "yes"), lambda i, labels: labels[i]),
    "names that are numbers": (STARS, lambda i, labels: int(labels[i])),
    "names that are decimals": (STARS, lambda i, labels: Decimal(labels[i])),
    "names that are floats": (STARS, lambda i, labels: float(labels[i])),
    "indices": (YES, lambda i, _: i),
    "indices of stars": (STARS, lambda i, _: i),  # a 0 among them says that they are
    "indices in digits": (YES, lambda i, _: str(i)),
    "floats": (YES, lambda i, _: float(i)),
    "floats in digits": (YES, lambda i, _: f"{i}.0"),
    "decimals": (YES, lambda i, _: Decimal(i).quantize(Decimal("1.00"))),
    "booleans": (YES, lambda i, _: bool(i)),
    "boolean words": (YES, lambda i, _: str(bool(i))),
    "booleans that are names": (("true", "false"), lambda i, _: i == 0),
    "digits that are other names": (("1", "0"), lambda i, labels: labels[i]),
    "booleans of names that are numbers": (("1", "0"), lambda i, _: i == 0),
}


@pytest.mark.parametrize("name", SPELLED)
def test_every_spelling_says_what_is_right(results, tmp_path, name):
    labels, spelled = SPELLED[name]
    model, found = results(*labels)
    ids, right = right_or_wrong(found, labels)
    gold = [spelled(i, labels) for i in ids]
    assert found.filter(gold=gold) == found[::2]
    assert found.filter(gold=gold, correct=False) == found[1::2]
    some = [*gold[:-2], None, None]
    assert found.filter(gold=some, correct=False) == found[1:-2:2]
    attribute(model, pa.table({"text": TEXTS, "gold": some}), tmp_path, keep=["gold"])
    assert summarize(tmp_path, gold="gold").accuracy == pytest.approx(np.mean(right[:-2]))


@pytest.mark.parametrize(
    "column",
    [
        lambda ids: np.array(ids),
        lambda ids: np.array(ids, np.float32),
        lambda ids: torch.tensor(ids),
        lambda ids: pa.chunked_array([ids]),
        lambda ids: [str(i).encode() for i in ids],
        lambda ids: pytest.importorskip("pandas").Series(ids, index=range(5, 5 + len(ids)), dtype="Int64"),
        lambda ids: pytest.importorskip("pandas").Categorical([YES[i] for i in ids]),
        lambda ids: pytest.importorskip("polars").Series(ids),
    ],
)
def test_columns_of_any_library(results, column):
    _, found = results(*YES)
    ids, _ = right_or_wrong(found, YES)
    assert found.filter(gold=column(ids)) == found[::2]


@pytest.mark.parametrize("missing", [None, float("nan"), "", Decimal("NaN"), np.float32("nan"), np.datetime64("NaT")])
def test_a_missing_label_is_neither_right_nor_wrong(results, missing):
    _, found = results(*YES)
    gold = [found[0].prediction.id, *[missing] * (len(found) - 1)]
    assert found.filter(gold=gold) == found[:1]
    assert found.filter(gold=gold, correct=False) == []


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.string(), pa.int64(), pa.bool_(), pa.decimal128(9, 2)])
def test_a_column_with_nothing_in_it(results, tmp_path, kind):
    model, _ = results(*YES)
    table = pa.table({"text": TEXTS, "gold": pa.nulls(len(TEXTS), kind)})
    attribute(model, table, tmp_path, keep=["gold"])
    summary = summarize(tmp_path, gold="gold")
    assert summary.accuracy is None
    assert summary.mistakes == []


def test_a_name_wins_that_the_model_never_predicts(tmp_path):
    """Label 0 is called "1", and everything is label 1, called "a": the gold label "1" is a name and not its index."""
    model = tiny.model("bert", "SequenceClassification")
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 1.0]))
    asked = Explainer(model, tiny.tokenizer(), labels=["1", "a"])
    for folder, gold, accuracy in (("one", "1", 0), ("two", 1, 0), ("three", "a", 1), ("four", "0", 0)):
        attribute(asked, pa.table({"text": TEXTS, "gold": [gold] * len(TEXTS)}), tmp_path / folder, keep=["gold"])
        assert summarize(tmp_path / folder, gold="gold").accuracy == accuracy


@pytest.mark.parametrize("name", ["Target", "SCORES", "Row", "gold", "value label", 'a"b', "n", "k", "labels", "Text"])
def test_a_column_of_any_name(results, tmp_path, name):
    """DuckDB does not tell capitals apart; the run's own columns are called "target" and "scores"."""
    model, found = results(*YES)
    ids, right = right_or_wrong(found, YES)
    rows = pa.table({"text": TEXTS, name: ids, "other": ids[::-1]})
    attribute(model, rows, tmp_path, Predictions(words=True), keep=[name, "other"])
    assert summarize(tmp_path, gold=name).accuracy == pytest.approx(np.mean(right))


@pytest.mark.parametrize(
    "kind", ["float16", "float32", "uint64", "int8", "large_string", "string_view", "binary", "dictionary"]
)
def test_a_column_of_any_type(results, tmp_path, kind):
    """Also beside others that have no part in it, of types that DuckDB may not know."""
    model, found = results(*YES)
    ids, right = right_or_wrong(found, YES)
    gold = pa.array(ids if "int" in kind or "float" in kind else [YES[i] for i in ids])
    gold = gold.dictionary_encode() if kind == "dictionary" else gold.cast(getattr(pa, kind)())
    rows = pa.table(
        {
            "text": TEXTS,
            "gold": gold,
            "duration": pa.array([1] * len(TEXTS), pa.duration("s")),
            "half": pa.array([np.float16(1)] * len(TEXTS)),
            "map": pa.array([[("a", 1)]] * len(TEXTS), pa.map_(pa.string(), pa.int8())),
        }
    )
    attribute(model, rows, tmp_path, keep=["gold", "duration", "half", "map"])
    assert summarize(tmp_path, gold="gold").accuracy == pytest.approx(np.mean(right))


def test_columns_that_differ_in_capitals_only(results, tmp_path):
    model, found = results(*YES)
    ids, right = right_or_wrong(found, YES)
    rows = pa.table({"text": TEXTS, "gold": [1 - i for i in ids], "Gold": ids})
    attribute(model, rows, tmp_path, keep=["gold", "Gold"])
    assert summarize(tmp_path, gold="Gold").accuracy == pytest.approx(np.mean(right))
    assert summarize(tmp_path, gold="gold").accuracy == pytest.approx(1 - np.mean(right))


def test_what_can_be_no_label_is_refused(results, tmp_path):
    model, found = results(*YES)
    with pytest.raises(InputError, match="correct=False needs the right labels: give gold="):
        found.filter(correct=False)
    with pytest.raises(InputError, match="not a list"):
        found.filter(gold=[[[0]]] * len(found))
    with pytest.raises(InputError, match="-1 is neither a label nor the index of one"):
        found.filter(gold=[-1] * len(found))
    attribute(model, pa.table({"text": TEXTS, "gold": [-1] * len(TEXTS)}), tmp_path, keep=["gold"])
    with pytest.raises(DataError, match="column 'gold': gold label -1"):
        summarize(tmp_path, gold="gold")
    stars = pa.table({"text": TEXTS, "gold": [1 + i % 5 for i in range(len(TEXTS))]})
    attribute(model, stars, tmp_path / "stars", keep=["gold"])
    with pytest.raises(DataError, match="'gold' holds 2, and the model has 2 labels, counted from 0: no, yes"):
        summarize(tmp_path / "stars", gold="gold")
    wide = pa.array([Decimal(1)] * len(TEXTS), pa.decimal256(40, 3))
    attribute(model, pa.table({"text": TEXTS, "gold": wide}), tmp_path / "wide", keep=["gold"])
    with pytest.raises(DataError, match="Decimal"):
        summarize(tmp_path / "wide", gold="gold")


def test_a_regression_has_no_right_labels(tmp_path):
    model = explainer("score")
    with pytest.raises(InputError, match="regression"):
        model(TEXTS[:2]).filter(gold=[0.5, 0.1])
    attribute(model, pa.table({"text": TEXTS, "gold": [0.5] * len(TEXTS)}), tmp_path, keep=["gold"])
    with pytest.raises(DataError, match="regression"):
        summarize(tmp_path, gold="gold")


def test_a_number_is_a_token_id_and_a_string_a_token():
    model = tiny.explainer("gpt2", "CausalLM")
    found = model(tiny.TEXTS)
    ids, names = ([getattr(result.prediction, field) for result in found] for field in ("id", "label"))
    assert found.filter(gold=["[]"] * len(found), correct=False) == found, "a token, not an empty list"
    for gold in (ids, list(map(float, ids)), names):
        assert found.filter(gold=gold) == found
        assert found.filter(gold=gold, correct=False) == []


SEVERAL = {
    "names": lambda names: names,
    "indices": lambda names: [FEELINGS.index(name) for name in names],
    "an array of indices": lambda names: np.array([FEELINGS.index(name) for name in names]),
    "zeros and ones": lambda names: [int(name in names) for name in FEELINGS],
    "floats for training": lambda names: [float(name in names) for name in FEELINGS],
    "booleans": lambda names: [name in names for name in FEELINGS],
    "text of a list, as in CSV": str,
    "JSON": json.dumps,
}
FEELINGS = ["joy", "anger", "fear"]


@pytest.fixture(scope="module")
def feelings():
    """A model of which several labels are true, and whether each of its answers is among the gold labels."""
    model = explainer(*FEELINGS, kind="SequenceClassification").model
    model.config.problem_type = "multi_label_classification"
    asked = Explainer(model, tiny.tokenizer(), labels=FEELINGS)
    said = [result.prediction.label for result in asked(TEXTS)]
    others = [[name for name in FEELINGS if name != label] for label in said]
    gold = [[others[i][0], label] if i % 2 else others[i] for i, label in enumerate(said)]
    gold[2], gold[4] = [], others[4][:1]
    return asked, gold


@pytest.mark.parametrize("spelled", SEVERAL)
def test_an_answer_is_right_if_it_is_among_several_labels(feelings, tmp_path, spelled):
    """A text without any label is neither right nor wrong."""
    asked, gold = feelings
    column, found = [SEVERAL[spelled](names) for names in gold], asked(TEXTS)
    wrong = [i for i in range(0, len(TEXTS), 2) if i != 2]
    assert found.filter(gold=column) == found[1::2]
    assert found.filter(gold=column, correct=False) == found[wrong]
    rows = [{"text": text, "gold": cell} for text, cell in zip(TEXTS, column, strict=True)]
    if not spelled.startswith("an array"):
        attribute(asked, rows, tmp_path, keep=["gold"], keep_text=True)
        summary = summarize(tmp_path, gold="gold", top=100)
        assert summary.accuracy == pytest.approx((len(TEXTS) // 2) / (len(TEXTS) - 1))
        assert {answer.id: answer.gold for answer in summary.wrong} == {str(i): ", ".join(gold[i]) for i in wrong}


def test_labels_of_a_list_that_the_model_does_not_have_are_counted_each(feelings, tmp_path):
    asked, gold = feelings
    rows = [{"text": text, "gold": [*cell, "awe"][-1:]} for text, cell in zip(TEXTS, gold, strict=True)]
    attribute(asked, rows, tmp_path, keep=["gold"])
    assert summarize(tmp_path, gold="gold").unknown == {"awe": len(TEXTS)}
