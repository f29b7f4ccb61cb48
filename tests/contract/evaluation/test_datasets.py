"""Reading labelled texts, and saying what is wrong with a file."""
# ruff: noqa: F811  # fixtures

import csv
import json
import sys
from decimal import Decimal
from functools import partial

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import torch

from normxlogit import DataError, Explainer, InputError
from normxlogit.evaluation.datasets import Example, load_examples, read_rows, task_named
from normxlogit.evaluation.faithfulness import count_texts, evaluate
from tests import tiny
from tests.contract.compare import refused
from tests.gold import FEELINGS, SEVERAL, SPELLED, STARS, TEXTS, YES, explainer, feelings, results, right_or_wrong  # noqa: F401  # fixtures

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


def rows_of(examples):
    return [(example.text, example.label) for example in examples]


def test_glue_columns_by_task(tmp_path):
    jsonl(tmp_path / "validation.jsonl", [{"sentence": "fine", "label": 1}, {"sentence": "bad", "label": 0}])
    assert rows_of(load_examples("sst2", data_dir=tmp_path)) == [("fine", 1), ("bad", 0)]
    assert rows_of(load_examples("sst2", data_dir=tmp_path, limit=1)) == [("fine", 1)]
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
    assert rows_of(load_examples("sst2", limit=2)) == [("x", 1)] * 2
    for task in ("mnli", "qnli", "stsb"):
        assert rows_of(load_examples(task, limit=9)) == [(("x", "x"), 1)] * 3
    load_examples("mnli", split="train")
    load_examples("someone/else", split="test")
    glue = "nyu-mll/glue"
    assert hub[:2] == [(glue, "sst2", "validation"), (glue, "mnli", "validation_mismatched")]
    assert hub[2:4] == [(glue, "qnli", "validation"), (glue, "stsb", "validation")]
    assert hub[4:] == [(glue, "mnli", "train"), ("someone/else", "test")]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_other_formats_and_columns(tmp_path, kind):
    path, frame = tmp_path / f"mine.{kind}", pandas.DataFrame({"review": ["fine", "bad"], "stars": [1, 0]})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    assert load_examples(path, columns=["review"], label_column="stars") == [Example("fine", 1), Example("bad", 0)]


@pytest.mark.parametrize(("encoding", "ending"), [("utf-8-sig", "csv"), ("utf-16", "csv"), ("utf-16", "tsv")])
def test_tables_as_spreadsheets_write_them(tmp_path, encoding, ending):
    path, rows = tmp_path / f"mine.{ending}", [("text", "label"), ("gut, sehr gut; ja", "1"), ("1984", "0")]
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter="\t" if ending == "tsv" else ";").writerows(rows)
    assert load_examples(path) == [Example(text, int(label)) for text, label in rows[1:]]


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_texts_of_tables_that_look_like_something_else_are_texts(tmp_path, kind):
    """pandas takes "NA" for missing, 1984 for a number, and drops the zeros before another."""
    texts, separator = ["NA", "None", "nan", "1984", "007", " ", "x"], "\t" if kind == "tsv" else ","
    lines = [f"{text}{separator}{i % 2}" for i, text in enumerate(texts)]
    path = tmp_path / f"mine.{kind}"
    path.write_text("\n".join([f"\ufefftext{separator}label", *lines]), encoding="utf-8")
    expected = [Example(text, i % 2) for i, text in enumerate(texts) if text != " "]
    examples = load_examples(path)
    assert examples == expected
    assert list(examples.left_out) == [texts.index(" ")]


@pytest.fixture
def gaps(tmp_path):
    """A table of which only the first and the last row have a text and a label."""
    content = "text,label\nfine,1\n,0\n \t,1\nbad,\n\ntoo,many,cells\nhalf a \udcff,1\nbad,0\n"
    path = tmp_path / "gaps.csv"
    path.write_text(content, encoding="utf-8", errors="surrogateescape")
    return path


