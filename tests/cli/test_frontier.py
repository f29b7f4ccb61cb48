"""The command evaluate frontier, run."""

import json

from tests.commands import run

from .test_experiments import reviews  # noqa: F401  # a fixture

REFUSED = "frozen-gradient:read_at=99"
METHODS = (
    "normxlogit frozen-gradient:read_at=0,points=0.3,baseline=mask guided-lime:samples=4,prior=(lime:samples=9,seed=2) "
    f"{REFUSED}"
)


def test_from_a_file_to_table_and_figure(capsys, tmp_path, reviews):  # noqa: F811
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
    assert set(points) == set(METHODS.split())
    assert [method for method, point in points.items() if point["reason"]] == [REFUSED]
    assert points["normxlogit"]["cost"]["passes"] > 0
    assert state["environment"]["device"]
    drawn = (out / "frontier.svg").read_text()
    assert "guided-lime" in drawn
    assert REFUSED not in drawn
    assert (out / "frontier.png").stat().st_size > 1000
    assert run(capsys, *command)[1] == text, "a second run reads the finished runs"
