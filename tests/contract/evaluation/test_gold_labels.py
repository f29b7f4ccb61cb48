"""Right labels as users have them: any column of names, numbers or booleans, with values missing."""
# ruff: noqa: F811  # fixtures

from decimal import Decimal

import numpy as np
import pytest
import torch

from normxlogit import InputError
from tests import tiny
from tests.gold import FEELINGS, SEVERAL, SPELLED, STARS, TEXTS, YES, explainer, feelings, results, right_or_wrong  # noqa: F401  # fixtures

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")


@pytest.mark.parametrize("name", SPELLED)
def test_every_spelling_says_what_is_right(results, name):
    labels, spelled = SPELLED[name]
    _, found = results(*labels)
    ids, _ = right_or_wrong(found, labels)
    gold = [spelled(i, labels) for i in ids]
    assert found.filter(gold=gold) == found[::2]
    assert found.filter(gold=gold, correct=False) == found[1::2]
    assert found.filter(gold=[*gold[:-2], None, None], correct=False) == found[1:-2:2]


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


def test_what_can_be_no_label_is_refused(results):
    _, found = results(*YES)
    with pytest.raises(InputError, match="correct=False needs the right labels: give gold="):
        found.filter(correct=False)
    with pytest.raises(InputError, match="not a list"):
        found.filter(gold=[[[0]]] * len(found))
    with pytest.raises(InputError, match="-1 is neither a label nor the index of one"):
        found.filter(gold=[-1] * len(found))
    with pytest.raises(InputError, match="is a list as text"):
        found.filter(gold=["['no']"] * len(found))
    _, stars = results(*STARS)
    with pytest.raises(InputError, match="0 is neither a label nor the index of one"):  # 1 to 5 are names
        stars.filter(gold=[i % 5 for i in range(len(stars))])


def test_a_regression_has_no_right_labels():
    model = explainer("score")
    with pytest.raises(InputError, match="regression"):
        model(TEXTS[:2]).filter(gold=[0.5, 0.1])


def test_a_number_is_a_token_id_and_a_string_a_token():
    model = tiny.explainer("gpt2", "CausalLM")
    found = model(tiny.TEXTS)
    ids, names = ([getattr(result.prediction, field) for result in found] for field in ("id", "label"))
    assert found.filter(gold=["[]"] * len(found), correct=False) == found, "a token, not an empty list"
    for gold in (ids, list(map(float, ids)), names):
        assert found.filter(gold=gold) == found
        assert found.filter(gold=gold, correct=False) == []


@pytest.mark.parametrize("spelled", SEVERAL)
def test_an_answer_is_right_if_it_is_among_several_labels(feelings, spelled):
    """A text without any label is neither right nor wrong."""
    asked, gold = feelings
    column, found = [SEVERAL[spelled](names) for names in gold], asked(TEXTS)
    wrong = [i for i in range(0, len(TEXTS), 2) if i != 2]
    assert found.filter(gold=column) == found[1::2]
    assert found.filter(gold=column, correct=False) == found[wrong]
