"""A text cut into scored pieces, and one scale for their colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray
from ..results.units.characters import direction, quoted, visible
from .blocks import Piece

UNKNOWN = ("[UNK]", "<unk>", "<UNK>")
"""What tokenizers put for what is not in their vocabulary."""


def cut_pieces(text: str, start: int, end: int, pieces: list[tuple[int, int, Piece]], between: str = "") -> list[Piece]:
    """Cut a text at the spans of pieces.

    Args:
        text: The text.
        start: Where to begin.
        end: Where to end.
        pieces: First character, one past the last, and what is drawn there; its text is filled in.
        between: The kind of the pieces between them.
    """
    cut, cut_to = [], start
    for first, last, piece in sorted(pieces, key=lambda span: span[:2]):
        first = max(first, cut_to)
        if first > cut_to:
            cut.append(Piece(text[cut_to:first], kind=between))
        name = f"[{piece.name}]" if piece.name else ""  # a region of a picture whose place is taken
        cut.append(piece._replace(text=text[first:last] or name))
        cut_to = max(cut_to, last)
    if text[cut_to:end].strip():
        cut.append(Piece(text[cut_to:end], kind=between))
    return cut


class Segment(NamedTuple):
    """A piece of the text to draw, in order.

    Attributes:
        text: Its characters, as they stand in the original text.
        column: Index of the column that holds its score; None for text between and after the tokens.
    """

    text: str
    column: int | None = None


SPACE = Segment(" ")

NO_CHARACTER = "·"
"""What is drawn of a token that has no character of its own, such as a further byte of an emoji."""


class ScoredColumn(NamedTuple):
    """What has one score: a token, a word, or several tokens that share a character.

    Attributes:
        name: Its text, never empty, white space made visible.
        special: Whether the tokenizer added it.
        sink: Whether a token of it is an attention sink.
        answer_read: Whether the answer is read there, which has no colour: see `Attribution.reads_at`.
    """

    name: str
    tokens: tuple[int, ...]
    special: bool
    sink: bool = False
    answer_read: bool = False


def drawable(segment: Segment) -> str:
    """Return the text of a piece, with white space that has a score made visible."""
    if segment.text.strip():
        return segment.text
    return "".join("↵\n" if c == "\n" else "⇥" if c == "\t" else "␣" for c in segment.text)


@dataclass(frozen=True)
class Row:
    """The scores of one label and layer.

    Attributes:
        name: The label and the layer, as far as there are several.
        scores: One score for each column.
        strengths: How strongly each column is coloured, in [-1, 1]: its score over `scale`.
        scale: The largest magnitude that they are compared with; numbers take their digits from it.
    """

    name: str
    scores: FloatArray
    strengths: FloatArray
    scale: float


@dataclass(frozen=True)
class Layout:
    """A text with its scores, cut into pieces.

    Attributes:
        texts: The pieces of each text: one, or two for a pair.
        directions: The writing direction of each text, "ltr", "rtl" or "auto".
        columns: What has a score, in the order of the tokens.
        rows: The scores, labels outermost.
    """

    texts: tuple[tuple[Segment, ...], ...]
    directions: tuple[str, ...]
    columns: tuple[ScoredColumn, ...]
    rows: tuple[Row, ...]

    @property
    def plain(self) -> list[int]:
        """The columns that are not special tokens."""
        return [i for i, column in enumerate(self.columns) if not column.special]

    @property
    def special(self) -> frozenset[int]:
        """The columns that are special tokens."""
        return frozenset(range(len(self.columns))) - frozenset(self.plain)

    def same_pieces(self, other: "Layout") -> bool:
        """Return whether another result's text is cut alike; attention sinks differ by method."""
        return [column[:3] for column in self.columns] == [column[:3] for column in other.columns]


