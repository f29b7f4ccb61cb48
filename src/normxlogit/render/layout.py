"""A text cut into pieces, and the scores of these."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..results.attribution import Attribution
from ..results.units.characters import direction, quoted, visible
from ..results.units.words import merged
from .blocks import Piece, Sentence
from .charts import Grid, Legend
from .describe import UNKNOWN, meanings, prediction_text, score_label
from .verification import WITHOUT, without_text

SPACE = Piece(" ")

NO_CHARACTER = "·"
"""What is drawn of a token that has no character of its own, such as a further byte of an emoji."""

SUMMARY = 4
"""Words that the slider names."""

ALONE = "the head at this token alone"
"""What is said of the head's prediction at a single token."""

READ_HERE = "The answer is read at this token: its score says that an answer is due there, not which"
"""What is said of the token at which an answer is read."""

SINK = "an attention sink: what it contributes besides is in no score"

UNREAD = "no token covers this text: the model did not read it"
"""What is said of what a limit left out, or the tokenizer."""

NOTHING = "no word has a score here: what there is belongs to special tokens"
"""What is said of a layer whose scores are all on special tokens."""

LEVEL = 0.5
"""Share of the largest score from which the smallest is mentioned, where all scores have one sign."""


class Span(NamedTuple):
    """Where a piece of a text stands.

    Attributes:
        start: Its first character.
        end: One past its last; `start` for a piece without characters of its own, which has its own text.
    """

    start: int
    end: int
    piece: Piece


def cut(text: str, spans: Iterable[Span], start: int = 0, end: int | None = None, between: str = "") -> list[Piece]:
    """Cut a text at the spans of pieces.

    White space around a piece is text like any other. Special tokens without characters are set apart by spaces.

    Args:
        text: The text.
        spans: The pieces in their order; what another one has taken is not drawn again.
        start: Where to begin.
        end: Where to end.
        between: The kind of the text between the pieces.
    """
    pieces: list[Piece] = []

    def add(piece: Piece) -> None:
        if piece.text[:1].isspace() and pieces and pieces[-1] == SPACE:
            pieces.pop()  # white space of the text stands for the space behind a special token
        if piece.text:
            pieces.append(piece if piece.text.strip() else Piece(piece.text))

    details = UNREAD if between == "rest" else ""
    for first, last, piece in spans:
        first = max(first, start)
        if last > first:
            body = text[first:last].strip() or text[first:last]
            first += text[first:last].index(body)
            add(Piece(text[start:first], kind=between, details=details))
            pieces.append(piece._replace(text=drawable(body)))
            start = first + len(body)
        elif piece.kind == "special":
            pieces += [*([SPACE] if pieces and not pieces[-1].text[-1:].isspace() else []), piece, SPACE]
        else:
            pieces.append(piece)
    add(Piece(text[start:end].rstrip(), kind=between, details=details))  # such as a text beyond the model's length
    while pieces and pieces[-1].column is None and not pieces[-1].text.strip():
        pieces.pop()
    return pieces


def drawable(text: str) -> str:
    """Return the text of a piece, with white space that has a score made visible."""
    return text if text.strip() else "".join("↵\n" if c == "\n" else "⇥" if c == "\t" else "␣" for c in text)


@dataclass(frozen=True)
class Layout:
    """A text cut into pieces with scores: tokens, or words.

    Attributes:
        texts: Writing direction ("ltr", "rtl" or "auto") and pieces of each text: one, or two for a pair.
        tokens: The tokens of each column of `grid`.
        grid: A row for each label and layer, labels outermost, named as far as there are several.
    """

    texts: Sequence[tuple[str, Sequence[Piece]]]
    tokens: Sequence[tuple[int, ...]]
    grid: Grid

    def sentence(self, row: int = 0, caption: str = "", step: int | None = None) -> Sentence:
        """Return the text in the colours of a row.

        Args:
            row: One of the rows.
            caption: What it is, where it has no name.
            step: The position of the slider at which it is shown.
        """
        fields = self.grid.pieces(row)
        texts = [
            (way, [p if p.column is None else fields[p.column]._replace(text=p.text) for p in pieces])
            for way, pieces in self.texts
        ]
        strongest = ", ".join(f"{piece.text} {piece.number}" for piece in self.grid.named(row, SUMMARY))
        return Sentence(caption or self.grid.rows[row], texts, step, strongest or NOTHING)

    def legend(self, a: Attribution) -> Legend:
        """Return what the colours of a result mean."""
        grid, layers, notes = self.grid, a.layers is not None, []
        if layers:
            silent = [name for row, name in enumerate(grid.rows) if not grid.strongest(row, 1)]
            notes = ["each layer by its own largest score", *(f"{name}: {NOTHING}" for name in silent)]
        if not grid.rows[1:]:
            notes += _shared_level(grid)
        unread = any(piece.kind == "rest" for _, pieces in self.texts for piece in pieces)
        _, positive, negative = meanings(a)
        return Legend(positive, negative, notes, grid, unread)


