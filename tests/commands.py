"""The command lines in this process, and programs in one of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(capsys, *arguments, program=None):
    """Run a command; returns exit code, output and errors."""
    code, program = 0, program or pytest.importorskip("normxlogit.cli")
    try:
        program.main(list(map(str, arguments)))
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def commands_of(group, names=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, (*names, name))
        else:
            yield (*names, name), command


def run_paper(capsys, *arguments):
    """Run a command of the paper's experiments; returns exit code, output and errors."""
    import paper.cli  # which measures by the wing `evaluation`

    return run(capsys, *arguments, program=paper.cli)


def run_python(program, *arguments, **environment):
    """Run a program in a process of its own, which must end well; returns what it prints."""
    found = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout
