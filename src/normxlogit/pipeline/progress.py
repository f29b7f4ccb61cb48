"""A bar for calls that take long, where somebody looks."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["PATIENCE", "no_bars", "progress_bar", "wanted_here"]

PATIENCE = 1.0
"""Seconds without a bar: a call that is done by then needs none."""

_silent = threading.local()


@contextmanager
def no_bars() -> Iterator[None]:
    """Show no bar inside the block unless it is asked for: the caller shows its own."""
    before = getattr(_silent, "on", False)
    _silent.on = True
    try:
        yield
    finally:
        _silent.on = before


def wanted_here() -> bool:
    """Return whether a bar is of use unless one is asked for: on a terminal, in the main thread, outside `no_bars`."""
    own = threading.current_thread() is threading.main_thread() and not getattr(_silent, "on", False)
    return own and sys.stderr.isatty()


@contextmanager
def progress_bar(total: int, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """Show how many texts are explained and what time is left, on standard error.

    Args:
        total: How many there are.
        wanted: True for a bar, False for none; None shows one after a second, if standard error is a terminal.

    Yields:
        A function to call with the number of texts that were finished.
    """
    shown = wanted if wanted is not None else total > 1 and wanted_here()
    if not shown:
        yield lambda count: None
        return
    columns = (TextColumn("explaining"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("explaining", total=total)
    begun = monotonic()

    def advance(count: int) -> None:
        bar.advance(task, count)
        if not bar.live.is_started and (wanted or monotonic() - begun > PATIENCE):
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
