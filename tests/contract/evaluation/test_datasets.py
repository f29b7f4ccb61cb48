"""Reading labelled texts, and saying what is wrong with a file."""

import csv
import json
import sys

import pytest

from normxlogit import DataError, Explainer, InputError
from normxlogit.evaluation.datasets import Example, load_examples, read_rows, task_named
from normxlogit.evaluation.faithfulness import checked_labels, evaluate

datasets = pytest.importorskip("datasets")


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(("package", "source"), [("pyarrow", "mine.jsonl"), ("datasets", "sst2")])
def test_a_missing_reader_is_named_with_the_line_that_installs_it(tmp_path, monkeypatch, package, source):
    file = jsonl(tmp_path / "mine.jsonl", [{"text": "fine", "label": 1}])
    assert load_examples(file) == [Example("fine", 1)]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DataError, match=r"pip install .*'normxlogit\[eval\]'"):
        load_examples(file if source == file.name else source)
    assert load_examples("reviews", limit=1), "the data of the package needs no reader"


def test_glue_columns_by_task(tmp_path):
    jsonl(tmp_path / "validation.jsonl", [{"sentence": "fine", "label": 1}, {"sentence": "bad", "label": 0}])
    assert load_examples("sst2", data_dir=tmp_path) == [Example("fine", 1), Example("bad", 0)]
    assert load_examples("sst2", data_dir=tmp_path, limit=1) == [Example("fine", 1)]
    folder = tmp_path / "stsb"
    folder.mkdir()
    jsonl(folder / "train.jsonl", [{"sentence1": "a", "sentence2": "b", "label": 2.5}])
    assert load_examples("stsb", split="train", data_dir=tmp_path) == [Example(("a", "b"), 2.5)]
    jsonl(tmp_path / "train.jsonl", [{"sentence1": "c", "sentence2": "d", "label": 0}])
    assert load_examples("stsb", split="train", data_dir=tmp_path)[0].text == ("a", "b"), "a task's folder comes first"


