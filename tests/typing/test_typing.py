"""Type checkers accept what is right and refuse what is wrong, line by line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

USAGE = Path(__file__).with_name("usage.py")
WRONG = {number for number, line in enumerate(USAGE.read_text().splitlines(), 1) if line.endswith("# wrong")}
ROOT = Path(__file__).parents[2]


def refused_by_mypy():
    command = [sys.executable, "-m", "mypy", "--strict", "--output", "json", "--config-file", ROOT / "pyproject.toml"]
    found = subprocess.run([*command, USAGE], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode in (0, 1), found.stderr
    errors = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    return {e["line"] for e in errors if e["severity"] == "error" and Path(e["file"]).name == USAGE.name}


def refused_by_pyright():
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", USAGE]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if not found.stdout.startswith("{"):
        pytest.fail(f"pyright did not run: {found.stdout[-400:]} {found.stderr[-400:]}")
    errors = json.loads(found.stdout)["generalDiagnostics"]
    return {e["range"]["start"]["line"] + 1 for e in errors if e["severity"] == "error"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_wrong_calls_are_refused_and_right_ones_are_not(checker):
    assert WRONG, "the file marks its wrong lines"
    assert (refused_by_mypy() if checker == "mypy" else refused_by_pyright()) == WRONG
