import io
import os
import subprocess
import sys

import pytest

from tests.commands import run, run_paper

from .commands import LINES, NOT_UTF8
from .shop import LONGEST, STEERING, listing

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HF_HUB_OFFLINE": "1"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def check(code, out, err, row):
    assert (code, out) == (2, "")
    assert row.says in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
    assert not STEERING.search(err)
    if err.startswith("error: "):
        assert err.count("\n") == 1
        assert len(err) <= LONGEST + 10
    else:
        assert err.startswith(("Usage: normxlogit", "Usage: python -m paper"))  # what typer itself refuses


@pytest.mark.parametrize("row", LINES, ids=lambda row: row.name)
def test_a_bad_command_line(row, there, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal() if row.stdin is None else io.TextIOWrapper(io.BytesIO(row.stdin)))
    files = listing(there)
    paper = row.words[:3] == ("python", "-m", "paper")
    code, out, err = run_paper(capsys, *row.words[3:]) if paper else run(capsys, *row.words)
    check(code, out, err, row)
    assert listing(there) == files


REAL = [row for row in LINES if row.words in (("explain", NOT_UTF8), ("explain", "--file", "latin.txt"))]


@pytest.mark.parametrize("row", REAL, ids=lambda row: row.name)
def test_so_it_is_in_a_process_of_its_own(row, there):
    """Arguments as the system hands them over, and the interpreter's own streams."""
    command = [sys.executable, "-c", "from normxlogit.cli import main; main()", *map(os.fsencode, row.words)]
    found = subprocess.run(command, capture_output=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    check(found.returncode, found.stdout.decode(), found.stderr.decode(), row)
