"""The check of the documentation's figures: python -m paper --check."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from normxlogit.errors import DataError, InputError
from normxlogit.long_runs.console import progress, write_report

if TYPE_CHECKING:
    from .check import Ran

__all__ = ["check_record"]

ROOT = Path(__file__).parents[2]


def check_record(places: Sequence[Path], given: Sequence[str], slow: bool) -> None:
    """Run the commands of pages again and say which figures differ.

    Args:
        places: Markdown files, and folders of them.
        given: Replacements of names in the commands, as NAME=PATH.
        slow: Whether to run what is marked as slow.

    Raises:
        InputError: If a replacement has another form, or its path does not exist.
        DataError: If no page has figures.
        Exit: With code 1 where a figure differs, has no command, or its command fails.
    """
    from .check import check
    from .report import report

    stand_ins = dict(_given(entry) for entry in given)
    with tempfile.TemporaryDirectory() as folder, progress(1) as step:
        outcomes = check(places, _run, Path(folder), given=stand_ins, slow=slow, on_progress=step)
    if not outcomes:
        raise DataError(f"no figures to check in {', '.join(map(str, places))}: give pages with blocks of figures")
    write_report(report(outcomes))
    if any(outcome.wrong for outcome in outcomes):
        raise typer.Exit(1)


def _given(entry: str) -> tuple[str, Path]:
    name, equals, path = entry.partition("=")
    if not (name and equals and path):
        raise InputError(f"--given takes NAME=PATH, not {entry!r}")
    if not Path(path).exists():
        raise InputError(f"--given {name}: no file or folder {path}")
    return name, Path(path)


def _run(words: Sequence[str], folder: Path) -> "Ran":
    """Run a command in a process of its own, so that no command sees what another left in memory."""
    from .check import Ran

    arguments = words[1:] if words[0] == "python" else ["-c", "from normxlogit.cli import main; main()", *words[1:]]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))  # `paper` is not installed
    done = subprocess.run(  # noqa: S603 - our programs, with words of the page that is checked
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    return Ran(done.returncode, done.stdout, done.stderr)
