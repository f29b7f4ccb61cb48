"""The command evaluate frontier, run."""

import json

from tests.commands import run

from .test_experiments import reviews  # noqa: F401  # a fixture

METHODS = (
    "normxlogit frozen-gradient:read_at=0,points=0.3,baseline=mask guided-lime:samples=4,prior=(lime:samples=9,seed=2)"
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
    (panel,) = json.loads((out / "frontier.json").read_text())["panels"]
    assert {p["method"] for p in panel["points"]} == set(METHODS.split())
    assert (out / "frontier.svg").is_file()
    assert run(capsys, *command)[1] == text, "a second run reads the finished runs"