def layout(a: Attribution, *, words: bool | None = None) -> Layout:
    """Cut the text of a result into scored pieces.

    Colours and bars have one scale that begins at 0. It compares labels with each other, but not layers: each layer is
    scaled to its own largest score outside the special tokens.

    Raises:
        DataError: If words are asked for and the result has none.
    """
    texts, columns, scores = _scored_pieces(a, words)
    columns = [
        c._replace(sink=not set(a.sinks).isdisjoint(c.tokens), answer_read=a.reads_at in c.tokens) for c in columns
    ]
    scores = np.nan_to_num(np.asarray(scores, dtype=np.float32), nan=0.0, posinf=0.0, neginf=0.0)  # (..., columns)
    strengths, scales = _strengths(a, columns, scores)
    rows = []
    for index in np.ndindex(scores.shape[:-1]):
        layer = a.layers[index[-1]] if a.layers is not None else None
        label = [a.targets[index[0]].name] if a.has_target_axis else []
        name = ", ".join(label + ([f"layer {layer}"] if layer is not None else []))
        rows.append(Row(name, scores[index], strengths[index], float(scales[index][0])))
    directions = []
    for pieces in texts:  # special tokens are no part of the language, so they do not decide how it is written
        body = [piece.text for piece in pieces if piece.column is None or not columns[piece.column].special]
        directions.append(direction("".join(body)))
    return Layout(tuple(map(tuple, texts)), tuple(directions), tuple(columns), tuple(rows))


def _scored_pieces(a: Attribution, words: bool | None) -> tuple[list[list[Segment]], list[ScoredColumn], FloatArray]:
    """Return the pieces of each text, what has a score in them, and the scores, (..., columns)."""
    texts = [a.text or ""] if a.text_pair is None else [a.text or "", a.text_pair]
    if words or (words is None and a.has_words):
        merged_words = a.words()
        segments, columns = cut_tokens(a, texts, [(word.tokens, word.start, word.end) for word in merged_words])
        return segments, columns, _stacked([np.asarray(word.score) for word in merged_words], a)
    if a.text is None or a.offsets is None:
        return *cut_tokens(a, *tokens_as_text(a)), a.scores[..., : a.text_units]
    segments, columns = cut_tokens(a, texts, _shared(a, a.offsets))
    return segments, columns, _stacked([a.scores[..., list(column.tokens)].sum(-1) for column in columns], a)


def _stacked(scores: Sequence[FloatArray], a: Attribution) -> FloatArray:
    """Return the scores of columns, (...) each, as (..., columns); of a result that has none without a column."""
    return np.stack(scores, -1) if scores else a.scores[..., :0]


