"""The progress of a corpus run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic

from .rows.shards import WrittenShard


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
    fresh: int = 0
    tokens: int = 0
    seconds: float = 0.0
    fraction: float = 0.0
    started: float = 0.0

    @property
    def texts_per_second(self) -> float:
        """Return the rows per second of this run."""
        return self.fresh / max(self.seconds, 1e-9)

    @property
    def tokens_per_second(self) -> float:
        """Return the tokens per second of this run."""
        return self.tokens / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        share = self.fraction - self.started
        left = f", {timedelta(seconds=round(self.seconds * (1 - self.fraction) / share))} left" if share > 0 else ""
        done = f"{self.rows:,} texts" + (f" ({self.fraction:.0%})" if self.fraction else "")
        errors = f", {self.errors:,} errors" if self.errors else ""
        return f"{done}, {self.texts_per_second:,.0f} texts/s, {self.tokens_per_second:,.0f} tokens/s{left}{errors}"


Watcher = Callable[[Progress], None]
"""Called with the progress after each shard."""


class Clock:
    """Counts what a run has done since it started, after the shards of earlier runs."""

    def __init__(self, earlier: Iterable[WrittenShard]) -> None:
        self._start = monotonic()
        counts = [(shard.rows, shard.errors) for shard in earlier]
        self.progress = Progress(sum(rows for rows, _ in counts), sum(errors for _, errors in counts))

    def skipped(self, fraction: float) -> None:
        """Count the share of the input that earlier runs explained; the time to read it does not count."""
        if not self.progress.fresh:
            self.progress = replace(self.progress, started=fraction, fraction=fraction)
            self._start = monotonic()

    def add_shard(self, shard: WrittenShard, fraction: float) -> None:
        """Count a written shard, with the share of the input read so far; shards may finish out of order."""
        earlier = self.progress
        self.progress = replace(
            earlier,
            rows=earlier.rows + shard.rows,
            errors=earlier.errors + shard.errors,
            fresh=earlier.fresh + shard.rows,
            tokens=earlier.tokens + shard.tokens,
            seconds=monotonic() - self._start,
            fraction=max(fraction, earlier.fraction),
        )