def test_rows_without_a_text_or_a_label_are_left_out_and_counted(gaps):
    examples = load_examples(gaps)
    assert rows_of(examples) == [("fine", 1), ("bad", 0)]
    assert list(examples.left_out) == [1, 2, 3, 4, 5, 6]
    assert rows_of(load_examples(gaps, limit=3)) == [("fine", 1)], "the limit counts rows"
    for missing in (None, float("nan"), " "):
        labels = pandas.DataFrame({"text": ["fine", "", "bad"], "label": [1, 0, missing]}, dtype=object)
        assert rows_of(load_examples(labels)) == [("fine", 1)]
    counts = count_texts(Explainer.from_pretrained(), examples)
    assert counts["texts"] == 2
    assert counts["rows left out"].startswith("6, no text: column 'text' is empty (3)")


def test_a_corpus_leaves_the_same_rows_without_a_result(gaps, tmp_path):
    corpora = pytest.importorskip("normxlogit.corpora", reason="needs the wing corpora")
    run = corpora.attribute(Explainer.from_pretrained(), gaps, tmp_path / "out", method="random")
    examples = load_examples(gaps)
    unlabelled = sum(reason.startswith("no label") for reason in examples.left_out.values())
    assert run.rows - run.errors == len(examples) + unlabelled


def test_rows_in_memory_and_labels_by_name():
    rows = {"text": ["fine", "bad"], "label": ["positive", "negative"]}
    wanted = [Example("fine", "positive"), Example("bad", "negative")]
    table = pandas.DataFrame(rows)
    for given in (table, polars.DataFrame(rows), pyarrow.table(rows), table.to_dict("records")):
        assert load_examples(given) == wanted
    explainer = Explainer.from_pretrained()
    by_name = evaluate(explainer, wanted, "random")
    numbered = pandas.DataFrame({"text": rows["text"], "label": [1, 0]})
    for meaning in ("id2label", ["negative", "positive"], "1=positive 0=negative", {0: 0, 1: 1}):
        assert evaluate(explainer, load_examples(numbered, gold_labels=meaning), "random") == by_name
    ambiguous = load_examples(numbered)
    refused(DataError, r"cannot tell .* '0' \(1\), '1' \(1\)", lambda: evaluate(explainer, ambiguous, "random"))
    praise = [Example("fine", "praise")]
    refused(DataError, r"\(negative, positive\) .* 'praise'", lambda: evaluate(explainer, praise, "random"))
    refused(InputError, "load_examples", lambda: evaluate(explainer, rows["text"], "random"))
    assert load_examples(rows, columns="text") == wanted
    mixed = [{"text": "fine", "label": 1}, {"text": "bad", "label": "negative"}]
    assert load_examples(mixed) == [Example("fine", 1), Example("bad", "negative")]
    for odd in (rows["text"], [("fine", 1)], None):
        refused(DataError, r'rows? .*\{"text": "\.\.\."\}', partial(load_examples, odd))


def test_what_is_wrong_is_said(tmp_path):
    def wrong(message, *given, read=load_examples, **options):
        refused(DataError, message, lambda: read(*given, **options))

    good = {"sentence": "fine", "label": 1}
    jsonl(tmp_path / "validation.jsonl", [good])
    path = jsonl(tmp_path / "blank.jsonl", [{"sentence": "  ", "label": 1}] * 2)
    wrong(r"blank.jsonl: row 0: no text: column 'sentence'", path, columns=["sentence"])
    path = jsonl(tmp_path / "labels.jsonl", [{"sentence": "x", "label": None}])
    wrong(r"labels.jsonl: row 0: no label: column 'label'", path, columns=["sentence"])
    wrong("no column 'premise', 'hypothesis'; it has sentence, label", "mnli", data_dir=tmp_path)
    odd = jsonl(tmp_path / "odd.jsonl", [{"body": "x", "label": 1}])
    wrong("says which column holds the text", odd)
    (tmp_path / "broken.jsonl").write_text('{"text": "fine", "label": 1}\n{this is not JSON\n')
    wrong(r"broken.jsonl, row 1: not JSON: \S", tmp_path / "broken.jsonl", read=read_rows)
    wrong("No such file", tmp_path / "missing.jsonl")
    wrong(r"no test.jsonl", "sst2", split="test", data_dir=tmp_path)
    wrong("no task named 'sst-2'", "sst-2", read=task_named)


