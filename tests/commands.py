"""The command lines in this process."""

import benchmarks.commands
import paper.cli
from normxlogit import cli


def run(capsys, *arguments, program=cli):
    """Run a command; returns exit code, output and errors."""
    code = 0
    try:
        program.main(list(map(str, arguments)))
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def run_paper(capsys, *arguments):
    """Run a command of the paper's experiments; returns exit code, output and errors."""
    return run(capsys, *arguments, program=paper.cli)


def run_benchmark(capsys, *arguments):
    """Run a measurement of `benchmarks/`; returns exit code, output and errors."""
    return run(capsys, *arguments, program=benchmarks.commands)
