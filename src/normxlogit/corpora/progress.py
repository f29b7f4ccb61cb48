"""The progress of a corpus run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic

from .rows.shards import WrittenShard


@dataclass
class Progress:
    """How far a run is: counted on as it goes.

    Attributes:
        rows: Rows that are written, those of earlier runs included.
        errors: How many of them have no result.
        fresh: Rows that this run has done.
        tokens: Tokens that this run has explained.
        seconds: Time that this run took.
        fraction: Share of the input that is done, 0 if that is not known.
        started: Share that was done before this run.
    """

    rows: int = 0
    errors: int = 0
    fresh: int = 0
    tokens: int = 0
    seconds: float = 0.0
    fraction: float = 0.0
    started: float = 0.0
    _start: float = field(default_factory=monotonic, repr=False)

    @classmethod
    def after(cls, earlier: Iterable[WrittenShard]) -> "Progress":
        """Return the progress of a run that goes on after the shards of earlier runs."""
        counts = [(shard.rows, shard.errors) for shard in earlier]
        return cls(sum(rows for rows, _ in counts), sum(errors for _, errors in counts))

    @property
    def texts_per_second(self) -> float:
        """Return the rows per second of this run."""
        return self.fresh / max(self.seconds, 1e-9)

    def skip(self, fraction: float) -> None:
        """Count the share of the input that earlier runs explained; the time to read it does not count."""
        if not self.fresh:
            self.started = self.fraction = fraction
            self._start = monotonic()

    def add(self, shard: WrittenShard, fraction: float) -> None:
        """Count a written shard, with the share of the input read so far; shards may finish out of order."""
        self.rows += shard.rows
        self.errors += shard.errors
        self.fresh += shard.rows
        self.tokens += shard.tokens
        self.seconds = monotonic() - self._start
        self.fraction = max(fraction, self.fraction)

    def __str__(self) -> str:
        share = self.fraction - self.started
        left = f", {timedelta(seconds=round(self.seconds * (1 - self.fraction) / share))} left" if share > 0 else ""
        done = f"{self.rows:,} texts" + (f" ({self.fraction:.0%})" if self.fraction else "")
        errors = f", {self.errors:,} errors" if self.errors else ""
        tokens = self.tokens / max(self.seconds, 1e-9)
        return f"{done}, {self.texts_per_second:,.0f} texts/s, {tokens:,.0f} tokens/s{left}{errors}"


Watcher = Callable[[Progress], None]
"""Called with the progress after each shard."""
