"""How far a corpus run is, for people who wait: a bar on a terminal, lines in a log."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from ..pipeline.progress import PATIENCE, wanted_here
from .progress import Progress, Watcher

__all__ = ["progress_shown"]

LOG_EVERY = 10.0
"""Seconds between two lines where no terminal shows a bar."""


@contextmanager
def progress_shown(wanted: bool | None) -> Iterator[Watcher]:
    """Show how far a run is on standard error.

    Args:
        wanted: True for a bar on a terminal and lines otherwise, False for nothing; None shows a bar after a second, if
            standard error is a terminal.

    Yields:
        What is told after each shard.
    """
    console = Console(stderr=True)
    shown = wanted_here() if wanted is None else wanted
    if not shown:
        yield lambda now: None
    elif not console.is_terminal:
        yield _log()
    else:
        bar = Bar(BarColumn(), TextColumn("{task.description}"), console=console, transient=True)
        task = bar.add_task("starting", total=None)

        def show(now: Progress) -> None:
            share = {"total": 1.0, "completed": now.fraction} if now.fraction else {}
            bar.update(task, description=str(now), **share)  # type: ignore[arg-type]
            if not bar.live.is_started and now.seconds > PATIENCE:
                bar.start()

        if wanted:
            bar.start()
        try:
            yield show
        finally:
            bar.stop()


def _log() -> Watcher:
    last = 0.0

    def log(now: Progress) -> None:
        nonlocal last
        if now.seconds - last >= LOG_EVERY:
            last = now.seconds
            sys.stderr.write(f"{now}\n")
            sys.stderr.flush()

    return log