def test_the_sample_needs_no_hub_and_no_other_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    rows = load_examples("reviews")
    assert [sum(row.label == label for row in rows) for label in (0, 1)] == [50, 50]
    assert len({row.text for row in rows}) == 100
    assert load_examples("reviews", limit=3) == rows[:3]
    said = Explainer.from_pretrained()([row.text for row in rows])
    assert sum(a.prediction.id == row.label for a, row in zip(said, rows, strict=True)) >= 95


@pytest.mark.parametrize("name", SPELLED)
def test_every_spelling_says_what_is_right(results, name):
    labels, spelled = SPELLED[name]
    _, found = results(*labels)
    ids, _ = right_or_wrong(found, labels)
    gold = [spelled(i, labels) for i in ids]
    assert found.filter(gold=gold) == found[::2]
    assert found.filter(gold=gold, correct=False) == found[1::2]
    assert found.filter(gold=[*gold[:-2], None, None], correct=False) == found[1:-2:2]


def test_columns_of_any_library(results):
    _, found = results(*YES)
    ids, _ = right_or_wrong(found, YES)
    columns = [np.array(ids), np.array(ids, np.float32), torch.tensor(ids), pyarrow.chunked_array([ids])]
    columns += [[str(i).encode() for i in ids], pandas.Categorical([YES[i] for i in ids]), polars.Series(ids)]
    for column in (*columns, pandas.Series(ids, index=range(5, 5 + len(ids)), dtype="Int64")):
        assert found.filter(gold=column, gold_labels="id2label") == found[::2]


@pytest.mark.parametrize("missing", [None, float("nan"), "", Decimal("NaN"), np.float32("nan"), np.datetime64("NaT")])
def test_a_missing_label_is_neither_right_nor_wrong(results, missing):
    _, found = results(*YES)
    gold = [found[0].prediction.label, *[missing] * (len(found) - 1)]
    assert found.filter(gold=gold) == found[:1]
    assert found.filter(gold=gold, correct=False) == []


def test_what_can_be_no_label_is_refused(results):
    _, found = results(*YES)
    count = len(found)
    message = "correct=False needs the right labels: give gold="
    refused(InputError, message, lambda: found.filter(correct=False))
    refused(InputError, "not a list", lambda: found.filter(gold=[[[0]]] * count))
    refused(InputError, "cannot tell .* '-1' ", lambda: found.filter(gold=[-1] * count))
    refused(InputError, "cannot tell .* '-1' ", lambda: found.filter(gold=[-1] * count, gold_labels="id2label"))
    for number in (0.5, "0.5", np.float32(0.5)):
        mixed = [found[0].prediction.label, *[number] * (count - 1)]
        refused(InputError, "cannot tell .* '0.5' ", lambda number=number: found.filter(gold=[number] * count))
        refused(InputError, "cannot tell .* '0.5' ", lambda mixed=mixed: found.filter(gold=mixed, gold_labels="9=no"))
        assert found.filter(gold=mixed, gold_labels="0.5=0.5", correct=False) == found[1:], "as the error advises"
    refused(InputError, "is a list as text", lambda: found.filter(gold=["['no']"] * count))
    _, stars = results(*STARS)
    from_zero = [i % 5 for i in range(len(stars))]  # 1 to 5 are names
    refused(InputError, "cannot tell .* '0' ", lambda: stars.filter(gold=from_zero))
    refused(InputError, "regression", lambda: explainer("score")(TEXTS[:2]).filter(gold=[0.5, 0.1]))


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
    assert found.filter(gold=column, gold_labels="id2label") == found[1::2]
    assert found.filter(gold=column, gold_labels=FEELINGS, correct=False) == found[wrong]


@pytest.mark.parametrize("collection", [list, tuple, np.array])
def test_all_labels_of_a_text_are_read_whatever_holds_them(collection):
    (example,) = load_examples([{"text": "fine", "label": collection(["joy", "hope"])}])
    assert example.label == ["joy", "hope"]
