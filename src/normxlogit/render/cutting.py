"""Texts cut into pieces: at the spans of words and tokens, and at the parts of an answer."""

from collections.abc import Iterable
from operator import itemgetter

from ..results.attribution import Attribution
from ..text.characters import Span, trimmed
from .blocks import Piece

PlacedPiece = tuple[int, int, Piece]
"""A piece with its start and end in the text; both are equal for a piece with a text of its own."""

SPACE = Piece(" ")
"""The space around special tokens."""

UNREAD = "no token covers this text: the model did not read it"

_SIGNS = {"\n": "↵\n", "\t": "⇥"}
"""Signs for white space that has a score of its own; a space is "␣"."""


def cut(
    text: str, spans: Iterable[PlacedPiece], start: int = 0, end: int | None = None, between: str = ""
) -> list[Piece]:
    """Cut a text at the spans of pieces, in their order; special tokens without characters are set apart by spaces.

    Args:
        text: The text.
        spans: The pieces with their spans, in characters of the text.
        start: The first character that is shown.
        end: One past the last; None for all.
        between: The kind of the text between the pieces, see `Piece.kind`.

    Returns:
        The pieces with their texts, and the text between them in pieces of its own.
    """
    pieces: list[Piece] = []
    cut_up_to = start
    for first, last, piece in spans:
        first, last = trimmed(text, max(first, cut_up_to), last)  # what an earlier piece has is not shown again
        if last > first:
            _add_between(pieces, text[cut_up_to:first], between)
            pieces.append(piece._replace(text=_with_signs(text[first:last])))
            cut_up_to = last
        elif piece.kind == "special":
            _add_special(pieces, piece)
        else:  # a piece with a text of its own, such as "·" for a token without characters
            pieces.append(piece)
    _add_between(pieces, text[cut_up_to:end].rstrip(), between)  # such as a text beyond the model's length
    while pieces and pieces[-1].column is None and not pieces[-1].text.strip():  # white space without a score
        pieces.pop()
    return pieces


def _add_between(pieces: list[Piece], text: str, kind: str) -> None:
    """Add the text between two pieces.

    Args:
        pieces: The pieces before it, to which it is added.
        text: The text; empty for nothing.
        kind: Its kind, see `Piece.kind`, if it is more than white space.
    """
    if text[:1].isspace() and pieces and pieces[-1] == SPACE:
        pieces.pop()  # white space of the text replaces the space after a special token
    if text.strip():
        pieces.append(Piece(text, kind=kind, details=UNREAD if kind == "rest" else ""))
    elif text:
        pieces.append(Piece(text))


def _add_special(pieces: list[Piece], piece: Piece) -> None:
    """Add a special token, with spaces around it."""
    if pieces and not pieces[-1].text[-1:].isspace():
        pieces.append(SPACE)
    pieces += [piece, SPACE]


def _with_signs(text: str) -> str:
    """Return the text of a piece, with signs if it is only white space."""
    return text if text.strip() else "".join(_SIGNS.get(character, "␣") for character in text)


def answer_pieces(a: Attribution, *, from_first: bool = False) -> list[Piece]:
    """Return the parts of an answer, its targets, as linked pieces, with the text between and before them.

    Args:
        a: The answer.
        from_first: Whether to begin at the first part instead of the beginning of the answer.
    """
    places = places_of_parts(a)
    placed_pieces = [
        (*span, Piece("", kind="strong", part=part, source=places.get(span)))
        for part, span in enumerate(a.target_spans)
    ]
    placed_pieces.sort(key=itemgetter(0, 1))  # the span
    start = min(a.target_spans)[0] if from_first else len(a.prompt or "")
    return cut(a.text or "", placed_pieces, start)


def places_of_parts(a: Attribution) -> dict[Span, int]:
    """Return the place of each earlier part of an answer among what links end at: behind the sources, by its span."""
    return {span: place for place, span in enumerate(a.earlier_parts, start=len(a.units.sources))}
