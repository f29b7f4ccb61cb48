"""The command line starts without torch, and leaves the process as it was."""

import re
import subprocess
import sys

from tests import tiny
from tests.commands import run
from tests.contract.test_unchanged_process import ENVIRONMENT, surroundings, without_torch
from tests.contract.untouched import random_states


def command(*arguments):
    return without_torch("from normxlogit.cli import main; main()", *arguments)


def test_the_list_of_commands_waits_for_no_large_package():
    program = (
        "import sys\nfrom normxlogit.cli import main\ntry:\n    main(['--help'])\n"
        "finally:\n    print({'torch', 'numpy', 'jinja2', 'rich'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, env=ENVIRONMENT)
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"Colour the tokens that a model's answer rests on." in run.stdout
    assert run.stdout.endswith(b"set()\n")


def test_the_methods_are_listed():
    code, out, err = command("methods")
    assert (code, err) == (0, "")
    assert " frozen-gradient " in out
    assert "NormXLogit (EMNLP 2025)" in out


def test_the_command_line_leaves_this_process_as_it_was(capsys, tmp_path):
    tiny.save(tmp_path / "model", "bert")
    lines = (["explain", "the cat", "--model", tmp_path / "model"], ["explain", "x", "--target", "nope"], ["methods"])
    for words in lines:
        run(capsys, *words)
    before = surroundings(), random_states()
    for words in lines:
        run(capsys, *words)
    assert (surroundings(), random_states()) == before


def test_the_help_shows_common_options_first_and_the_others_in_groups(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "explain", "--help")
    headings = re.findall(r"^(\w[\w ]*):$", out, re.MULTILINE)
    assert code == 0
    assert headings == ["Arguments", "Options", "What is explained", "Loading the model"]
    common, _, rest = out.partition("What is explained:")
    assert all(f"--{name} " in common for name in ("model", "method", "target", "output"))
    assert all(f"--{name} " in rest for name in ("layers", "dtype", "trust-remote-code"))
    assert max(map(len, out.splitlines())) <= 80
