"""Blocks, the plain data that a result lists, and that terminals, pages and plots draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from markupsafe import Markup

from ..results.storage.schema import Indices
from ..results.units.characters import one_line

if TYPE_CHECKING:
    from rich.text import Text

    from ..results.units.media import Medium


class Piece(NamedTuple):
    """A piece of text with its colour; a tooltip has its name, number and details.

    Attributes:
        kind: "" or "special" (the tokenizer added it), "sink" (an attention sink), "read" (the answer is read there),
            "rest" (no token covers it), "grey" (neither part nor source), "strong" (generated), "unsupported" (a word
            that its sources do not say).
    """

    text: str
    strength: float = 0.0  # from -1 (against) to 1 (for); 0 has no colour
    kind: str = ""
    name: str = ""
    number: str = ""
    details: str = ""
    column: int | None = None  # of its score, where a slider changes it
    part: int | None = None  # of an answer, where links start
    source: int | None = None  # where links end
    cited: Indices = ()  # the numbers of the sources cited after it


Pieces = Sequence[Piece]
"""The pieces of a text, in their order."""


class Bar(NamedTuple):
    """A bar from `start`, the zero of the scale, with an interval; positions are shares of the axis, from 0 to 1."""

    start: float
    end: float  # less than `start` for a negative score
    low: float | None = None  # of the interval; None without one
    high: float | None = None


class Cell(NamedTuple):
    """A cell of a table."""

    pieces: tuple[Piece, ...] = ()
    value: float | None = None  # what the column is sorted by; the text where it is None
    strength: float = 0.0  # the colour of the whole cell
    bar: Bar | None = None
    links: Mapping[str, str] = {}  # places on the page, by the text of the link
    anchor: str = ""  # the place on the page that it is itself
    folded: str = ""  # the line that a page folds a long text to; empty if it does not


def cell(text: str, value: float | None = None, **options: Any) -> Cell:
    """Return a cell with plain text, on one line: a name with a line break would look like another row.

    Args:
        text: The text; empty for an empty cell.
        value: What the column is sorted by; None for the text.
        **options: Other fields of `Cell`.
    """
    return Cell((Piece(one_line(text)),) if text else (), value, **options)


class Column(NamedTuple):
    """A column of a table; numbers are aligned right."""

    name: str
    numbers: bool = False


class Block:
    """The base of a block: the backends know it by its kind, the name of the class or of the one that it extends."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        cls.kind = cls.kind or cls.__name__.lower()  # a subclass of a block has its kind already


Blocks = list[Block]
"""Blocks in the order in which they are drawn."""


@dataclass(frozen=True)
class Header(Block):
    """The model's answer with facts and notes; `tested` is on its answers without parts of the input."""

    prediction: str = ""
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    tested: str = ""


@dataclass(frozen=True)
class Paragraph(Block):
    """A line of plain text."""

    text: str
    heading: bool = False  # bold in a terminal; cards of a page have headings of their own
    lead: bool = False  # what a page says first, in larger letters


class Sentence(NamedTuple):
    """One or two texts in the colours of one row of scores; the slider shows the summary."""

    caption: str
    texts: Sequence[Pieces]
    summary: str = ""


@dataclass(frozen=True)
class Sentences(Block):
    """Texts in colour; a page with a slider shows those of one step at a time, beginning with `start`."""

    rows: Sequence[Sentence]  # with a slider as many of each label in a row as there are steps
    steps: Sequence[str] = ()
    start: int = 0
    small: bool = False  # like a quotation, not the main text


class Turn(NamedTuple):
    """A message of a conversation."""

    kind: str  # "answer", or as `MessageSpan.role`
    name: str
    share: float | None  # of what speaks for the answer; None for the answer itself
    pieces: Pieces
    folded: str = ""  # the line that a page folds it to; empty if it does not


@dataclass(frozen=True)
class Chat(Block):
    """A conversation with its answer; a terminal shows the answer alone."""

    turns: Sequence[Turn]
    answer: Turn


@dataclass(frozen=True)
class Table(Block):
    """Rows of cells; the first column names the rows."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    numbered: bool = False  # whether a page numbers the rows
    sortable: bool = False  # by a click on a heading of a page
    filtered: str = ""  # the column whose values a page offers as a filter, beside a field for words
    terminal_rows: Sequence[int] | None = None  # None for all
    stacked: bool = False  # whether a narrow page draws each row as a card


@dataclass(frozen=True)
class Links(Block):
    """Links between the pieces of a card: pointing at a part of the answer colours its sources."""

    data: Mapping[str, Any]  # "scores" with a row for each part, of what it has seen, or "shares"
    hint: str
    negative: str = ""  # the meaning of a negative score


class Box(NamedTuple):
    """A part of an answer, or a source: `ways` are the labels and the shares of what it rests on."""

    label: str
    piece: Piece
    note: str = ""
    ways: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Ways(Block):
    """Columns of boxes with lines between them, for a page alone."""

    columns: Mapping[str, Sequence[Box]]


@dataclass(frozen=True)
class Fold(Block):
    """Blocks that a page folds; a terminal, which cannot fold, shows them only if they are `essential`."""

    summary: str
    blocks: Sequence[Block]
    opened: bool = False
    essential: bool = False


class Card(NamedTuple):
    """A result on a page, or a table of several; one among several has a heading, and may be folded."""

    blocks: Sequence[Block]
    heading: str = ""
    result: bool = True  # or else a table of several
    opened: bool = True


@dataclass(frozen=True)
class MediumBlock(Block):
    """The parts of a medium with its scores, coloured; the class of an extension draws it."""

    medium: "Medium"
    parts: Pieces

    def strongest(self, k: int) -> list[str]:
        """Return the places with the largest shares of positive scores."""
        raise NotImplementedError

    def html(self) -> Markup:
        """Return its element."""
        raise NotImplementedError

    def lines(self) -> "list[Text]":
        """Return its lines for a terminal with colours."""
        raise NotImplementedError


class OwnBlock(Block):
    """The base of a block that draws itself."""

    def html(self) -> Markup:
        """Return its element."""
        raise NotImplementedError

    def lines(self, width: int) -> "list[Text]":
        """Return its lines for a terminal of so many columns."""
        raise NotImplementedError
