"""What the check of the record says."""

from collections.abc import Sequence
from pathlib import Path

from .check import Outcome

__all__ = ["report"]

_COUNTED = {
    "same": "as printed by their commands, or as on the pages that they are taken from",
    "differs": "in tables, sentences and lines with a difference",
    "failed": "whose command failed",
    "without a command": "without a command or a mark",
    "skipped": "not checked: the command was not run",
    "published": "published by others, not compared",
    "timing": "timings, not compared",
    "generated": "written by a script that a test runs",
    "unchecked": "marked as having no command",
}


def report(outcomes: Sequence[Outcome]) -> str:
    """Return Markdown: what differs, what was not run, and how many figures there are of each kind."""
    parts = []
    different = [(o, d) for o in outcomes for d in o.differences]
    if different:
        rows = [[_place(o, d.line), d.name, d.said, d.printed, d.tolerance] for o, d in different]
        parts.append(_table(["place", "figure", "the page says", "printed", "tolerance"], rows))
    for state, title in (("failed", "failed"), ("without a command", "no command"), ("skipped", "not run")):
        rows = [[_place(o, o.block.line), str(o.block.figures), o.note] for o in outcomes if o.state == state]
        if rows:
            parts.append(_table([title, "figures", "reason"], rows))
    counts = {state: sum(o.block.figures for o in outcomes if o.state == state) for state in _COUNTED}
    rows = [[str(count), _COUNTED[state]] for state, count in counts.items() if count]
    parts.append(_table(["figures", "what they are"], rows))
    return "\n".join(parts)


def _place(outcome: Outcome, line: int) -> str:
    page = outcome.block.page
    return f"{page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page}:{line}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]) + "\n"
