"""The progress of long calls on standard error: a line on a terminal or in a notebook, lines in a log.

One thread shows it for all calls: it is there while a single long step runs, too, and costs short calls nothing.
A call inside another one shows its own progress only if the outer one has no steps of its own to show.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

from rich.cells import set_cell_size
from rich.console import Console

PATIENCE = 1.0
"""Seconds before progress appears, so that short calls show none."""

LOG_EVERY = 10.0
"""Seconds between two lines of a log."""

REFRESH = 0.5
"""Seconds between two refreshes of the line on a terminal."""

MINUTE, HOUR = 60, 3600  # seconds


class Display:
    """The progress of one call; its arguments are those of `progress_bar`.

    Attributes:
        has_steps: Whether it has shares of the work to show, so that calls inside of it show none of theirs.
    """

    def __init__(self, total: float | None, description: str, *, times: bool) -> None:
        self.has_steps = total is not None and total > 1  # a single step is never seen half done
        self._total = total or 1.0  # of None, all of the work; of 0 nothing is ever completed
        self._completed = 0.0
        self._description = description
        self._times = times
        self._started = monotonic()
        self._time_of_completed = 0.0  # seconds that the completed steps took
        self._is_shown = False

    def update(self, advance: float = 0.0, *, completed: float | None = None, description: str | None = None) -> None:
        """Add steps, or set how many are completed, and set what is done now; None leaves these as they are."""
        if advance or completed is not None:
            self.has_steps = True
            self._completed = (self._completed if completed is None else completed) + advance
            self._time_of_completed = monotonic() - self._started
        self._description = description or self._description

    def show(self, waited: float) -> float:
        """Show the progress.

        Args:
            waited: The seconds since the outermost call began.

        Returns:
            The seconds until it should be shown again.
        """
        console = Console(stderr=True)
        if console.is_jupyter or console.is_terminal:
            self._write_over(console, self._line())
            return REFRESH
        if waited < LOG_EVERY:
            return LOG_EVERY - waited
        _write(f"{self._line()}\n")
        return LOG_EVERY

    def clear(self) -> None:
        """Remove what is shown on a terminal or in a notebook."""
        if self._is_shown:
            self._write_over(Console(stderr=True), "")

    def _line(self) -> str:
        """Return the progress in one line: what is done, the share of it, the time that it took and that is left."""
        if not self._times:
            return self._description
        elapsed = monotonic() - self._started
        share = self._completed / self._total
        if not share:
            return f"{self._description}: {_duration(elapsed)}"
        line = f"{self._description}: {share:.0%}, {_duration(elapsed)}"
        left = self._time_of_completed / share - elapsed  # it falls during a step, however long that is
        return line + (f", about {_duration(left)} left" if left > 0 else "")

    def _write_over(self, console: Console, line: str) -> None:
        """Write a line over the one before."""
        # Some terminals break a line of their full width. What is printed next begins on the line, over it.
        _write(f"\r{set_cell_size(line, console.width - 1)}\r")
        self._is_shown = bool(line)


class Watch:
    """The displays of all calls, and the one thread that shows the newest.

    The thread ends when no call has shown up for `PATIENCE` seconds. All attributes are guarded by `_changed`, which
    is notified when the thread should wake up earlier than it planned to. Times are those of `monotonic`.

    Attributes:
        _changed: The lock, and the signal for the thread.
        _displays: The displays, the newest last.
        _thread: The thread; None while none is running.
        _began: When the outermost call began.
        _due: When the newest display is to be shown again.
        _wakes_at: When the thread wakes up by itself.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a fork must: it has no threads of its parent, and the lock that one of them held."""
        self._changed = threading.Condition()
        self._displays: list[Display] = []
        self._thread: threading.Thread | None = None
        self._began = self._due = self._wakes_at = 0.0

    def add(self, display: Display, *, at_once: bool) -> None:
        """Show a display when it is due: at once, or when the outermost call has taken long."""
        with self._changed:
            now = monotonic()
            if not self._displays:
                self._began, self._due = now, now + PATIENCE
            if at_once:
                self._due = now
            self._displays.append(display)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="normxlogit progress", daemon=True)
                self._thread.start()
            elif self._due < self._wakes_at:
                self._changed.notify()

    def remove(self, display: Display) -> None:
        """Show a display no longer."""
        with self._changed:
            display.clear()
            if display in self._displays:  # in a fork, which forgets them, a call of its parent may end
                self._displays.remove(display)

    def _run(self) -> None:
        """Show the newest display whenever it is due, until there has been none for `PATIENCE` seconds."""
        with self._changed:
            while True:
                now = monotonic()
                if self._displays and self._due <= now:
                    *others, newest = self._displays  # which is shown in the place of the others
                    for display in others:
                        display.clear()
                    self._due = now + newest.show(now - self._began)
                is_idle = not self._displays
                self._wakes_at = now + PATIENCE if is_idle else self._due
                is_notified = self._changed.wait(self._wakes_at - now)
                if is_idle and not is_notified and not self._displays:
                    self._thread = None
                    return


_WATCH = Watch()
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_WATCH.forget)


class _OfThread(threading.local):
    """What each thread has of its own: `__init__` is called in each."""

    def __init__(self) -> None:
        self.displays: list[Display] = []  # the outermost first


_of_thread = _OfThread()


@contextmanager
def progress_bar(
    total: float | None, show: bool | None, description: str = "explaining", *, times: bool = True
) -> Iterator[Callable[..., None]]:
    """Show progress on standard error; yield `Display.update`, which adds steps or sets how many are completed.

    Args:
        total: The number of steps; None where it is not known before the work begins: then steps are shares of all of
            it, which together make 1.
        show: True to show it, False for nothing; None to show it after a second, in a log after ten, if this is the
            main thread.
        description: What is done.
        times: Whether to show the share, the elapsed and the remaining time, for descriptions that do not.
    """
    is_inner = any(display.has_steps for display in _of_thread.displays)
    is_shown = threading.current_thread() is threading.main_thread() if show is None else show
    if not is_shown or (is_inner and show is None):
        yield lambda *steps, **state: None  # in the place of `Display.update`
        return
    display = Display(total, description, times=times)
    try:
        _of_thread.displays.append(display)
        _WATCH.add(display, at_once=bool(show))
        yield display.update
    finally:
        _WATCH.remove(display)
        _of_thread.displays.remove(display)


VERIFYING = partial(progress_bar, show=None, description="verifying")
"""Shows how many removals are measured, see `normxlogit.leave_out.outcomes.Outcomes`."""


def _duration(seconds: float) -> str:
    """Return a time as a reader would say it."""
    minutes, rest = divmod(round(seconds), MINUTE)
    if minutes == 0:
        return f"{rest} s"
    if seconds < HOUR:
        return f"{minutes} min {rest} s"
    return f"{seconds / HOUR:.1f} h"


def _write(text: str) -> None:
    """Write to standard error at once."""
    sys.stderr.write(text)
    sys.stderr.flush()
