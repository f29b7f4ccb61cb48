"""Blocks, the plain data that terminals, pages and plots draw.

A result lists its blocks, and each backend draws any list of them; a new result needs no renderer of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from markupsafe import Markup

from ..results.units.characters import one_line

if TYPE_CHECKING:
    from rich.text import Text

    from ..results.units.media import Medium


class Piece(NamedTuple):
    """A piece of text with its colour, the strength of its score.

    Attributes:
        strength: From -1 (against) to 1 (for); 0 has no colour.
        kind: "" or "special" (the tokenizer added it), "sink" (an attention sink), "read" (the answer is read there),
            "unknown" (a word that the model does not know), "rest" (no token covers it), "grey" (neither part nor
            source), "strong" (generated), "unsupported" (a word that its sources do not say).
        name: Its name in a tooltip, before its `number` and `details`.
        column: The column of its score, where a slider changes it.
        part: Which part of an answer it is, where links start there.
        source: Which source it is, where links end there.
        cited: The numbers of the sources cited after it.
    """

    text: str
    strength: float = 0.0
    kind: str = ""
    name: str = ""
    number: str = ""
    details: str = ""
    column: int | None = None
    part: int | None = None
    source: int | None = None
    cited: tuple[int, ...] = ()


class Bar(NamedTuple):
    """A bar from `start`, the zero of the scale, with an interval; positions are shares of the axis, from 0 to 1."""

    start: float
    end: float
    low: float | None = None
    high: float | None = None


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        value: What the column is sorted by; the text where it is None.
        strength: Colour of the whole cell.
        links: Places on the page, by the text of the link.
        anchor: The place on the page that it is itself.
    """

    pieces: tuple[Piece, ...] = ()
    value: float | None = None
    strength: float = 0.0
    bar: Bar | None = None
    links: Mapping[str, str] = {}
    anchor: str = ""


def cell(text: str, value: float | None = None, **options: Any) -> Cell:
    """Return a cell with plain text, on one line: a name with a line break would look like another row."""
    return Cell((Piece(one_line(text)),) if text else (), value, **options)


class Column(NamedTuple):
    """A column of a table; numbers are aligned right."""

    name: str
    numbers: bool = False


class Block:
    """The base of a block: the backends know it by its kind, the name of the class or of the one that it extends."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        cls.kind = cls.kind or cls.__name__.lower()


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


class Sentence(NamedTuple):
    """One or two texts in the colours of one row of scores; the slider shows the summary."""

    caption: str
    texts: Sequence[Sequence[Piece]]
    summary: str = ""


@dataclass(frozen=True)
class Sentences(Block):
    """Texts in colour.

    A terminal shows all of them. A page with a slider shows those of one step at a time, beginning with `start`.

    Attributes:
        rows: The texts; with a slider as many of each label in a row as there are steps.
        small: Whether it is set like a quotation, not as the main text.
    """

    rows: Sequence[Sentence]
    steps: Sequence[str] = ()
    start: int = 0
    small: bool = False


class Turn(NamedTuple):
    """A message of a conversation.

    Attributes:
        kind: "answer", or as `MessageSpan.role`.
        share: Its share of what speaks for the answer; None for the answer itself.
        folded: The line that a page folds it to; empty if it does not.
    """

    kind: str
    name: str
    share: float | None
    pieces: Sequence[Piece]
    folded: str = ""


@dataclass(frozen=True)
class Chat(Block):
    """A conversation with its answer; a terminal shows the answer alone."""

    turns: Sequence[Turn]
    answer: Turn


@dataclass(frozen=True)
class Table(Block):
    """Rows of cells; the first column names the rows.

    Attributes:
        numbered: Whether a page numbers the rows, from 1.
        filtered: The column whose values a page offers as a filter, beside a field for words.
        terminal_rows: The rows that a terminal shows; None for all.
        stacked: Whether a narrow page draws each row as a card, because the columns do not fit beside each other.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    numbered: bool = False
    sortable: bool = False
    filtered: str = ""
    terminal_rows: Sequence[int] | None = None
    stacked: bool = False


@dataclass(frozen=True)
class Links(Block):
    """Links between the pieces of a card: pointing at a part of the answer colours its sources.

    Attributes:
        data: What the page's script reads: "scores" with one row for each part, of what it has seen, or "shares".
        negative: The meaning of a negative score.
    """

    data: Mapping[str, Any]
    hint: str
    negative: str = ""


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
    result: bool = True
    opened: bool = True


@dataclass(frozen=True)
class MediumBlock(Block):
    """The parts of a medium with its scores, coloured; the class of an extension draws it."""

    medium: "Medium"
    parts: Sequence[Piece]

    def strongest(self, k: int) -> list[str]:
        """Return the places with the largest shares of positive scores."""
        raise NotImplementedError

    def html(self) -> Markup:
        """Return its element."""
        raise NotImplementedError

    def lines(self) -> "list[Text]":
        """Return its lines for a terminal with colours."""
        raise NotImplementedError