@pytest.fixture
def hub(monkeypatch):
    """What a stand-in for the hub was asked for; it has the columns of all tasks."""
    asked = []
    row = dict.fromkeys(("sentence", "premise", "hypothesis", "question", "sentence1", "sentence2"), "x") | {"label": 1}

    def load_dataset(*names, split):
        asked.append((*names, split))
        return datasets.Dataset.from_list([row] * 3)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_tasks_are_those_of_glue_on_the_hub(hub):
    assert load_examples("sst2", limit=2) == [Example("x", 1)] * 2
    for task in ("mnli", "qnli", "stsb"):
        assert load_examples(task, limit=9) == [Example(("x", "x"), 1)] * 3
    load_examples("mnli", split="train")
    load_examples("someone/else", split="test")
    glue = "nyu-mll/glue"
    assert hub == [
        (glue, "sst2", "validation"),
        (glue, "mnli", "validation_mismatched"),
        (glue, "qnli", "validation"),
        (glue, "stsb", "validation"),
        (glue, "mnli", "train"),
        ("someone/else", "test"),
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_other_formats_and_columns(tmp_path, kind):
    import pandas

    path = tmp_path / f"mine.{kind}"
    frame = pandas.DataFrame({"review": ["fine", "bad"], "stars": [1, 0]})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    found = load_examples(path, columns=["review"], label_column="stars")
    assert found == [Example("fine", 1), Example("bad", 0)]


@pytest.mark.parametrize(("encoding", "ending"), [("utf-8-sig", "csv"), ("utf-16", "csv"), ("utf-16", "tsv")])
def test_tables_as_spreadsheets_write_them(tmp_path, encoding, ending):
    delimiter = "\t" if ending == "tsv" else ";"
    path = tmp_path / f"mine.{ending}"
    rows = [("text", "label"), ("gut, sehr gut; ja", "1"), ("1984", "0")]
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    assert load_examples(path) == [Example(text, int(label)) for text, label in rows[1:]]


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_texts_of_tables_that_look_like_something_else_are_texts(tmp_path, kind):
    """pandas takes "NA" for missing, 1984 for a number, and drops the zeros before another."""
    texts, separator = ["NA", "None", "nan", "1984", "007", " ", "x"], "\t" if kind == "tsv" else ","
    lines = [f"{text}{separator}{i % 2}" for i, text in enumerate(texts)]
    path = tmp_path / f"mine.{kind}"
    path.write_text("\n".join([f"\ufefftext{separator}label", *lines]), encoding="utf-8")
    with pytest.raises(DataError, match=r"row 5, column 'text': expected a text, got ' '"):
        load_examples(path)
    path.write_text("\n".join([f"\ufefftext{separator}label", *lines[:5]]), encoding="utf-8")
    assert load_examples(path) == [Example(text, i % 2) for i, text in enumerate(texts[:5])]


@pytest.mark.parametrize(
    "labels", [["POSITIVE", "Negative"], [True, False], ["True", "false"], ["1", "0"], [1.0, 0.0], ["1.0", "0.0"]]
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_gold_labels_are_read_as_in_summaries(tmp_path, labels, kind):
    texts, path = ["fine", "bad"], tmp_path / f"mine.{kind}"
    if kind == "jsonl":
        jsonl(path, [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)])
    else:
        path.write_text("text,label\n" + "".join(f"{t},{gold}\n" for t, gold in zip(texts, labels, strict=True)))
    model = Explainer.from_pretrained().task_model
    assert checked_labels(model, load_examples(path)) == [1, 0]


def test_rows_in_memory_and_labels_by_name():
    import pandas
    import polars
    import pyarrow

    rows = {"text": ["fine", "bad"], "label": ["positive", "negative"]}
    wanted = [Example("fine", "positive"), Example("bad", "negative")]
    listed = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    for table in (pandas.DataFrame(rows), polars.DataFrame(rows), pyarrow.table(rows), listed):
        assert load_examples(table) == wanted
    explainer = Explainer.from_pretrained()
    by_name, by_index = (evaluate(explainer, e, "random") for e in (wanted, [Example("fine", 1), Example("bad", 0)]))
    assert by_name == by_index
    with pytest.raises(DataError, match="label praise; the model knows 0 negative, 1 positive"):
        evaluate(explainer, [Example("fine", "praise")], "random")
    with pytest.raises(InputError, match="load_examples"):
        evaluate(explainer, rows["text"], "random")
    assert load_examples(rows, columns="text") == wanted
    mixed = [{"text": "fine", "label": 1}, {"text": "bad", "label": "negative"}]
    assert load_examples(mixed) == [Example("fine", 1), Example("bad", "negative")]
    for odd in (rows["text"], [("fine", 1)], None):
        with pytest.raises(DataError, match=r'rows? .*\{"text": "\.\.\."\}'):
            load_examples(odd)


def test_what_is_wrong_is_said(tmp_path):
    good = {"sentence": "fine", "label": 1}
    path = jsonl(tmp_path / "validation.jsonl", [good, {"sentence": "  ", "label": 1}])
    with pytest.raises(DataError, match=r"validation.jsonl, row 1, column 'sentence'"):
        load_examples(path, columns=["sentence"])
    path = jsonl(tmp_path / "labels.jsonl", [good, {"sentence": "x", "label": None}])
    with pytest.raises(DataError, match=r"labels.jsonl, row 1, column 'label'"):
        load_examples(path, columns=["sentence"])
    with pytest.raises(DataError, match="no column 'premise', 'hypothesis'; it has sentence, label"):
        load_examples("mnli", data_dir=tmp_path)
    with pytest.raises(DataError, match="says which column holds the text"):
        load_examples(jsonl(tmp_path / "odd.jsonl", [{"body": "x", "label": 1}]))
    (tmp_path / "broken.jsonl").write_text('{"text": "fine", "label": 1}\n{this is not JSON\n')
    for read in (load_examples, read_rows):
        with pytest.raises(DataError, match=r"broken.jsonl, row 1: not JSON: \S"):
            read(tmp_path / "broken.jsonl")
    with pytest.raises(DataError, match="No such file"):
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
