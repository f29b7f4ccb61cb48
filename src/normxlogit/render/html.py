"""A result as HTML: a fragment for notebooks, a self-contained page for a browser."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..results.attribution import Attribution, Merge
from ..results.base import Result
from ..results.characters import safe
from .layout import Column, Facts, Layout, Row, drawable, facts, layout, lead, number, said

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["FAINT", "HeatMap", "MethodSpec", "environment", "fragment", "fragments", "page", "safely"]

FAINT = 0.03
"""Strength below which a piece is drawn like any other text."""

MOST = 20
"""Results that a notebook draws of a collection."""

STRONGEST = 8


class MethodSpec(NamedTuple):
    """Something to draw in the shade of a score: a piece of text or a field of the heat map.

    Attributes:
        text: What stands in it.
        kind: "for", "against", "special", "rest" (text that has no score) or "".
        strength: From 0 to 1.
        title: What is said when the reader points at it.
    """

    text: str
    kind: str = ""
    strength: str = "0"
    title: str = ""


class Bar(NamedTuple):
    """A token with its number and bar."""

    name: str
    score: str
    length: str
    cell: MethodSpec


class Sentence(NamedTuple):
    """One or two texts in the shades of one row of scores."""

    caption: str
    texts: list[list[MethodSpec]]


class HeatMap(NamedTuple):
    """Rows are labels or layers, columns tokens."""

    caption: str
    columns: list[MethodSpec]
    rows: list[tuple[str, list[MethodSpec]]]


class Figure(NamedTuple):
    """Everything that the template of one result needs."""

    facts: Facts
    sentences: list[Sentence]
    bars: list[Bar]
    maps: list[HeatMap]
    table: list[tuple[int, Bar]]
    alone: bool
    layers: bool


def fragment(a: Attribution, *, words: bool = False, merge: Merge = "sum") -> str:
    """Draw a result for a notebook: one element with its own style and no script.

    Args:
        a: The result.
        words: Whether to merge tokens to words.
        merge: How, see `Attribution.words`.

    Raises:
        DataError: If words are asked for and the result cannot tell them.
    """
    return environment().get_template("fragment.html.j2").render(figure=_figure(a, words, merge))


def fragments(results: Sequence[Result]) -> str:
    """Draw several results for a notebook, one below the other; of many the first ones.

    Args:
        results: The results, of texts or generated.
    """
    drawn = [str(result._repr_html_()) for result in results[:MOST]]  # type: ignore[attr-defined]
    left = len(results) - len(drawn)
    return "".join(drawn) + (f"<p>and {left} more; to_html(path) writes a page of all</p>" if left else "")


def page(
    attributions: Sequence[Attribution], title: str | None = None, *, words: bool = False, merge: Merge = "sum"
) -> str:
    """Draw results on a page that needs nothing but a browser.

    Args:
        attributions: The results, in the order of the page.
        title: Heading of the page.
        words: Whether to merge tokens to words.
        merge: How, see `Attribution.words`.

    Returns:
        An HTML document.

    Raises:
        DataError: If words are asked for and a result cannot tell them.
    """
    figures = [_figure(a, words, merge) for a in attributions]
    template = environment().get_template("page.html.j2")
    return template.render(figures=figures, title=safe(title or "Token attributions"))


@cache
def environment() -> "Environment":
    """The templates, with escaping on."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _figure(a: Attribution, words: bool, merge: Merge) -> Figure:
    drawn = layout(a, words=words, merge=merge)
    single = len(drawn.rows) == 1
    return Figure(
        facts=safely(facts(a)),
        sentences=_sentences(a, drawn),
        bars=[_bar(a, drawn, column) for column in lead(drawn.rows[0], drawn.columns, STRONGEST)] if single else [],
        maps=[] if single else _maps(a, drawn),
        table=[(i, _bar(a, drawn, i)) for i in range(len(drawn.columns))] if single else [],
        alone=single and a.token_predictions is not None,
        layers=a.layers is not None,
    )


def _sentences(a: Attribution, drawn: Layout) -> list[Sentence]:
    """One for each label; of several layers the last one asked for."""
    sentences = []
    for row in drawn.rows:
        if a.layers is not None and row.layer != a.layers[-1]:
            continue
        texts = []
        for pieces in drawn.texts:
            cells = []
            for piece in pieces:
                if piece.column is None:
                    cells.append(MethodSpec(drawable(piece), "rest" if piece.text.strip() else ""))
                else:
                    cells.append(_cell(a, drawn, row, piece.column, drawable(piece)))
            texts.append(cells)
        sentences.append(Sentence(_name(a, row), texts))
    return sentences


def _maps(a: Attribution, drawn: Layout) -> list[HeatMap]:
    """One with all labels, or one for each label with its layers."""
    columns = [MethodSpec(safe(c.name), "special" if c.special else "") for c in drawn.columns]
    groups: dict[int | None, list[tuple[str, list[MethodSpec]]]] = {}
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


def _bar(a: Attribution, drawn: Layout, column: int) -> Bar:
    row = drawn.rows[0]
    name = safe(drawn.columns[column].name)
    score = number(float(row.scores[column]), row.scale, signed=a.signed)
    length = abs(float(row.scores[column])) / row.scale if row.scale else 0.0
    return Bar(name, score, f"{length:.3f}", _cell(a, drawn, row, column, _alone(a, drawn.columns[column])))


def _cell(a: Attribution, drawn: Layout, row: Row, column: int, text: str) -> MethodSpec:
    strength, about = float(row.strengths[column]), drawn.columns[column]
    title = f"{safe(about.name)}  {number(float(row.scores[column]), row.scale, signed=a.signed)}"
    if row.label is not None or row.layer is not None:
        title = f"{title}  ({_name(a, row)})"
    if alone := _alone(a, about):
        title = f"{title}\nthe head at this token alone: {alone}"
    kind = "special" if about.special else "" if abs(strength) < FAINT else "for" if strength > 0 else "against"
    return MethodSpec(text, kind, f"{abs(strength):.3f}", title)


def _alone(a: Attribution, column: Column) -> str:
    """What the head says at the token of a column, if it is one token and that was computed."""
    if a.token_predictions is None or len(column.tokens) != 1:
        return ""
    return safe(said(a.token_predictions[column.tokens[0]]))


def safely(found: Facts) -> Facts:
    """The facts without control characters."""
    values: dict[str, Any] = {
        name: safe(value) if isinstance(value, str) else value for name, value in vars(found).items()
    }
    return Facts(**values | {"notes": tuple(map(safe, found.notes))})
