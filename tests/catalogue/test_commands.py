import io

import pytest

from tests.commands import run, run_paper

from .commands import LINES
from .shop import LONGEST, STEERING, listing


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
