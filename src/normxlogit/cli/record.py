"""The check of the documentation's figures: reproduce --check."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..errors import DataError, InputError
from .console import progress, write_report

if TYPE_CHECKING:
    from ..paper.record.check import Ran

__all__ = ["check_record"]


def check_record(places: Sequence[Path], given: Sequence[str], slow: bool) -> None:
    """Run the commands of pages again and say which figures differ.

    Args:
        places: Markdown files, and folders of them.
        given: What stands for names in the commands, as NAME=PATH.
        slow: Whether to run what is marked as slow.

    Raises:
        InputError: If one of what is given is not written so, or is not there.
        DataError: If no page has figures.
        Exit: With code 1 where a figure differs, has no command, or its command fails.
    """
    from ..paper.record.check import check
    from ..paper.record.report import report

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
    """Run the program as a reader does, in a process of its own, so that no command sees what another left."""
    from ..paper.record.check import Ran

    program = [sys.executable, "-c", "from normxlogit.cli import main; main()"]
    done = subprocess.run(  # noqa: S603 - this program, with words of the page that is checked
        [*program, *words], cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)