def _strengths(a: Attribution, columns: Sequence[ScoredColumn], scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how strongly each column is coloured, (..., columns), and the largest magnitude of each row, (..., 1)."""
    special = np.array([column.special for column in columns], dtype=bool)
    answer_read = np.array([column.answer_read for column in columns], dtype=bool)
    compared = ~special & ~answer_read
    if not compared.any():  # the token at which the answer is read is all that was written, or nothing was
        compared = ~special if not special.all() else special
    scales = _scales(scores, compared, a.has_target_axis)  # (..., 1)
    strengths = np.clip(scores / np.where(scales > 0, scales, 1.0), -1.0, 1.0).astype(np.float32)
    unknown = np.array([all(a.tokens[i] in UNKNOWN for i in column.tokens) for column in columns], dtype=bool)
    strengths[..., unknown] = 0.0  # the model does not know which words these are
    strengths[..., answer_read & ~compared] = 0.0  # drawn as the place where the answer is read
    return strengths, scales


def strongest(drawn: Layout, row: Row, k: int) -> list[int]:
    """Return the `k` columns of the largest magnitude, the largest first.

    Special tokens, zeros and the token at which the answer is read are left out, the latter unless it is alone.
    """
    apart = drawn.special | {i for i, column in enumerate(drawn.columns) if column.answer_read}
    apart = apart if len(apart) < len(drawn.columns) else drawn.special
    order = np.argsort(-np.abs(row.scores), kind="stable")
    return [int(i) for i in order if i not in apart and row.scores[i] != 0][:k]


def _scales(scores: FloatArray, compared: npt.NDArray[np.bool_], labels: bool) -> FloatArray:
    """Return the largest magnitude of each row, (..., 1): of its own layer, over all labels."""
    largest = np.where(compared, np.abs(scores), 0.0).max(axis=-1, keepdims=True, initial=0.0)
    if labels:
        largest = np.broadcast_to(largest.max(axis=0, keepdims=True, initial=0.0), largest.shape)
    return np.asarray(largest, dtype=np.float32)


Span = tuple[tuple[int, ...], int, int]
"""Tokens, with the first character and the end of their text; (0, 0) of tokens without characters."""


def cut_tokens(
    a: Attribution, texts: Sequence[str], spans: Sequence[Span]
) -> tuple[list[list[Segment]], list[ScoredColumn]]:
    """Cut texts at the spans of tokens or words; special tokens that are not in them are set apart by spaces."""
    segments: list[list[Segment]] = [[] for _ in texts]
    columns: list[ScoredColumn] = []
    cut_to, current = [0] * len(texts), 0
    for tokens, start, end in spans:
        sequence, token = a.units.sequence[tokens[0]], a.tokens[tokens[0]]
        current = current if sequence is None else min(sequence, len(texts) - 1)
        special = a.special_tokens_mask[tokens[0]] and a.special_tokens_mask[tokens[-1]]
        written, text = segments[current], texts[current]
        if end > start:
            token = text[start:end]
            body = token.strip() or token  # white space around it is text like any other
            first = start + token.index(body)
            _add(written, text[cut_to[current] : first])
            written.append(Segment(body, len(columns)))
            cut_to[current] = max(cut_to[current], first + len(body))
        elif special:
            if written and not written[-1].text[-1:].isspace():
                written.append(SPACE)
            written += [Segment(token, len(columns)), SPACE]
        else:
            written.append(Segment(NO_CHARACTER, len(columns)))
        columns.append(ScoredColumn(quoted(visible(token)), tokens, special))
    for written, text, end in zip(segments, texts, cut_to, strict=True):
        # What stands after the last token, such as a text beyond the model's length.
        _add(written, text[end:].rstrip())
        while written and written[-1].column is None and not written[-1].text.strip():
            written.pop()
    return segments, columns


def _add(written: list[Segment], text: str) -> None:
    """Add text between tokens; white space of its own stands for the space behind a special token."""
    if text[:1].isspace() and written and written[-1] == SPACE:
        written.pop()
    if text:
        written.append(Segment(text))


def _shared(a: Attribution, offsets: tuple[tuple[int, int], ...]) -> list[Span]:
    """Return the spans of the tokens, of those that share characters (the bytes of one emoji) together."""
    spans: list[Span] = []
    for index, (start, end) in enumerate(offsets):
        tokens, first, covered = spans[-1] if spans else ((index,), start, start)
        same_text = a.units.sequence[index] == a.units.sequence[tokens[-1]]
        if end > start and max(first, start) < covered and same_text:
            spans[-1] = ((*tokens, index), first, max(covered, end))
        else:
            spans.append(((index,), start, end))
    return spans


def tokens_as_text(a: Attribution) -> tuple[list[str], list[Span]]:
    """Return the tokens as texts, joined by the usual marks of word boundaries, and the span of each in them."""
    texts, current = [""] * (1 + (1 in a.units.sequence)), 0
    spans: list[Span] = []
    marked = any(token[:1] in _STARTS for token in a.tokens)
    for index, (token, sequence) in enumerate(zip(a.tokens, a.units.sequence, strict=False)):
        current = current if sequence is None else sequence
        if a.special_tokens_mask[index]:
            spans.append(((index,), 0, 0))
            continue
        glued = token.startswith("##") or (marked and token[:1] not in _STARTS)
        if not glued and texts[current]:
            texts[current] += " "
        start = len(texts[current])
        texts[current] += (token.removeprefix("##") if glued else token.lstrip(_STARTS)) or token
        spans.append(((index,), start, len(texts[current])))
    return texts, spans


_STARTS = "Ġ▁"
