"""A result as HTML: a fragment for notebooks, a self-contained page for a browser."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from ..results.attribution import Attribution, Merge
from ..results.base import Result
from ..results.characters import safe
from ..results.signals import ImageAttribution
from .cells import COLORS, FAINT, KEYS, Cell
from .curves import Curve, draw
from .layers import steps
from .layout import Column, Facts, Layout, Row, drawable, facts, layout, lead, number, said, uncoloured
from .overview import Overview, overview

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "LARGEST",
    "Figure",
    "HeatMap",
    "Item",
    "environment",
    "figure_of",
    "fragment",
    "fragments",
    "items_page",
    "page",
    "safely",
    "sentences",
]

LONGEST = 14.0
"""The longest bar in em."""

MOST = 20
"""Results that a notebook draws of a collection."""

STRONGEST = 8

LARGEST = 8_000
"""Cells of a heat map that a page still draws; a larger one is a burden to browsers, and in the JSON anyway."""


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
        """Length and colour; a narrow page shortens it by the share."""
        color = f"rgba({COLORS.get(self.kind, '128,128,128')},0.8)"
        size = f"--s:{self.strength:.3f};display:inline-block;height:0.8em;width:{LONGEST * self.strength:.2f}em"
        return f"{size};background-color:{color}"


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
    cut: str = ""
    steps: Markup | None = None
    layer_count: int = 0


class Item(NamedTuple):
    """A result on a page with results of other kinds.

    Attributes:
        kind: "text", "generation" or "sources".
        heading: What it is called among several.
        figure: What the templates of its kind need.
    """

    kind: str
    heading: str
    figure: Any


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
    """Draw results on a page that needs nothing but a browser; of several, a table with a card for each below.

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
    figures = [figure_of(a, words, merge, cost, live=True) for a, cost in zip(attributions, paid, strict=True)]
    several: Overview | None = overview(attributions, words, merge) if len(attributions) > 1 else None
    template = environment().get_template("page.html.j2")
    return template.render(
        figures=figures, overview=several, curves=draw(curves), title=safe(title or "Token attributions")
    )


def items_page(items: Sequence[Item], title: str) -> str:
    """Draw results of any kinds on a page, each on a card of its own.

    Args:
        items: The results, in the order of the page.
        title: Heading of the page.
    """
    return environment().get_template("results.html.j2").render(items=items, title=safe(title))


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


def figure_of(
    a: Attribution, words: bool | None = None, merge: Merge | None = None, cost: str = "", *, live: bool = False
) -> Figure:
    """Return what the template of one result needs: for a page, which is live, or for a notebook.

    Args:
        a: The result.
        words: As for `fragment`.
        merge: As for `fragment`.
        cost: What it cost, in words, where that is known.
        live: Whether a script can show every layer.
    """
    drawn, found = layout(a, words=words, merge=merge), safely(facts(a))
    single = len(drawn.rows) == 1
    cells = 0 if single else len(drawn.rows) * len(drawn.columns)
    cut = f"The table of {cells:,} scores is too large for a page; the saved JSON has it." if cells > LARGEST else ""
    strongest = lead(drawn.rows[0], drawn.columns, STRONGEST) if single else []
    return Figure(
        facts=found,
        sentences=sentences(a, drawn),
        bars=[_bar(a, drawn, column, found) for column in strongest],
        maps=_patches(a, drawn) if single else [] if cut else _maps(a, drawn),
        table=[(i, _bar(a, drawn, i, found)) for i in range(len(drawn.columns))] if single else [],
        unit="word" if words or (words is None and a.has_words) else "token",
        alone=single and a.token_predictions is not None,
        layers=a.layers is not None,
        uncoloured=uncoloured(drawn.rows, FAINT, signed=a.signed),
        keys=KEYS,
        cost=safe(cost),
        cut=cut,
        steps=steps(a, drawn) if live and a.layers is not None and len(a.layers) > 1 else None,
        layer_count=len(a.layers or ()),
    )


def sentences(a: Attribution, drawn: Layout) -> list[Sentence]:
    """Draw one for each label; of several layers the last one asked for."""
    found = []
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
        found.append(Sentence(_name(a, row), texts))
    return found


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


def _patches(a: Attribution, drawn: Layout) -> list[HeatMap]:
    """Draw the patches of a picture as they lie in it."""
    if not isinstance(a, ImageAttribution) or not a.rows or a.rows * a.columns > LARGEST:
        return []
    row = drawn.rows[0]
    rows = []
    for y in range(a.rows):
        places = range(a.first + y * a.columns, a.first + (y + 1) * a.columns)
        shown = [number(float(row.scores[i]), row.scale, signed=a.signed) for i in places]
        rows.append((f"{y}", [_cell(a, drawn, row, i, text) for i, text in zip(places, shown, strict=True)]))
    return [HeatMap("Patches as they lie in the picture", [Cell(f"{x}") for x in range(a.columns)], rows)]


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
    if about.sink:
        title = f"{title}\nan attention sink: what it contributes besides is in no score"
    faint = "sink" if about.sink else ""
    kind = "special" if about.special else faint if abs(strength) < FAINT else "for" if strength > 0 else "against"
    return Cell(text, kind, abs(strength), title, column)


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
