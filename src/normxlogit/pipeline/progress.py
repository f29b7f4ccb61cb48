"""The progress of long calls on standard error: a bar on a terminal, a line in a notebook, lines in a log.

A thread shows it, so that it is there while a single long step runs, too. A call inside another one shows its own
progress only if the outer one has no steps of its own to show.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

PATIENCE, LOG_EVERY, REFRESH = 1.0, 10.0, 1.0
"""Seconds before progress appears, so that short calls show none; between two lines of a log; of a notebook's line."""

_active = threading.local()


def _displays() -> "list[Display]":
    """Return the displays of this thread, the outermost first."""
    if not hasattr(_active, "displays"):
        _active.displays = []
    displays: list[Display] = _active.displays
    return displays


@contextmanager
def progress_bar(
    total: float | None, show: bool | None, description: str = "explaining", *, times: bool = True
) -> Iterator[Callable[..., None]]:
    """Show progress on standard error; yield a function that adds steps, or sets what rich calls `completed=`.

    Args:
        total: The number of steps; None if it is not known before the work begins, and then 1 if it can be known.
        description: What is done.
        show: True to show it, False for nothing; None to show it after a second, in a log after ten, if this is the
            main thread.
        times: Whether to show the share, the elapsed and the remaining time, for descriptions that do not.
    """
    outer = _displays()
    is_inner = any(display.has_steps for display in outer)
    is_shown = threading.current_thread() is threading.main_thread() if show is None else show
    if not is_shown or (is_inner and show is None):
        yield lambda *steps, **state: None
        return
    for display in outer:
        display.pause()
    display = Display(total, description, at_once=bool(show), times=times)
    outer.append(display)
    try:
        yield display.update
    finally:
        outer.pop().end()
        for display in outer:
            display.resume()


VERIFYING = partial(progress_bar, show=None, description="verifying")
"""Shows how many removals are measured, see `normxlogit.leave_out.outcomes.Outcomes`."""


class Display:
    """The progress of one call.

    Args:
        total: The number of steps, as in `progress_bar`.
        description: What is done.
        at_once: Whether a terminal shows it without waiting.
        times: Whether the share and the times are shown.
    """

    def __init__(self, total: float | None, description: str, *, at_once: bool, times: bool) -> None:
        console = Console(stderr=True)
        self.is_notebook = console.is_jupyter
        self.is_terminal = console.is_terminal and not self.is_notebook
        self.times = times
        self.has_steps = total is not None and total > 1
        self._wait = 0.0 if at_once else PATIENCE
        self._started = monotonic()
        name = Column(no_wrap=True, overflow="ellipsis")
        shares = (TextColumn("{task.fields[share]}"), TimeElapsedColumn(), TimeRemainingColumn())
        columns = (TextColumn("{task.description}", table_column=name), BarColumn(), *(shares if times else ()))
        self._bar = Progress(*columns, console=console, transient=True, speed_estimate_period=3600)
        self._task = self._bar.add_task(description, total=total if self.has_steps else None, share="")
        self._is_paused = False
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._thread.start()

    def update(self, advance: float | None = None, **state: Any) -> None:
        """Add steps, or set what `rich.progress.Progress.update` takes."""
        self.has_steps = self.has_steps or advance is not None or "completed" in state
        if self._bar.tasks[0].total is None and self.has_steps:
            state["total"] = 1.0
        self._bar.update(self._task, advance=advance, **state)
        self._bar.update(self._task, share=f"{self._bar.tasks[0].percentage:3.0f}%" if self.has_steps else "")

    def pause(self) -> None:
        """Show nothing, as a call inside this one shows its own progress."""
        with self._lock:
            self._is_paused = True
            self._clear()

    def resume(self) -> None:
        """Show the progress again."""
        with self._lock:
            self._is_paused = False
            if self.is_terminal and not self._thread.is_alive():  # it was shown before
                self._bar.start()

    def end(self) -> None:
        """Stop, and remove what is shown on a terminal or in a notebook."""
        self._ended.set()
        self._thread.join()
        self._clear()

    def _show(self) -> None:
        """Show the progress until the call ends; a terminal's bar then refreshes itself."""
        if self.is_terminal:
            self._ended.wait(self._wait)
            with self._lock:
                if not self._ended.is_set() and not self._is_paused:
                    self._bar.start()
            return
        while not self._ended.wait(REFRESH if self.is_notebook else LOG_EVERY):
            with self._lock:
                if not self._is_paused:
                    self._write(f"\r{self._line()}" if self.is_notebook else f"{self._line()}\n")

    def _clear(self) -> None:
        """Remove what is shown on a terminal or in a notebook."""
        if self._bar.live.is_started:
            self._bar.stop()
        if self.is_notebook and monotonic() - self._started > REFRESH:
            self._write(f"\r{' ' * len(self._line())}\r")

    def _line(self) -> str:
        """Return the progress in one line: what is done, how far it is, and about how long it takes."""
        task = self._bar.tasks[0]
        if not self.times:
            return str(task.description)
        elapsed, share = monotonic() - self._started, task.percentage / 100
        if not share:
            return f"{task.description}, {elapsed:.0f} s"
        return f"{task.description} {share:.0%}, {elapsed:.0f} s, about {elapsed * (1 - share) / share:.0f} s left"

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
