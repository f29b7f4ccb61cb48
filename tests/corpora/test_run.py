import pytest

from normxlogit import Predictions
from normxlogit.errors import DataError, TargetError

from .corpora import errors, explainer, jsonl, results, rows_of, run, texts


def test_bad_rows_go_to_the_errors_and_the_run_goes_on(tmp_path, bert):
    rows = [
        {"key": "a", "text": "good", "stars": 1},
        {"key": "b", "text": None, "stars": 2},
        {"key": "c", "text": 5, "stars": 3},
        {"key": "d", "text": " ", "stars": 4},
        {"key": "e", "text": "the movie " * 30, "stars": 5},
        {"key": "f", "text": "bad", "stars": 6},
    ]
    path = jsonl(tmp_path / "in.jsonl", rows)
    with path.open("ab") as file:
        file.write(b'not json\n{"key": "g", "text": "\xff"}\n{"key": "h", "text": "\\ud800"}\n')
    done = run(bert, path, tmp_path / "out", Predictions(long_text="error"), id_column="key", keep=["stars"])
    assert (done.rows, done.errors) == (9, 7)
    table = results(tmp_path / "out")
    assert table["id"].to_pylist() == ["a", "f"]
    assert table["stars"].to_pylist() == [1, 6]
    reasons = errors(tmp_path / "out")
    pieces = {1: "null", 2: "not text", 3: "no token", 4: "62 tokens", 6: "JSON", 7: "JSON", 8: "half"}
    assert sorted(reasons) == sorted(pieces)
    assert all(piece in reasons[row] for row, piece in pieces.items()), reasons


def test_too_many_errors_stop_the_run(tmp_path, bert):
    rows = [{"text": None if i % 2 else "good"} for i in range(64)]
    with pytest.raises(DataError, match="more than --max-errors 10"):
        run(bert, rows, tmp_path, max_errors=10)


def test_what_would_be_wrong_in_every_row_is_refused_before_anything_is_written(tmp_path):
    names = ("once", "twice", "TWICE")
    model = explainer(id2label=dict(enumerate(names)), label2id={name: i for i, name in enumerate(names)})
    with pytest.raises(TargetError, match="more than one label 'Twice'"):
        run(model, rows_of(texts(2)), tmp_path / "out", Predictions(target="Twice"))
    assert not (tmp_path / "out").exists()


def test_a_target_for_each_row(tmp_path, bert):
    rows = [{"text": t, "gold": g} for t, g in zip(texts(5), ["LABEL_1", "0", "1", None, "nope"], strict=True)]
    run(bert, rows, tmp_path, Predictions(target_column="gold"))
    assert results(tmp_path)["target"].to_pylist() == [["LABEL_1"], ["LABEL_0"], ["LABEL_1"]]
    assert errors(tmp_path)[3] == "no target"
    assert "nope" in errors(tmp_path)[4]


def test_a_text_that_breaks_the_method_costs_no_other(tmp_path):
    model = explainer("bert", "MaskedLM")
    run(model, rows_of(["a [MASK] film", "no mask", "[MASK] [MASK]", "the [MASK] is good"]), tmp_path)
    assert results(tmp_path)["row"].to_pylist() == [0, 3]
    assert "nowhere" in errors(tmp_path)[1]
