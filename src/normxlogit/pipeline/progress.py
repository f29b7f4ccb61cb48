"""Progress of calls, corpora and commands: a bar on a terminal, lines in a log."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PATIENCE, LOG_EVERY = 1.0, 10.0
"""Seconds before a bar appears, so that short calls show none, and between two lines of a log."""

_silent = threading.local()


@contextmanager
def no_bars() -> Iterator[None]:
    """Show no bar inside the block unless one is requested, as the caller shows its own."""
    was_silent = getattr(_silent, "on", False)
    _silent.on = True
    try:
        yield
    finally:
        _silent.on = was_silent


@contextmanager
def progress_bar(
    total: float | None, show: bool | None, description: str = "explaining", *, times: bool = True
) -> Iterator[Callable[..., None]]:
    """Show progress on standard error; yield a function that adds steps, or sets what rich calls `completed=`.

    Args:
        total: The number of steps; None if it is not known before the work begins, and then 1 if it can be known.
        show: True for a bar on a terminal and lines in a log, False for nothing; None for a bar after a second, if
            standard error is a terminal, this is the main thread and no `no_bars` block is active.
        times: Whether to show the share, the elapsed and the remaining time, for descriptions that do not.
    """
    main = threading.current_thread() is threading.main_thread() and not getattr(_silent, "on", False)
    if not (show if show is not None else total != 1 and main and sys.stderr.isatty()):
        yield lambda *steps, **state: None
        return
    console = Console(stderr=True)
    shares = (TextColumn("{task.percentage:3.0f}%"), TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *(shares if times else ()))
    bar = Progress(*columns, console=console, transient=True, speed_estimate_period=3600)
    task = bar.add_task(description, total=total)
    started = logged = monotonic()

    def update(advance: float | None = None, **state: Any) -> None:
        nonlocal logged
        if total is None and state.get("completed"):
            state["total"] = 1.0
        bar.update(task, advance=advance, **state)
        if console.is_terminal:
            if not bar.live.is_started and (show or monotonic() - started > PATIENCE):
                bar.start()
        elif monotonic() - logged >= LOG_EVERY:
            logged = monotonic()
            share = f" {bar.tasks[0].percentage:.0f}%" if times else ""
            sys.stderr.write(f"{bar.tasks[0].description}{share}\n")
            sys.stderr.flush()

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
