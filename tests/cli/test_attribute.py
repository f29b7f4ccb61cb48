"""`normxlogit attribute`: the options say which job a run does."""

import json

import pytest

from tests.commands import run

CONFLICTS = {
    "a label of a completion": (["--sources", "word", "--target", "0"], "--target is for predictions"),
    "the words of an answer": (["--answer-column", "answer", "--words"], "--words is for predictions"),
    "the parts of a conversation": (["--messages-column", "chat", "--parts", "word"], "--parts is for completions"),
    "a turn of an answer": (["--answer-column", "answer", "--turn", "1"], "--turn is for conversations"),
    "a test of nothing": (["--verify", "auto"], "--verify is for answers or conversations"),
    "no job": (["--merge", "sum", "--no-words"], "merge says how tokens make words"),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_options_of_two_jobs_are_refused(case, tmp_path, capsys):
    options, says = CONFLICTS[case]
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"text": "a fine film"}) + "\n", encoding="utf-8")
    code, _, err = run(capsys, "attribute", rows, "--output", tmp_path / "out", *options)
    assert (code, says in err) == (2, True), err
    assert not (tmp_path / "out").exists()
