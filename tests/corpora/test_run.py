"""A corpus run: the same numbers as the explainer's, every row once, and nothing that changed unnoticed."""

import numpy as np
import pytest

import normxlogit
from normxlogit import ALL, Predictions
from normxlogit.errors import DataError, TargetError
from tests import tiny

from .corpora import errors, explainer, jsonl, results, rows_of, run, texts


def same(loaded, wanted):
    """Whether two results agree in all that the files hold."""
    for name in ("units", "targets", "layers", "method", "settings", "notes"):
        assert getattr(loaded, name) == getattr(wanted, name), name
    assert loaded.prediction.label == wanted.prediction.label
    assert loaded.prediction.id == wanted.prediction.id
    np.testing.assert_allclose(loaded.scores, wanted.scores, atol=2e-4, rtol=1e-4)
    assert (loaded.bias is None) == (wanted.bias is None)
    if wanted.bias is not None:
        np.testing.assert_allclose(loaded.bias, wanted.bias, atol=2e-4, rtol=1e-4)
    assert loaded.scores.shape == wanted.scores.shape


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target": ALL, "layers": ALL},
        {"target": ["LABEL_1", "LABEL_0"], "contrast": 2},
        {"layers": [2, 3]},
        {"long_text": "window"},
    ],
)
def test_the_results_are_the_explainers(tmp_path, options):
    model = explainer(num_labels=3)
    some = [*texts(40), "the movie is good " * 20]
    done = run(model, rows_of(some), tmp_path / "out", Predictions(**options), keep_text=True)
    assert (done.rows, done.errors) == (41, 0)
    loaded = [a for file in sorted((tmp_path / "out/shards").glob("*")) for a in normxlogit.load(file)]
    assert [a.text for a in loaded] == some  # in the order of the input
    for one, other in zip(loaded, model(some, **options), strict=True):
        same(one, other)


@pytest.mark.parametrize(
    ("family", "kind", "some"),
    [
        ("gpt2", "CausalLM", texts(20)),
        ("bert", "MaskedLM", [tiny.MASKED, "a [MASK] film", "the movie was [MASK] !"]),
        ("bert", "TokenClassification", texts(20)),
        ("bert", "QuestionAnswering", [("is the movie good ?", text) for text in texts(5)]),
    ],
)
def test_models_that_answer_at_a_token(tmp_path, family, kind, some):
    model, pairs = explainer(family, kind), kind == "QuestionAnswering"
    rows = [{"text": a, "b": b} for a, b in some] if pairs else rows_of(some)
    run(model, rows, tmp_path, Predictions(pair_column="b" if pairs else None))
    loaded = normxlogit.load(tmp_path / "shards/00000000.parquet")
    for one, other in zip(loaded, model(some)[:16], strict=True):
        same(one, other)


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
    run(bert, rows[:3], tmp_path / "differences", Predictions(target_column="gold", contrast="LABEL_1"))
    assert results(tmp_path / "differences")["row"].to_pylist() == [1]
    reasons = errors(tmp_path / "differences")
    assert sorted(reasons) == [0, 2]
    assert all("also the contrast" in reason for reason in reasons.values())
