"""Blocks as HTML: fragments for notebooks, and self-contained pages."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ..results.units.characters import direction, quoted, safe, shortened
from .blocks import Bar, Block, Card, Cell, Column, Piece, Pieces, Table
from .charts import FAINT, GREY

if TYPE_CHECKING:
    from jinja2 import Environment, Template

RED, BLUE = "220,38,38", "37,99,235"
"""The colours of positive and of negative scores, as in `page.js`."""

DENSEST = 0.55
"""The opacity of the strongest colour: text keeps a contrast of 4.5 on light and dark pages."""

NAME_CHARACTERS = 60
"""Most characters of a name."""

MOST_ROWS = 60
"""Most rows without a scroll box."""

LONGEST_BAR = 14.0
"""The length of the longest bar, in em."""

KEYS = {1: Piece("red", 1.0), -1: Piece("blue", -1.0)}
"""The colours of the legend."""

CLASSES = {
    "special": "nxl-special",
    "sink": "nxl-sink",
    "read": "nxl-read",
    "rest": "nxl-rest",
    "grey": "nxl-none",
    "strong": "nxl-written",
    "unsupported": "nxl-written nxl-unsupported",
}


def page(cards: Sequence[Card], title: str) -> str:
    """Draw results as a self-contained page.

    Args:
        cards: The cards, in their order.
        title: The title of the page.
    """
    return _environment().get_template("page.html.j2").render(cards=cards, title=title)


def fragment(blocks: Sequence[Block], *, style: bool = True) -> str:
    """Draw a result for a notebook as one element without scripts.

    Args:
        blocks: The blocks of the result.
        style: Whether it brings the style sheet, which only the first of several needs.
    """
    return _environment().get_template("fragment.html.j2").render(blocks=blocks, style=style)


def element(template: str, **values: Any) -> Markup:
    """Return the element that a template of an extension makes of values, with the filters of pages."""
    return Markup(_compiled(template).render(values))  # noqa: S704  # the environment escapes every value


@cache
def _compiled(template: str) -> "Template":
    return _environment().from_string(template)


@cache
def _environment() -> "Environment":
    """Return the template environment, which escapes markup and removes control characters in every string."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean,
    )
    filters = (_attributes, _bar_style, _cell_attributes, _choices, _direction)  # templates call them by their names
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # the filter `tojson` writes no spaces
    environment.filters |= {function.__name__.removeprefix("_"): function for function in filters}
    uncoloured = Piece("")[1:]  # all fields but the text: a piece that has these needs no element of its own
    environment.globals |= {"faint": FAINT, "grey": GREY, "keys": KEYS, "tall": MOST_ROWS, "uncoloured": uncoloured}
    return environment


def _clean(value: Any) -> Any:
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _markup(**attributes: str | None) -> Markup:
    """Return the attributes of an element that have a value; "data_part" is written as "data-part"."""
    formatted = (f' {name.replace("_", "-")}="{escape(safe(value))}"' for name, value in attributes.items() if value)
    return Markup("".join(formatted))  # noqa: S704  # every value is escaped


def _attributes(piece: Piece, position: str = "") -> Markup:
    """Return the class, colour, tooltip and data of a piece.

    Args:
        piece: The piece.
        position: Where it lies on a picture, as CSS; empty for a piece of a text.
    """
    color_class, style = _colour(piece.strength)
    kind_class = CLASSES.get(piece.kind, "nxl-mark")
    if piece.kind == "sink" and color_class:
        kind_class = "nxl-mark"  # the style of sinks is for those without a colour
    name = shortened(piece.name or quoted(piece.text), NAME_CHARACTERS)
    is_linked = piece.part is not None or piece.source is not None  # then the script says its name
    patch_class = "nxl-patch" if position else ""
    return _markup(
        **{"class": _joined(kind_class, color_class, patch_class)},  # a keyword of Python, which no argument can be
        style=f"position:absolute;{position};{style}" if position else style,
        title=_joined(f"{piece.name}  {piece.number}".strip(), piece.details, by="\n"),
        data_part=_number(piece.part),
        data_name=name if is_linked else None,
        data_source=_number(piece.source),
        dir="ltr" if piece.kind == "special" else None,
    )


def _joined(*texts: str, by: str = " ") -> str:
    """Return the texts that are not empty, joined."""
    return by.join(filter(None, texts))


def _number(value: float | None) -> str | None:
    """Return a number with all its digits, as scripts read it."""
    return None if value is None else repr(value)


def _direction(pieces: Pieces) -> str:
    """Return the writing direction of a text, which special tokens do not decide."""
    return direction("".join(piece.text for piece in pieces if piece.kind != "special"))


def _colour(strength: float) -> tuple[str, str]:
    """Return the CSS class and the style of a strength; both are empty if it is faint.

    The style has the colour too: some notebooks drop style sheets.
    """
    amount = abs(strength)
    if amount < FAINT:
        return "", ""
    color_class, color = ("nxl-for", RED) if strength > 0 else ("nxl-against", BLUE)
    return color_class, f"--s:{amount:.3f};background-color:rgba({color},{DENSEST * amount:.3f})"


def _cell_attributes(cell: Cell, column: Column, named: bool = False) -> Markup:
    """Return the attributes of a cell: class, colour, anchor, value, and the column's name for narrow pages."""
    color_class, style = _colour(cell.strength)
    return _markup(
        **{"class": _joined("nxl-number" if column.numbers else "", color_class)},  # see `_attributes`
        style=style,
        id=cell.anchor,
        data_value=_number(cell.value),
        data_column=column.name if named else None,
    )


def _bar_style(bar: Bar) -> str:
    """Return the position, length and colour of a bar, as CSS.

    Narrow pages shorten it: their style sheet computes its length from --s and its position from --x.
    """
    left_end = min(bar.start, bar.end)  # a negative bar ends there
    length = abs(bar.end - bar.start)
    width = f"display:inline-block;height:0.8em;width:{LONGEST_BAR * length:.2f}em"
    offset = f"--x:{left_end:.4f};margin-left:{LONGEST_BAR * left_end:.2f}em;" if left_end else ""
    color = RED if bar.end >= bar.start else BLUE
    return f"--s:{length:.3f};{offset}{width};background-color:rgba({color},0.8)"


def _choices(table: Table) -> list[str]:
    """Return the values of the column that a table is filtered by."""
    names = [column.name for column in table.columns]
    if table.filtered not in names:  # empty, or a column that this table does not have
        return []
    filtered = names.index(table.filtered)
    return sorted({"".join(piece.text for piece in row[filtered].pieces) for row in table.rows})
