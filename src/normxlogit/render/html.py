"""A result as HTML: a fragment for notebooks, a self-contained page for a browser."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..results.attribution import Attribution, Merge
from ..results.base import Result
from ..results.characters import safe
from .curves import Curve, draw
from .layout import Column, Facts, Layout, Row, drawable, facts, layout, lead, number, said, uncoloured

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "FAINT",
    "KEYS",
    "Cell",
    "Figure",
    "HeatMap",
    "environment",
    "figure_of",
    "fragment",
    "fragments",
    "page",
    "safely",
]

FAINT = 0.03
"""Strength below which a piece is drawn like any other text."""

COLORS = {"for": "220,38,38", "against": "37,99,235"}
DENSEST = 0.55
"""Opacity of the strongest colour; letters keep a contrast of 4.5 on light and dark pages."""

LONGEST = 14.0
"""The longest bar in em."""

MOST = 20
"""Results that a notebook draws of a collection."""

STRONGEST = 8


class Cell(NamedTuple):
    """Something to draw in the shade of a score: a piece of text or a field of the heat map.

    Attributes:
        text: What stands in it.
        kind: "for", "against", "special", "rest" (text that has no score) or "".
        strength: From 0 to 1.
        title: What is said when the reader points at it.
    """

    text: str
    kind: str = ""
    strength: float = 0.0
    title: str = ""

    @property
    def style(self) -> str:
        """The colour, in the notation that notebooks let through: red or blue, with the strength as opacity."""
        shade = ""
        if self.kind in COLORS:
            shade = f";background-color:rgba({COLORS[self.kind]},{DENSEST * self.strength:.3f})"
        return f"--s:{self.strength:.3f}{shade}"


class Bar(NamedTuple):
    """A token or word with its number and bar.

    Attributes:
        name: Its text.
        score: Its number.
        kind: As in `Cell`.
        strength: Length of the bar, from 0 to 1.
        side: What a negative score is for.
        alone: What the head says at this token alone.
    """

    name: str
    score: str
    kind: str
    strength: float
    side: str
    alone: str

    @property
    def style(self) -> str:
        """Length and colour."""
        color = f"rgba({COLORS.get(self.kind, '128,128,128')},0.8)"
        return f"display:inline-block;height:0.8em;width:{LONGEST * self.strength:.2f}em;background-color:{color}"


KEYS = (Cell("red", "for", 1.0), Cell("blue", "against", 1.0))
"""The colours of the legend."""


class Sentence(NamedTuple):
    """One or two texts in the shades of one row of scores."""

    caption: str
    texts: list[tuple[str, list[Cell]]]


class HeatMap(NamedTuple):
    """Rows are labels or layers, columns tokens."""

    caption: str
    columns: list[Cell]
    rows: list[tuple[str, list[Cell]]]


class Figure(NamedTuple):
    """Everything that the template of one result needs."""

    facts: Facts
    sentences: list[Sentence]
    bars: list[Bar]
    maps: list[HeatMap]
    table: list[tuple[int, Bar]]
    unit: str
    alone: bool
    layers: bool
    uncoloured: str
    keys: tuple[Cell, Cell]
    cost: str = ""


def fragment(a: Attribution, *, words: bool | None = None, merge: Merge | None = None, style: bool = True) -> str:
    """Draw a result for a notebook: one element with its own style and no script.

    Args:
        a: The result.
        words: Whether to merge tokens to words; by default where the result can tell them.
        merge: How, see `Attribution.words`.
        style: Whether to put the style before it; the one of an earlier fragment holds for all.

    Raises:
        DataError: If words are asked for and the result cannot tell them.
    """
    return environment().get_template("fragment.html.j2").render(figure=figure_of(a, words, merge), style=style)


def fragments(results: Sequence[Result]) -> str:
    """Draw several results for a notebook, one below the other; of many the first ones.

    Args:
        results: The results, of texts or generated.
    """
    drawn: list[str] = []
    for result in results[:MOST]:
        own = isinstance(result, Attribution)
        drawn.append(fragment(result, style=not drawn) if own else result._repr_html_())  # type: ignore[arg-type,attr-defined]
    left = len(results) - len(drawn)
    return "".join(drawn) + (f"<p>and {left} more; to_html(path) writes a page of all</p>" if left else "")


def page(
    attributions: Sequence[Attribution],
    title: str | None = None,
    *,
    words: bool | None = None,
    merge: Merge | None = None,
    costs: Sequence[str] = (),
    curves: Sequence[Curve] = (),
) -> str:
    """Draw results on a page that needs nothing but a browser.

    Args:
        attributions: The results, in the order of the page.
        title: Heading of the page.
        words: Whether to merge tokens to words; by default where a result can tell them.
        merge: How, see `Attribution.words`.
        costs: What each result cost, in words, where that is known.
        curves: Deletion curves, drawn below the results.

    Returns:
        An HTML document.

    Raises:
        DataError: If words are asked for and a result cannot tell them.
    """
    paid = costs or [""] * len(attributions)
    figures = [figure_of(a, words, merge, cost) for a, cost in zip(attributions, paid, strict=True)]
    template = environment().get_template("page.html.j2")
    return template.render(figures=figures, curves=draw(curves), title=safe(title or "Token attributions"))


@cache
def environment() -> "Environment":
    """Return the templates, with escaping on."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def figure_of(a: Attribution, words: bool | None = None, merge: Merge | None = None, cost: str = "") -> Figure:
    """Return what the template of one result needs; arguments as for `fragment`."""
    drawn, found = layout(a, words=words, merge=merge), safely(facts(a))
    single = len(drawn.rows) == 1
    strongest = lead(drawn.rows[0], drawn.columns, STRONGEST) if single else []
    return Figure(
        facts=found,
        sentences=_sentences(a, drawn),
        bars=[_bar(a, drawn, column, found) for column in strongest],
        maps=[] if single else _maps(a, drawn),
        table=[(i, _bar(a, drawn, i, found)) for i in range(len(drawn.columns))] if single else [],
        unit="word" if words or (words is None and a.has_words) else "token",
        alone=single and a.token_predictions is not None,
        layers=a.layers is not None,
        uncoloured=uncoloured(drawn.rows, FAINT, signed=a.signed),
        keys=KEYS,
        cost=safe(cost),
    )


