"""In a corpus: what people hand over every day is read."""
# ruff: noqa: F811  # fixtures

import pytest

from normxlogit import attribute
from tests.corpora.corpora import results

from ..test_ordinary_inputs import TEXTS, bert, explainer  # noqa: F401  # fixtures


def test_a_corpus_of_columns_of_the_only_split_and_of_one_kept_column(explainer, tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"text": TEXTS, "stars": list(range(len(TEXTS)))}
    only_split = datasets.DatasetDict({"train": datasets.Dataset.from_dict(columns)})
    for number, given in enumerate((columns, only_split)):
        attribute(explainer, given, tmp_path / str(number), keep="stars")
        rows = results(tmp_path / str(number)).to_pylist()
        assert [row["stars"] for row in rows] == columns["stars"]
        for row, text in zip(rows, TEXTS, strict=True):
            assert row["scores"] == pytest.approx(explainer(text).scores.tolist(), rel=1e-4, abs=1e-5)
