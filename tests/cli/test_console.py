import re
import shlex
from contextlib import suppress
from pathlib import Path

import pytest
from typer.main import get_command

from normxlogit import cli
from tests.commands import commands_of, run


@pytest.mark.parametrize("names", dict(commands_of(get_command(cli.app))), ids=" ".join)
def test_short_help_has_an_example_that_is_that_command(names, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, shown, _ = run(capsys, *names, "-h")
    assert code == 0
    (example,) = re.findall(r"Example: (.*)", shown)
    words = shlex.split(example)
    assert words[: len(names) + 1] == ["normxlogit", *names]
    assert all(option in shown for option in words if option.startswith("--"))


@pytest.mark.parametrize("name", ["why.html", "why.svg"])
def test_a_file_that_is_opened_later_leaves_the_result_and_its_name_in_a_pipe_too(name, tmp_path, capsys):
    file, asked = tmp_path / name, ["explain", "good", "--method", "normxlogit"]
    code, printed, said = run(capsys, *asked, "--output", file)
    assert code == 0
    assert printed == run(capsys, *asked)[1]
    assert said == f"wrote {file}\n"
    assert file.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_behind_standard_output_is_one_line(capsys, monkeypatch):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr("sys.stdout", full)
        code, _, said = run(capsys, "methods")
        with suppress(OSError):
            full.close()
    assert code == 2
    assert said == "error: cannot write to standard output: No space left on device\n"
