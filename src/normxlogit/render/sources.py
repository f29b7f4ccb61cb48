"""Sources of an answer: in the terminal, and as a page on which answer and sources light each other up."""

import json
import sys
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..results.characters import one_line, safe
from ..results.citations import Citations
from ..results.schema import setting_text
from ..results.sources import Sources
from .cells import Cell
from .html import Item, environment, items_page
from .overview import shortened
from .terminal import DIM, lines, shade, wants_color

__all__ = ["fragment", "item", "page", "to_text"]

SHOWN = 8
"""Sources that are listed where none is cited."""


Cut = tuple[int, int, int, tuple[int, ...]]
"""First character, end, place and citations of a piece."""


class Said(NamedTuple):
    """A piece of the prompt or of the answer.

    Attributes:
        text: Its characters.
        place: Which source or part it is; None for what is neither.
        title: What is said when the reader points at it.
        cited: The numbers of the sources that are cited after it.
    """

    text: str
    place: int | None = None
    title: str = ""
    cited: tuple[int, ...] = ()


class Listed(NamedTuple):
    """A source as the list below the answer has it."""

    number: str
    share: str
    strength: float
    name: str
    text: str
    nats: str

    @property
    def cell(self) -> Cell:
        """The share in its shade."""
        return Cell(self.share, "for", self.strength)


class Figure(NamedTuple):
    """Everything that the templates need."""

    question: str
    facts: list[tuple[str, str]]
    notes: list[str]
    answer: list[Said]
    prompt: list[Said]
    listed: list[Listed]
    verified: bool
    data: str


def to_text(s: Sources, *, color: bool | None = None) -> str:
    """Draw a result as text: the answer, with numbers of what it cites, and the sources below.

    Args:
        s: The result.
        color: Whether to colour by ANSI codes; by default as for other results.

    Returns:
        Several lines without a line end after the last.
    """
    color = wants_color(sys.stdout) if color is None else color
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style=DIM, no_wrap=True)
    head.add_column(overflow="fold")
    for label, value in (*([("question", s.question)] if isinstance(s, Citations) else []), *_facts(s)):
        head.add_row(label, Text(one_line(value)))
    for note in s.notes:
        head.add_row("note", Text(safe(note)))
    answer = Text(overflow="fold")
    for said in _answer(s):
        answer.append(said.text, "bold" if color and said.place is not None else None)
        answer.append("".join(f"[{number}]" for number in said.cited), DIM)
    body = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("right", "right", "left", "left"):
        body.add_column(justify=justify, no_wrap=justify == "right", overflow="fold")
    for found in _listed(s):
        share = Text(found.share, (shade(found.strength) if color else None) or "")
        body.add_row(Text(found.number), share, Text(found.nats, DIM), Text(f"{found.name}  ", DIM).append(found.text))
    left = "" if isinstance(s, Citations) or len(s) <= SHOWN else f"and {len(s) - SHOWN} more"
    parts: list[RenderableType] = [head, Text(), answer, Text(), body]
    return lines(parts + ([Text(left, DIM)] if left else []), color)


def page(s: Sources, title: str | None = None) -> str:
    """Draw a result on a page of its own: pointing at a sentence colours its sources, at a source what rests on it.

    The page needs nothing but a browser; without scripts it shows the citations and the list.

    Args:
        s: The result.
        title: Heading of the page.
    """
    return items_page([item(s)], title or "An answer and the sources it rests on")


def item(s: Sources) -> Item:
    """Return what a page of several results shows of one."""
    return Item("sources", shortened(s.question if isinstance(s, Citations) else s.completion), _figure(s))


def fragment(s: Sources) -> str:
    """Draw a result for a notebook: one element with its own style and no script."""
    return environment().get_template("sources.fragment.html.j2").render(figure=_figure(s))


def _figure(s: Sources) -> Figure:
    shares = np.nan_to_num(s.part_shares)  # (K, S)
    data = {"shares": [[float(f"{v:.3g}") for v in row] for row in shares]}
    return Figure(
        question=safe(s.question) if isinstance(s, Citations) else "",
        facts=[(label, one_line(value)) for label, value in _facts(s)],
        notes=[safe(note) for note in s.notes],
        answer=_answer(s),
        prompt=_prompt(s),
        listed=_listed(s),
        verified=isinstance(s, Citations) and bool(s.verified),
        data=json.dumps(data, separators=(",", ":")),
    )


def _facts(s: Sources) -> list[tuple[str, str]]:
    settings = ", ".join(f"{name}={setting_text(value)}" for name, value in s.settings.items())
    return [("method", s.method + (f" ({settings})" if settings else "")), ("model", s.model)]


def _answer(s: Sources) -> list[Said]:
    """Return the parts of the answer with what they cite, and the text between them."""
    numbers: dict[int, int] = {}
    cited: tuple[tuple[int, ...], ...] = ((),) * len(s.parts)
    if isinstance(s, Citations):
        numbers, cited = {c.source: c.number for c in s.citations()}, s.cited
    start = len(s.text) - len(s.completion)
    pieces: list[Cut] = [
        (part.start, part.end, k, tuple(numbers[i] for i in sources))
        for k, (part, sources) in enumerate(zip(s.parts, cited, strict=True))
    ]
    return _stream(s.text, start, len(s.text), pieces, [""] * len(pieces))


def _prompt(s: Sources) -> list[Said]:
    """Return the prompt's sources in the order of the text, and the text between them."""
    pieces: list[Cut] = [(source.start, source.end, i, ()) for i, source in enumerate(s.sources)]
    titles = [
        f"{safe(source.name)}  {share:.0%}" if source.name != s.text[source.start : source.end] else f"{share:.0%}"
        for source, share in zip(s.sources, s.shares, strict=True)
    ]
    return _stream(s.text, 0, len(s.text) - len(s.completion), pieces, titles)


def _stream(text: str, start: int, end: int, pieces: list[Cut], titles: list[str]) -> list[Said]:
    found, done = [], start
    for first, last, index, cited in sorted(pieces):
        first = max(first, done)
        if first > done:
            found.append(Said(safe(text[done:first])))
        found.append(Said(safe(text[first:last]), index, titles[index], cited))
        done = max(done, last)
    if text[done:end].strip():
        found.append(Said(safe(text[done:end])))
    return found


def _listed(s: Sources) -> list[Listed]:
    """Return the cited sources and others that were ablated; of a result without citations the first ones."""
    rows: list[tuple[str, float, str, str, float | None]]
    if isinstance(s, Citations):
        rows = [(f"[{c.number}]", c.share, c.name, c.text, c.nats) for c in s.citations()]
        known = {row[2] for row in rows}
        others = [t for t in s.top(len(s)) if t.name in s.verified and t.name not in known]
        rows += [("", t.share, t.name, t.text, s.verified[t.name]) for t in others]
    else:
        rows = [("", t.share, "" if t.name == t.text else t.name, t.text, None) for t in s.top(SHOWN)]
    most = max((row[1] for row in rows), default=0.0) or 1.0
    return [
        Listed(
            number,
            f"{share:.0%}",
            max(share, 0.0) / most,
            one_line(name),
            one_line(text),
            "" if nats is None else f"{nats:+.1f} nats",
        )
        for number, share, name, text, nats in rows
    ]