def _sentences(a: Attribution, drawn: Layout) -> list[Sentence]:
    """Draw one for each label; of several layers the last one asked for."""
    sentences = []
    for row in drawn.rows:
        if a.layers is not None and row.layer != a.layers[-1]:
            continue
        texts = []
        for direction, pieces in zip(drawn.directions, drawn.texts, strict=True):
            cells = []
            for piece in pieces:
                if piece.column is None:
                    cells.append(Cell(drawable(piece), "rest" if piece.text.strip() else ""))
                else:
                    cells.append(_cell(a, drawn, row, piece.column, drawable(piece)))
            texts.append((direction, cells))
        sentences.append(Sentence(_name(a, row), texts))
    return sentences


def _maps(a: Attribution, drawn: Layout) -> list[HeatMap]:
    """Draw one with all labels, or one for each label with its layers."""
    columns = [Cell(safe(c.name), "special" if c.special else "") for c in drawn.columns]
    groups: dict[int | None, list[tuple[str, list[Cell]]]] = {}
    for row in drawn.rows:
        numbers = [number(float(s), row.scale, signed=a.signed) for s in row.scores]
        cells = [_cell(a, drawn, row, i, text) for i, text in enumerate(numbers)]
        key = row.label if a.layers is not None else None
        name = _name(a, row) if a.layers is None else f"{row.layer}"
        groups.setdefault(key, []).append((name, cells))
    axis = "label" if a.layers is None else "layer"
    return [
        HeatMap(f"Every {axis}" if key is None else f"{safe(a.target.labels[key])}, every {axis}", columns, rows)
        for key, rows in groups.items()
    ]


def _name(a: Attribution, row: Row) -> str:
    names = [safe(a.target.labels[row.label])] if row.label is not None else []
    return ", ".join(names + ([f"layer {row.layer}"] if row.layer is not None else []))


def _bar(a: Attribution, drawn: Layout, column: int, found: Facts) -> Bar:
    row, about = drawn.rows[0], drawn.columns[column]
    score, strength = float(row.scores[column]), abs(float(row.strengths[column]))
    kind = "special" if about.special else "against" if score < 0 else "for"
    side = found.negative if found.negative and score < 0 else ""
    return Bar(safe(about.name), number(score, row.scale, signed=a.signed), kind, strength, side, _alone(a, about))


def _cell(a: Attribution, drawn: Layout, row: Row, column: int, text: str) -> Cell:
    strength, about = float(row.strengths[column]), drawn.columns[column]
    title = f"{safe(about.name)}  {number(float(row.scores[column]), row.scale, signed=a.signed)}"
    if row.label is not None or row.layer is not None:
        title = f"{title}  ({_name(a, row)})"
    if alone := _alone(a, about):
        title = f"{title}\nthe head at this token alone: {alone}"
    kind = "special" if about.special else "" if abs(strength) < FAINT else "for" if strength > 0 else "against"
    return Cell(text, kind, abs(strength), title)


def _alone(a: Attribution, column: Column) -> str:
    """Return what the head says at the token of a column, if it is one token and that was computed."""
    if a.token_predictions is None or len(column.tokens) != 1:
        return ""
    return safe(said(a.token_predictions[column.tokens[0]]))


def safely(found: Facts) -> Facts:
    """Return the facts without control characters."""
    values: dict[str, Any] = {
        name: safe(value) if isinstance(value, str) else value for name, value in vars(found).items()
    }
    return Facts(**values | {"notes": tuple(map(safe, found.notes))})
