import csv
import io
import json
import re
import shlex

import numpy as np
import pytest

import normxlogit
from normxlogit import cli
from normxlogit.cli.console import status


def commands(app, *names):
    for entry in app.registered_commands:
        yield [*names, entry.name or entry.callback.__name__]
    for group in app.registered_groups:
        yield from commands(group.typer_instance, *names, group.name)


@pytest.mark.parametrize("names", list(commands(cli.app)), ids=" ".join)
def test_short_help_has_an_example_that_is_that_command(names, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(*names, "-h") == 0
    shown = capsys.readouterr().out
    (example,) = re.findall(r"Example: (.*)", shown)
    words = shlex.split(example)
    assert words[: len(names) + 1] == ["normxlogit", *names]
    assert all(option in shown for option in words if option.startswith("--"))


def test_errors_are_wrapped_at_spaces_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert run("explain", "--method", "no-such-method", "a text") == 2
    plain = capsys.readouterr().err
    assert plain.count("\n") == 1, "one line for programs"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert run("explain", "--method", "no-such-method", "a text") == 2
    drawn = capsys.readouterr().err
    assert max(map(len, drawn.splitlines())) <= 40
    assert drawn.split() == plain.split(), "no word is cut"


@pytest.mark.parametrize("name", ["why.html", "why.tex", "why.svg"])
def test_a_terminal_says_which_file_was_written(name, tmp_path, capsys, monkeypatch):
    file = tmp_path / name
    for there, said in ((False, ""), (True, f"wrote {file}\n")):
        monkeypatch.setattr("sys.stderr.isatty", lambda there=there: there)
        assert run("explain", "good", "--method", "normxlogit", "--output", str(file)) == 0
        shown = capsys.readouterr().err
        assert shown.endswith(said)
        assert ("wrote" in shown) == there
        assert file.exists()


def test_what_a_command_is_at_stays_on_one_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with status(f"loading {'/a-long-folder' * 5}"):
        pass
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    shown = [line for line in re.split(r"[\r\n]+", drawn) if line.strip()]
    assert shown
    assert all("loading /a-long" in line and line.endswith("\u2026") and len(line) <= 40 for line in shown)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    return int(stop.value.code or 0)


def test_csv_json_and_the_library_say_the_same(tmp_path, capsys):
    text = "A state-of-the-art film, isn't it?"
    assert run("explain", "--method", "normxlogit", text, "Bad.", "--output", str(tmp_path / "a.json")) == 0
    assert run("explain", "--method", "normxlogit", text, "Bad.", "--output", str(tmp_path / "a.csv")) == 0
    assert run("explain", "--method", "normxlogit", text, "--format", "json", "--words") == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    found = normxlogit.load(tmp_path / "a.json")
    assert [a.text for a in found] == [text, "Bad."]
    (tmp_path / "b.json").write_text(json.dumps(printed))
    (alone,) = normxlogit.load(tmp_path / "b.json")  # read in another batch, so that rounding may differ
    np.testing.assert_allclose(alone.scores, found[0].scores, rtol=1e-4, atol=1e-5)
    assert (alone.tokens, alone.offsets, alone.target) == (found[0].tokens, found[0].offsets, found[0].target)
    words = [w["text"] for w in printed["attributions"][0]["words"]]
    assert words == ["A", "state-of-the-art", "film", ",", "isn't", "it", "?"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert [r["unit"] for r in rows] == [t for a in found for t in a.tokens]