def layout(a: Attribution, *, words: bool | None = None) -> Layout:
    """Cut the text of a result into scored pieces.

    Colours and bars have one scale that begins at 0. It compares labels with each other, but not layers: each layer is
    scaled to its own largest score outside the special tokens.

    Args:
        a: The result.
        words: Whether to merge tokens to words; by default where the result can tell.

    Raises:
        DataError: If words are asked for and the result has none.
    """
    texts = [a.text or "", *([] if a.text_pair is None else [a.text_pair])]
    if by_word := a.has_words if words is None else words:
        groups = [(word.tokens, word.start, word.end) for word in a.words()]
    elif a.text is None or a.offsets is None:
        texts, groups = tokens_as_text(a)
    else:
        groups = _shared(a, a.offsets)
    spans: list[list[Span]] = [[] for _ in texts]
    names: list[str] = []
    kinds, details, current = [], [], 0
    for tokens, start, end in groups:
        sequence = a.units.sequence[tokens[0]]
        current = current if sequence is None else min(sequence, len(texts) - 1)
        name, kind = texts[current][start:end] or a.tokens[tokens[0]], _kind(a, tokens)
        piece = Piece(name if kind == "special" else NO_CHARACTER, kind=kind, column=len(names))
        spans[current].append(Span(start, end, piece))
        names.append(quoted(visible(name)))
        kinds.append(kind)
        details.append("\n".join(_details(a, tokens)))
    merge, members = a.merge if by_word else "sum", [list(tokens) for tokens, *_ in groups]
    scores = np.stack([merged(a.scores[..., part], merge) for part in members], -1) if members else a.scores[..., :0]
    layers = [f"layer {layer}" for layer in a.layers or ()] or [""]
    labels = [target.name for target in a.targets] if a.has_target_axis else [""]
    rows = [", ".join(filter(None, [label, layer])) for label in labels for layer in layers]
    drawn = [cut(text, of_text, between="rest") for text, of_text in zip(texts, spans, strict=True)]
    grid = Grid(
        rows,
        names,
        np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32).reshape(len(rows), len(names)),
        label="score / largest of the layer" if a.layers is not None else score_label(a),
        signed=a.signed,
        kinds=kinds,
        details=details,
        relative=a.layers is not None,
        steps=len(a.layers or ()),
    )
    return Layout([(written_direction(pieces), pieces) for pieces in drawn], [tokens for tokens, *_ in groups], grid)


def written_direction(pieces: Sequence[Piece]) -> str:
    """Return the writing direction of a text; special tokens are no part of its language."""
    return direction("".join(piece.text for piece in pieces if piece.kind != "special"))


def head_alone(a: Attribution, tokens: Sequence[int]) -> str:
    """Return the head's prediction at a token alone; empty for words of several tokens, and where not computed."""
    predictions = a.token_predictions
    return prediction_text(predictions[tokens[0]]) if predictions is not None and len(tokens) == 1 else ""


def _kind(a: Attribution, tokens: tuple[int, ...]) -> str:
    if a.special_tokens_mask[tokens[0]] and a.special_tokens_mask[tokens[-1]]:
        return "special"
    if a.reads_at in tokens:
        return "read"
    if all(a.tokens[i] in UNKNOWN for i in tokens):
        return "unknown"
    return "" if set(a.sinks).isdisjoint(tokens) else "sink"


def _details(a: Attribution, tokens: tuple[int, ...]) -> list[str]:
    """Return what a tooltip says of a token or word."""
    measured = {WITHOUT: without_text(a, tokens), ALONE: head_alone(a, tokens)}
    details = [f"{name}: {text}" for name, text in measured.items() if text]
    details += [READ_HERE] if a.reads_at in tokens else []
    return details + ([] if set(a.sinks).isdisjoint(tokens) else [SINK])


def _shared_level(grid: Grid) -> list[str]:
    """Say that all scores have one sign and are alike, if they are."""
    scores = grid.scores[0, grid.plain]
    sizes = np.abs(scores)
    if len(scores) < 2 or not ((scores > 0).all() or (scores < 0).all()) or sizes.min() < LEVEL * sizes.max():
        return []
    least = grid.number(0, grid.plain[int(sizes.argmin())])
    return [
        f"all scores have one sign, and none is closer to 0 than {least}; centered() shows the difference from the mean"
    ]


Group = tuple[tuple[int, ...], int, int]
"""Tokens, with the first character and the end of their text; (0, 0) of tokens without characters."""


def _shared(a: Attribution, offsets: tuple[tuple[int, int], ...]) -> list[Group]:
    """Return the spans of the tokens, of those that share characters (the bytes of one emoji) together."""
    spans: list[Group] = []
    for index, (start, end) in enumerate(offsets):
        tokens, first, covered = spans[-1] if spans else ((index,), start, start)
        same_text = a.units.sequence[index] == a.units.sequence[tokens[-1]]
        if end > start and max(first, start) < covered and same_text:
            spans[-1] = ((*tokens, index), first, max(covered, end))
        else:
            spans.append(((index,), start, end))
    return spans


def tokens_as_text(a: Attribution) -> tuple[list[str], list[Group]]:
    """Return the tokens as texts, joined by the usual marks of word boundaries, and the span of each in them."""
    texts, current = [""] * (1 + (1 in a.units.sequence)), 0
    spans: list[Group] = []
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
