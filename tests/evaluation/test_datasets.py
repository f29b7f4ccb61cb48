"""Reading labelled texts, and saying what is wrong with a file."""

import json
import sys

import pytest

from normxlogit import DataError, Explainer
from normxlogit.evaluation.datasets import Example, load_examples, task_named

pytest.importorskip("datasets")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_glue_columns_by_task(tmp_path):
    write(tmp_path / "validation.jsonl", [{"sentence": "fine", "label": 1}, {"sentence": "bad", "label": 0}])
    assert load_examples("sst2", data_dir=tmp_path) == [Example("fine", 1), Example("bad", 0)]
    assert load_examples("sst2", data_dir=tmp_path, limit=1) == [Example("fine", 1)]
    folder = tmp_path / "stsb"
    folder.mkdir()
    write(folder / "train.jsonl", [{"sentence1": "a", "sentence2": "b", "label": 2.5}])
    assert load_examples("stsb", split="train", data_dir=tmp_path) == [Example(("a", "b"), 2.5)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_other_formats_and_columns(tmp_path, kind):
    import pandas

    path = tmp_path / f"mine.{kind}"
    frame = pandas.DataFrame({"review": ["fine", "bad"], "stars": [1, 0]})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    found = load_examples(path, columns=["review"], label_column="stars")
    assert found == [Example("fine", 1), Example("bad", 0)]


def test_what_is_wrong_is_said(tmp_path):
    good = {"sentence": "fine", "label": 1}
    path = write(tmp_path / "validation.jsonl", [good, {"sentence": "  ", "label": 1}])
    with pytest.raises(DataError, match=r"validation.jsonl, row 1, column 'sentence'"):
        load_examples(path, columns=["sentence"])
    path = write(tmp_path / "labels.jsonl", [good, {"sentence": "x", "label": None}])
    with pytest.raises(DataError, match=r"labels.jsonl, row 1, column 'label'"):
        load_examples(path, columns=["sentence"])
    with pytest.raises(DataError, match="no column 'premise', 'hypothesis'; it has sentence, label"):
        load_examples("mnli", data_dir=tmp_path)
    with pytest.raises(DataError, match="say which column holds the text"):
        load_examples(write(tmp_path / "odd.jsonl", [{"body": "x", "label": 1}]))
    (tmp_path / "broken.jsonl").write_text("{this is not JSON\n")
    with pytest.raises(DataError, match=r"broken.jsonl: cannot be read as json"):
        load_examples(tmp_path / "broken.jsonl")
    with pytest.raises(DataError, match="no such file"):
        load_examples(tmp_path / "missing.jsonl")
    with pytest.raises(DataError, match=r"no test.jsonl"):
        load_examples("sst2", split="test", data_dir=tmp_path)
    with pytest.raises(DataError, match="no task named 'sst-2'"):
        task_named("sst-2")


def test_the_sample_needs_no_hub_and_no_other_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    rows = load_examples("reviews")
    assert [sum(row.label == label for row in rows) for label in (0, 1)] == [50, 50]
    assert len({row.text for row in rows}) == 100
    assert load_examples("reviews", limit=3) == rows[:3]
    said = Explainer.from_pretrained()([row.text for row in rows])
    assert sum(a.prediction.id == row.label for a, row in zip(said, rows, strict=True)) >= 95


def test_a_file_of_the_samples_name_is_read_where_a_folder_is_given(tmp_path):
    write(tmp_path / "validation.jsonl", [{"text": "fine", "label": 1}])
    assert load_examples("reviews", data_dir=tmp_path) == [Example("fine", 1)]
