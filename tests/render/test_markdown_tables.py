"""Tables that are Markdown in files, drawn for a terminal."""

import pytest

from normxlogit.cli import console
from normxlogit.render.terminal import text_of_markdown

NAME = "input-norm:norm_of=word_embedding"
REPORT = f"""data set: a_b_c, texts: 3

| method | AOPC ↑ | 95% interval |
|---|---:|---|
| normxlogit | **0.442** | 0.429 to 0.456 |
| {NAME} | <u>0.310</u> | 0.301 to 0.320 |
| `x` | N/A: no head \\| no tail | |
"""


def test_numbers_line_up_and_marks_are_gone(monkeypatch):
    monkeypatch.setattr("normxlogit.render.terminal._width", lambda: 80)
    text = text_of_markdown(REPORT)
    assert text.startswith("data set: a_b_c, texts: 3\n")
    lines = text.splitlines()
    ends = [line.index("0.4") + 5 for line in lines if "normxlogit" in line]
    ends += [line.index("0.310") + 5 for line in lines if NAME in line]
    assert len(set(ends)) == 1
    assert "no head | no tail" in text
    assert not any(mark in text for mark in ("**", "<u>", "`", "---", "*0"))


@pytest.mark.parametrize("terminal_there", [True, False])
def test_a_file_gets_markdown_and_a_terminal_the_drawing(monkeypatch, capsys, terminal_there):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal_there)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "50")
    console.write_report(REPORT)
    out = capsys.readouterr().out
    assert (out == REPORT) is not terminal_there
    if terminal_there:
        assert max(map(len, out.splitlines())) <= 50
        assert "0.442" in out
