"""Right labels as users have them: any column of names, numbers or booleans, with values missing."""

import itertools
from decimal import Decimal

import numpy as np
import pytest
import torch

from normxlogit import Explainer, InputError
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


SEVERAL = {
    "names": lambda names: names,
    "indices": lambda names: [FEELINGS.index(name) for name in names],
    "an array of indices": lambda names: np.array([FEELINGS.index(name) for name in names]),
    "zeros and ones": lambda names: [int(name in names) for name in FEELINGS],
    "floats for training": lambda names: [float(name in names) for name in FEELINGS],
    "booleans": lambda names: [name in names for name in FEELINGS],
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
def test_an_answer_is_right_if_it_is_among_several_labels(feelings, spelled):
    """A text without any label is neither right nor wrong."""
    asked, gold = feelings
    column, found = [SEVERAL[spelled](names) for names in gold], asked(TEXTS)
    wrong = [i for i in range(0, len(TEXTS), 2) if i != 2]
    assert found.filter(gold=column) == found[1::2]
    assert found.filter(gold=column, correct=False) == found[wrong]
