"""The measuring commands from end to end, on the model in the package and on tiny ones."""

import json

import pytest

from tests import tiny
from tests.commands import run, run_paper

ROWS = [
    ("a warm and funny film", 1),
    ("boring and far too long", 0),
    ("great acting , weak plot", 1),
    ("it never gets going", 0),
]

REFUSED = "frozen-gradient:read_at=99"
METHODS = f"normxlogit frozen-gradient:read_at=0,point=0.3,baseline=mask lime:samples=4,seed=2 {REFUSED}"


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.jsonl"
    path.write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in ROWS), encoding="utf-8")
    return path


def test_faithfulness_of_ones_own_sentences(capsys, tmp_path, reviews):
    out = tmp_path / "out"
    command = ["evaluate", "faithfulness", "--dataset", reviews, "--columns", "text", "--limit", 3]
    command += ["--methods", "normxlogit random", "--output", out]
    code, text, _ = run(capsys, *command)
    assert code == 0
    assert "texts: 3" in text
    state = json.loads((out / "results.json").read_text())
    assert f"{state['results'][0]['aopc']:.3f}" in text
    assert (out / "aopc.svg").is_file()
    assert run(capsys, *command)[1] == text, "a second run reads the finished runs"


def test_the_frontier_of_ones_own_sentences(capsys, tmp_path, reviews):
    out = tmp_path / "out"
    command = ["evaluate", "frontier", "--dataset", reviews, "--columns", "text", "--limit", 3, "--rounds", 1]
    command += ["--methods", METHODS, "--output", out]
    code, text, err = run(capsys, *command)
    assert code == 0, err
    assert text.startswith("reviews.jsonl, default: texts 3, split validation\n\n| method |")
    assert all(f"| {method} |" in text for method in METHODS.split())
    assert (out / "frontier.md").read_text() == text
    state = json.loads((out / "frontier.json").read_text())
    (panel,) = state["panels"]
    points = {point["method"]: point for point in panel["points"]}
    assert [method for method, point in points.items() if "reason" in point["result"]] == [REFUSED]
    assert points["normxlogit"]["cost"]["passes"] > 0
    drawn = (out / "frontier.svg").read_text()
    assert "lime" in drawn
    assert REFUSED not in drawn


def test_a_head_for_another_task_is_refused_before_anything_is_written(capsys, tmp_path):
    (tmp_path / "mnli").mkdir()
    row = {"premise": "a cat sat", "hypothesis": "a cat", "label": 2}
    (tmp_path / "mnli" / "validation.jsonl").write_text(json.dumps(row))
    model = tiny.save(tmp_path / "classifier", "bert", num_labels=2)
    options = ["--data-dir", tmp_path, "--methods", "random", "--output", tmp_path / "out"]
    for code, out, err in (
        run_paper(capsys, "table1", "--checkpoint", f"M:mnli={model}", *options),
        run(capsys, "evaluate", "faithfulness", "--dataset", "mnli", "--model", model, *options),
    ):
        assert (code, out) == (2, "")
        assert "answers with 2 labels, and mnli needs 3 labels" in err
    assert not (tmp_path / "out").exists()
