"""Rows of a benchmark: a ratio, the bound that its median should keep, and both as a table and as JSON."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from normxlogit.evaluation.timing import Timing, environment, ratios
from normxlogit.loading.load import AUTO, device_named

__all__ = ["Row", "as_state", "as_table", "row"]


@dataclass(frozen=True)
class Row:
    """One bound and what was measured.

    Attributes:
        name: A short name.
        work: What is compared.
        figures: The ratio in each round.
        bound: What the median should reach.
        at_least: Whether the bound is a lower one.
        seconds: Median seconds of each side.
        note: What a reader should know.
    """

    name: str
    work: str
    figures: tuple[float, ...]
    bound: float
    at_least: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def figure(self) -> float:
        """The median."""
        return statistics.median(self.figures)

    @property
    def passed(self) -> bool:
        """Whether the median keeps the bound."""
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound


def row(
    name: str,
    work: str,
    over: Timing,
    under: Timing,
    bound: float,
    *parts: Timing,
    at_least: bool = False,
    note: str = "",
) -> Row:
    """Return the row of a ratio of times.

    Args:
        name: A short name.
        work: What is compared.
        over: The times above the line.
        under: The times below it.
        bound: What the median should reach.
        *parts: Further times, which say where the time goes.
        at_least: Whether the bound is a lower one.
        note: What a reader should know.
    """
    seconds = {timing.name: timing.median for timing in (over, under, *parts)}
    return Row(name, work, ratios(over, under), bound, at_least=at_least, seconds=seconds, note=note)


def as_table(rows: Sequence[Row]) -> str:
    """Return the rows in Markdown."""
    lines = ["| work | bound | median | spread | |", "|---|---:|---:|---:|---|"]
    for r in rows:
        sign = "≥" if r.at_least else "≤"
        low, high = _short(min(r.figures)), _short(max(r.figures))
        times = ", ".join(f"{name} {_time(seconds)}" for name, seconds in r.seconds.items())
        work = f"{r.work} ({'; '.join(filter(None, (times, r.note)))})" if times or r.note else r.work
        verdict = "pass" if r.passed else "**fail**"
        lines.append(f"| {work} | {sign} {r.bound:g} | {_short(r.figure)} | {low} to {high} | {verdict} |")
    return "\n".join(lines) + "\n"


def as_state(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the rows and the machine as plain values for JSON."""
    figures = [asdict(r) | {"figure": r.figure, "passed": r.passed} for r in rows]
    return {"environment": environment(device_named(AUTO)), "rows": figures}


def _short(figure: float) -> str:
    """Return a ratio as text."""
    return f"{figure:.3f}" if figure < 10 else f"{figure:.0f}"


def _time(seconds: float) -> str:
    """Return a time as text."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
