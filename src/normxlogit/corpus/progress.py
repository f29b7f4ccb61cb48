"""How far a corpus run is."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

__all__ = ["Clock", "Progress", "Watcher"]


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        rows: Rows that are written, those of earlier runs included.
        errors: How many of them have no result.
        fresh: Rows that this run has done.
        tokens: Tokens that this run has explained.
        seconds: Time that this run took.
        fraction: Share of the input that is done, 0 if that is not known.
        started: Share that was done before this run.
    """

    rows: int
    errors: int
    fresh: int
    tokens: int
    seconds: float
    fraction: float
    started: float

    @property
    def texts_per_second(self) -> float:
        """Return the rows per second of this run."""
        return self.fresh / max(self.seconds, 1e-9)

    @property
    def tokens_per_second(self) -> float:
        """Return the tokens per second of this run."""
        return self.tokens / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Return an estimate of what is left, None where the length of the input is not known."""
        done = self.fraction - self.started
        return self.seconds * (1 - self.fraction) / done if done > 0 else None

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f", {duration(self.seconds_left)} left"
        wrong = f", {self.errors:,} errors" if self.errors else ""
        share = f" ({self.fraction:.0%})" if self.fraction else ""
        rates = f"{self.texts_per_second:,.0f} texts/s, {self.tokens_per_second:,.0f} tokens/s"
        return f"{self.rows:,} texts{share}, {rates}{left}{wrong}"


Watcher = Callable[[Progress], None]
"""Is told after each shard how far the run is."""


class Clock:
    """Counts what a run has done since it started."""

    def __init__(self, rows: int, errors: int) -> None:
        self._begin = time.monotonic()
        self.now = Progress(rows, errors, 0, 0, 0.0, 0.0, 0.0)

    def skipped(self, fraction: float) -> None:
        """Note how far earlier runs came."""
        if not self.now.fresh:
            self.now = replace(self.now, started=fraction, fraction=fraction)
            self._begin = time.monotonic()

    def done(self, rows: int, errors: int, tokens: int, fraction: float) -> Progress:
        """Note a shard."""
        now = self.now
        self.now = Progress(
            now.rows + rows,
            now.errors + errors,
            now.fresh + rows,
            now.tokens + tokens,
            time.monotonic() - self._begin,
            max(fraction, now.fraction),
            now.started,
        )
        return self.now


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
