"""Corpus folders by any name: what stands in a path is no column, pattern or address."""

import pytest

from normxlogit import Explainer, Predictions, attribute, summarize
from tests import tiny

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

TEXTS = [" ".join(tiny.WORDS[i : i + 4]) for i in range(24)]
NAMES = [
    "runs/method=logat",
    "prediction=x/scores=1",
    "tokens=the/target=__HIVE_DEFAULT_PARTITION__",
    "row=3/id=same",
    "model=mine",
    "words=1",
    "a*b?c[1]",
    'it\'s; a "name"',
    "50%20done",
    ".hidden/_too",
    "täßt 文",
]


@pytest.fixture(scope="module")
def explainer():
    return Explainer(tiny.model("bert", "SequenceClassification"), tiny.tokenizer(), name="tiny")


def values(state):
    """All values of a summary, one after the other, but the folder."""
    if isinstance(state, dict):
        return [v for name, part in state.items() if name != "folder" for v in [name, *values(part)]]
    return [v for part in state for v in values(part)] if isinstance(state, list) else [state]


def same(one, other):
    """Whether two summaries are the same, but for the order in which numbers were added."""
    found = [values(summary.to_dict()) for summary in (one, other)]
    return all(
        a == (pytest.approx(b, rel=1e-4, abs=1e-4) if isinstance(b, float) else b) for a, b in zip(*found, strict=True)
    )


def attributed(explainer, folder):
    rows = pa.table({"text": TEXTS, "gold": [i % 2 for i in range(len(TEXTS))], "mine": TEXTS})
    attribute(explainer, rows, folder, Predictions(words=True), shard_rows=8, keep=["gold", "mine"])
    return folder


@pytest.fixture(scope="module")
def plain(explainer, tmp_path_factory):
    """A folder with a harmless name, and its summary."""
    folder = attributed(explainer, tmp_path_factory.mktemp("plain"))
    summary = summarize(folder, gold="gold", min_count=1)
    assert (summary.rows, summary.model) == (len(TEXTS), "tiny")
    return folder, summary


@pytest.mark.parametrize("name", NAMES)
def test_a_summary_is_of_the_results_and_not_of_the_path(explainer, plain, tmp_path, name):
    _, summary = plain
    assert same(summary, summarize(attributed(explainer, tmp_path / name), gold="gold", min_count=1))


def test_a_kept_column_may_be_called_as_a_part_of_the_path(explainer, tmp_path):
    rows = pa.table({"text": TEXTS, "gold": ["LABEL_0"] * len(TEXTS)})
    attribute(explainer, rows, tmp_path / "gold=LABEL_1", keep=["gold"])
    labels = summarize(tmp_path / "gold=LABEL_1").labels
    accuracy = summarize(tmp_path / "gold=LABEL_1", gold="gold").accuracy
    assert accuracy == labels.get("LABEL_0", 0) / len(TEXTS)


def test_a_folder_in_memory(explainer):
    pytest.importorskip("fsspec")
    rows = pa.table({"text": TEXTS})
    for name in ("memory://summaries/plain", "memory://summaries/method=logat"):
        attribute(explainer, rows, name, shard_rows=8)
    one, two = (summarize(f"memory://summaries/{name}") for name in ("plain", "method=logat"))
    assert same(one, two)
