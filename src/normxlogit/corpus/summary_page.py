"""A summary for people: sections of rows, as a table on the terminal and as a page with bars and links to texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..render.html import environment
from ..results.characters import safe
from .summary import Summary
from .units import Unit

__all__ = ["Line", "Section", "page", "sections"]


@dataclass(frozen=True)
class Line:
    """A row of a section.

    Attributes:
        cells: What stands in it.
        value: The length of its bar, None for none.
        interval: The ends of the value's interval.
        examples: Ids of texts.
    """

    cells: list[str]
    value: float | None = None
    interval: tuple[float, float] | None = None
    examples: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """Rows with a heading.

    Attributes:
        heading: What they are.
        names: The names of the cells.
        lines: The rows.
        note: What the reader should know.
    """

    heading: str
    names: list[str]
    lines: list[Line]
    note: str = ""


def sections(summary: Summary) -> Iterator[Section]:
    """Return a summary section by section."""
    unit = summary.unit.removesuffix("s")
    rows = max(summary.rows, 1)
    shares = [Line([label, f"{n:,}", f"{n / rows:.1%}"], n / rows) for label, n in summary.labels.items()]
    yield Section("Predictions", ["label", "texts", "share"], shares[:50])
    for heading, units, what in (
        ("largest mean score", summary.highest, "mean"),
        ("largest total score", summary.totals, "total"),
        ("most often against the prediction", summary.against, "against"),
    ):
        for label in dict.fromkeys(found.label for found in units):
            own = [_unit(found, what) for found in units if found.label == label]
            names = [unit, "places", "mean", "95% interval", what if what != "mean" else "total"]
            yield Section(f"{label}: {heading}", names, own)
    mass = [Line([m.kind, f"{m.tokens:.1%}", f"{m.mass:.1%}"], m.mass) for m in summary.mass]
    yield Section("Where the scores are", ["kind", "share of places", "share of scores"], mass)
    if summary.accuracy is not None:
        wrong = [
            Line([r.text, f"{r.wrong:,}", f"{r.right:,}", f"{r.error_rate:.1%}", f"{r.z:+.1f}"], r.error_rate)
            for r in summary.mistakes
        ]
        note = f"{summary.accuracy:.1%} of the answers are right."
        names = [unit, "in wrong answers", "in right answers", "share wrong", "standard errors from all"]
        yield Section("What tells wrong answers from right ones", names, wrong, note)
    if summary.difference is not None:
        found = summary.difference
        same = "" if found["same answer"] is None else f", {found['same answer']:.1%} with the same answer"
        note = f"{found['folder']} ({found['model']}): {found['texts in both']:,} texts in both{same}."
        changed = [
            Line([f"{c['here']} / {c['there']}", f"{c['texts']:,}"], None, None, c["examples"])
            for c in found["changed answers"]
        ]
        yield Section("Answers that differ from the other run's", ["here / there", "texts"], changed, note)
        shifts = [
            Line([f"{s['text']} ({s['label']})", f"{s['there']:.3g}", f"{s['here']:.3g}"], s["here"] - s["there"])
            for s in found["shifts"]
        ]
        yield Section("Mean scores that differ most", [unit, "there", "here"], shifts)


def page(summary: Summary) -> str:
    """Return a summary as a self-contained HTML page."""
    every = []
    for section in sections(summary):
        ends = [e for line in section.lines for e in (line.value, *(line.interval or ())) if e is not None]
        low, high = min([0.0, *ends]), max([0.0, *ends])
        scale = 100 / (high - low) if high > low else 0.0
        rows = [
            {
                "cells": [safe(cell) for cell in line.cells],
                "start": f"{(min(line.value or 0.0, 0.0) - low) * scale:.2f}",
                "width": f"{abs(line.value or 0.0) * scale:.2f}",
                "negative": (line.value or 0.0) < 0,
                "low": None if line.interval is None else f"{(line.interval[0] - low) * scale:.2f}",
                "high": None if line.interval is None else f"{(line.interval[1] - low) * scale:.2f}",
                "examples": [safe(i) for i in line.examples],
            }
            for line in section.lines
        ]
        every.append(
            {
                "heading": safe(section.heading),
                "names": [safe(name) for name in section.names],
                "rows": rows,
                "note": safe(section.note),
                "plots": any(line.value is not None for line in section.lines),
                "examples": any(line.examples for line in section.lines),
            }
        )
    texts = {safe(i): safe(text) for i, text in summary.texts.items()}
    facts = f"{summary.rows:,} texts, {summary.method} on {summary.model}"
    if summary.errors:
        facts += f"; {summary.errors:,} rows have no result"
    if not summary.complete:
        facts += "; the run is not finished"
    return (
        environment()
        .get_template("summary.html.j2")
        .render(
            title=safe(f"What the model looks at: {summary.folder}"),
            facts=safe(facts),
            sections=every,
            texts=texts,
            anchors={i: f"text-{place}" for place, i in enumerate(texts)},
        )
    )


def _unit(found: Unit, what: str) -> Line:
    value = {"mean": found.mean, "total": found.total, "against": found.against or 0.0}[what]
    last = f"{found.against or 0.0:.1%}" if what == "against" else f"{found.total:.4g}"
    interval = (found.low, found.high)
    cells = [found.text, f"{found.count:,}", f"{found.mean:.3g}", f"{interval[0]:.3g} to {interval[1]:.3g}", last]
    return Line(cells, value, interval if what == "mean" else None, found.examples)
