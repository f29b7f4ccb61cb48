"""The measuring commands from end to end, on the model in the package and on tiny ones."""

import json

import pytest

from tests.commands import run

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
    command += ["--methods", "normxlogit random", "--gold-labels", "id2label", "--output", out]
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
    command += ["--methods", METHODS, "--gold-labels", "0=negative 1=positive", "--output", out]
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
