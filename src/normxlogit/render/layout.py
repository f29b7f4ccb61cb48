"""What is drawn, before how: the text cut into scored pieces, and one scale for their colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..results.attribution import Attribution, Merge, Prediction
from ..results.base import FloatArray
from ..results.characters import direction, quoted, safe, visible
from ..results.schema import setting_text

__all__ = [
    "Column",
    "Facts",
    "Layout",
    "Row",
    "Segment",
    "drawable",
    "facts",
    "layout",
    "lead",
    "level",
    "number",
    "said",
    "uncoloured",
]

STEPS = (0.1, 1 / 3, 2 / 3)
"""Strengths from which a piece is weakly, clearly or strongly marked; below the first it is left alone."""


class Segment(NamedTuple):
    """A piece of the text to draw, in order.

    Attributes:
        text: Its characters, as they stand in the original text.
        column: Index of the column that holds its score; None for text between and after the tokens.
        special: Whether the tokenizer added it.
    """

    text: str
    column: int | None = None
    special: bool = False


class Column(NamedTuple):
    """What has one score: a token, a word, or several tokens that share a character.

    Attributes:
        name: Its text, never empty, white space made visible.
        tokens: Indices of its tokens.
        special: Whether the tokenizer added it.
        sink: Whether a token of it is an attention sink.
    """

    name: str
    tokens: tuple[int, ...]
    special: bool
    sink: bool = False


@dataclass(frozen=True)
class Row:
    """The scores of one label and layer.

    Attributes:
        label: Index on the label axis, None if there is none.
        layer: Number of the layer, None if there is no such axis.
        scores: One score for each column.
        strengths: How strongly each column is coloured, in [-1, 1].
        scale: The largest magnitude that they are compared with; numbers take their digits from it.
        floor: The magnitude that is left uncoloured, because all scores have at least that in common; 0 where they
            have different signs.
    """

    label: int | None
    layer: int | None
    scores: FloatArray
    strengths: FloatArray
    scale: float
    floor: float


@dataclass(frozen=True)
class Layout:
    """Everything a renderer needs besides the facts of the header.

    Attributes:
        texts: The pieces of each text: one, or two for a pair.
        directions: The writing direction of each text, "ltr", "rtl" or "auto".
        columns: What has a score, in the order of the tokens.
        rows: The scores, labels outermost.
    """

    texts: tuple[tuple[Segment, ...], ...]
    directions: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def sinks(self) -> frozenset[int]:
        """The columns in which there are attention sinks."""
        return frozenset(i for i, column in enumerate(self.columns) if column.sink)

    def same_pieces(self, other: "Layout") -> bool:
        """Say whether another result's text is cut alike; attention sinks differ by method."""
        return [column[:3] for column in self.columns] == [column[:3] for column in other.columns]


@dataclass(frozen=True)
class Facts:
    """The header and the legend in words.

    Attributes:
        prediction: What the model said, with its probability or value.
        target: What the scores explain.
        method: The method with its settings.
        model: Name of the model.
        positive: What a positive score means.
        negative: What a negative score means; None for methods without a sign.
        notes: What the reader should know.
    """

    prediction: str
    target: str
    method: str
    model: str
    positive: str
    negative: str | None
    notes: tuple[str, ...]


def layout(a: Attribution, *, words: bool | None = None, merge: Merge | None = None) -> Layout:
    """Cut the text of a result into scored pieces.

    Colours and bars have one scale. It compares labels with each other, but never layers: each layer is scaled to its
    own largest score outside the special tokens. Where all scores have one sign, what they have in common tells no
    token from another: the smallest is then left uncoloured, and colours and bars show what lies above it. Numbers are
    always the scores themselves.

    Args:
        a: The result.
        words: Whether to merge tokens to words; special tokens are then left out. By default where that can be told.
        merge: How, see `Attribution.words`.

    Raises:
        DataError: If words are asked for and the result cannot tell them.
    """
    if words or (words is None and a.has_words):
        texts, columns, scores = _words(a, merge)
    elif a.text is None or a.offsets is None:
        texts, columns = _tokens(a)
        scores = a.scores
    else:
        texts, columns = _spans(a, a.text, a.offsets)
        scores = (
            np.stack([a.scores[..., list(c.tokens)].sum(-1) for c in columns], -1) if columns else a.scores[..., :0]
        )
    columns = [c._replace(sink=not set(a.sinks).isdisjoint(c.tokens)) for c in columns]
    scores = np.nan_to_num(np.asarray(scores, dtype=np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    plain = np.array([not c.special for c in columns], dtype=bool)
    scales, floors = _scales(scores, plain if plain.any() else ~plain, a.has_label_axis)
    shares = (np.abs(scores) - floors) / np.where(scales > floors, scales - floors, 1.0)
    strengths = np.asarray(np.sign(scores) * np.clip(shares, 0.0, 1.0), dtype=np.float32)
    rows = []
    for index in np.ndindex(scores.shape[:-1]):
        label = index[0] if a.has_label_axis else None
        layer = a.layers[index[-1]] if a.layers is not None else None
        rows.append(
            Row(label, layer, scores[index], strengths[index], float(scales[index][0]), float(floors[index][0]))
        )
    # Special tokens do not decide: they are no part of the language.
    directions = [direction("".join(piece.text for piece in pieces if not piece.special)) for pieces in texts]
    return Layout(tuple(map(tuple, texts)), tuple(directions), tuple(columns), tuple(rows))


def facts(a: Attribution) -> Facts:
    """Return what a result holds, in words."""
    names = a.target.labels
    one = visible(names[0]) if len(names) == 1 else f"the {'token' if a.target.kind == 'token' else 'label'}"
    target = one if len(names) == 1 else ", ".join(map(visible, names))
    if a.target.kind == "value":
        positive, negative = f"raises {one}", f"lowers {one}"
    else:
        positive, negative = f"for {one}", f"against {one}"
    if a.target.contrast is not None:
        contrast = visible(a.target.contrast)
        target, negative = f"{target} rather than {contrast}", f"for {contrast}"
    if a.target.position is not None and 0 <= a.target.position < len(a.tokens):
        target += f", at token {a.target.position} ({visible(a.tokens[a.target.position])})"
    settings = ", ".join(f"{name}={setting_text(value)}" for name, value in a.settings.items())
    return Facts(
        prediction=said(a.prediction),
        target=target,
        method=f"{a.method} ({settings})" if settings else a.method,
        model=a.model,
        positive=positive if a.signed else "importance",
        negative=negative if a.signed else None,
        notes=a.notes,
    )


def drawable(piece: Segment) -> str:
    """Return a piece as it may be written, with control characters and white space that has a score made visible."""
    if piece.column is None or piece.text.strip():
        return safe(piece.text)
    return "".join("↵\n" if c == "\n" else "⇥" if c == "\t" else "␣" for c in piece.text)


def lead(row: Row, columns: tuple[Column, ...], k: int) -> list[int]:
    """Return the `k` columns of the largest magnitude without special tokens and zeros, the largest first."""
    order = np.argsort(-np.abs(row.scores), kind="stable")
    return [int(i) for i in order if not columns[i].special and row.scores[i] != 0][:k]


def level(strength: float) -> int:
    """Return how strongly a piece is marked where shades are not at hand, from 0 to 3."""
    return sum(abs(strength) >= step for step in STEPS)


def uncoloured(rows: Sequence[Row], faintest: float, *, signed: bool) -> str:
    """Return which scores have no colour, in words.

    Args:
        rows: The rows drawn.
        faintest: The least strength that is coloured.
        signed: Whether scores have a sign.
    """
    limits = {row.floor + faintest * (row.scale - row.floor) for row in rows}
    if not any(limits):
        return ""
    if len(limits) > 1:
        return "no colour: the weakest of each layer"
    limit = number(limits.pop(), max(row.scale for row in rows), signed=False)
    return f"no colour: closer to 0 than {limit}" if signed else f"no colour: less than {limit}"


def number(score: float, scale: float, *, signed: bool = True) -> str:
    """Return a score with three digits of the largest one, so that columns of numbers line up."""
    if scale and not 1e-4 <= scale < 1e5:
        return format(score, "+.2e" if signed else ".2e")
    digits = int(np.clip(2 - np.floor(np.log10(scale)), 0, 6)) if scale else 2
    text = format(score, f"+.{digits}f" if signed else f".{digits}f")
    return text if float(text) else text.lstrip("+-")


def said(prediction: Prediction) -> str:
    """Return a prediction as "negative, 98.2%", or "score = 3.14" for regression."""
    label = visible(prediction.label)
    if prediction.probability is None:
        return f"{label} = {prediction.value:.4g}"
    return f"{label}, {100 * prediction.probability:.1f}%"


def _scales(scores: FloatArray, compared: npt.NDArray[np.bool_], labels: bool) -> tuple[FloatArray, FloatArray]:
    """Return the magnitudes that each row is coloured between, its own layer's over all labels.

    Returns:
        The largest magnitude, and the smallest if the row's scores have one sign (0 otherwise).
    """
    sizes = np.abs(scores)
    largest = np.where(compared, sizes, 0.0).max(axis=-1, keepdims=True, initial=0.0)
    smallest = np.where(compared, sizes, np.inf).min(axis=-1, keepdims=True, initial=np.inf)
    positive, negative = (((sign * scores > 0) | ~compared).all(axis=-1, keepdims=True) for sign in (1, -1))
    several = compared.sum() > 1  # a single piece has nothing to stand out from
    smallest = np.where((positive | negative) & several & (smallest < largest), smallest, 0.0)
    if labels:
        largest = np.broadcast_to(largest.max(axis=0, keepdims=True, initial=0.0), largest.shape)
        smallest = np.broadcast_to(smallest.min(axis=0, keepdims=True, initial=np.inf), largest.shape)
    return np.asarray(largest, dtype=np.float32), np.asarray(smallest, dtype=np.float32)


class _Pen:
    """Writes the pieces of one or two texts in the order of the tokens."""

    def __init__(self, count: int) -> None:
        self.texts: list[list[Segment]] = [[] for _ in range(count)]
        self.columns: list[Column] = []

    def plain(self, sequence: int, text: str) -> None:
        if text:
            self.texts[sequence].append(Segment(text))

    def space(self, sequence: int) -> None:
        pieces = self.texts[sequence]
        if pieces and not pieces[-1].text[-1:].isspace():
            pieces.append(Segment(" "))

    def scored(self, sequence: int, text: str, tokens: tuple[int, ...], *, special: bool = False) -> None:
        """Add a piece with its column; the white space around it is text like any other."""
        body = text.strip() or text
        before = text.index(body) if body else 0
        self.plain(sequence, text[:before])
        self.texts[sequence].append(Segment(body, len(self.columns), special))
        self.plain(sequence, text[before + len(body) :])
        self.columns.append(Column(quoted(visible(text)), tokens, special))

    def special(self, sequence: int, text: str, token: int) -> None:
        """Add a token that is not in the text, set apart by spaces."""
        self.space(sequence)
        self.scored(sequence, text, (token,), special=True)
        self.plain(sequence, " ")

    def rest(self, sequence: int, text: str) -> None:
        """Add what stands after the last token, such as a text beyond the model's length."""
        if text[:1].isspace() and self.texts[sequence] and self.texts[sequence][-1] == Segment(" "):
            self.texts[sequence].pop()
        self.plain(sequence, text)

    def trimmed(self) -> list[list[Segment]]:
        """Return the texts without white space that stands after everything else."""
        for pieces in self.texts:
            while pieces and pieces[-1].column is None and not pieces[-1].text.strip():
                pieces.pop()
        return self.texts


def _spans(a: Attribution, text: str, offsets: tuple[tuple[int, int], ...]) -> tuple[list[list[Segment]], list[Column]]:
    sources = [text] if a.text_pair is None else [text, a.text_pair]
    pen, done, current = _Pen(len(sources)), [0] * len(sources), 0
    for group in _shared(a, offsets):
        first, last = group[0], group[-1]
        current = min(a.sequence_ids[first] or 0, len(sources) - 1) if a.sequence_ids[first] is not None else current
        start, end = offsets[first][0], max(offsets[i][1] for i in group)
        if end <= start:
            if a.special_tokens_mask[first]:
                pen.special(current, a.tokens[first], first)
            else:
                pen.columns.append(Column(quoted(visible(a.tokens[first])), group, False))
            continue
        pen.plain(current, sources[current][done[current] : start])
        special = a.special_tokens_mask[first] and a.special_tokens_mask[last]
        pen.scored(current, sources[current][start:end], group, special=special)
        done[current] = max(done[current], end)
    for sequence, source in enumerate(sources):
        pen.rest(sequence, source[done[sequence] :].rstrip())
    return pen.trimmed(), pen.columns


def _shared(a: Attribution, offsets: tuple[tuple[int, int], ...]) -> list[tuple[int, ...]]:
    """Group the tokens in order, those that share characters (the bytes of one emoji) together."""
    groups: list[list[int]] = []
    for index, (start, end) in enumerate(offsets):
        if groups and end > start:
            last = groups[-1][-1]
            covered = max(offsets[i][1] for i in groups[-1])
            if (
                offsets[last][1] > offsets[last][0]
                and start < covered
                and a.sequence_ids[index] == a.sequence_ids[last]
            ):
                groups[-1].append(index)
                continue
        groups.append([index])
    return [tuple(group) for group in groups]


def _words(a: Attribution, merge: Merge | None) -> tuple[list[list[Segment]], list[Column], Any]:
    words = a.words(merge)
    sources = [a.text or ""] if a.text_pair is None else [a.text or "", a.text_pair]
    pen, done = _Pen(len(sources)), [0] * len(sources)
    for word in words:
        pen.plain(word.sequence, sources[word.sequence][done[word.sequence] : word.start])
        pen.scored(word.sequence, word.text, word.tokens)
        done[word.sequence] = word.end
    for sequence, source in enumerate(sources):
        pen.rest(sequence, source[done[sequence] :].rstrip())
    scores = np.stack([np.asarray(word.score) for word in words], -1) if words else a.scores[..., :0]
    return pen.trimmed(), pen.columns, scores


def _tokens(a: Attribution) -> tuple[list[list[Segment]], list[Column]]:
    """Lay out the tokens themselves, without the original text, joined by the usual marks of word boundaries."""
    pen = _Pen(1 + any(sequence == 1 for sequence in a.sequence_ids))
    starts = any(token[:1] in _STARTS for token in a.tokens)
    current = 0
    for index, token in enumerate(a.tokens):
        current = a.sequence_ids[index] if a.sequence_ids[index] is not None else current  # type: ignore[assignment]
        if a.special_tokens_mask[index]:
            pen.special(current, token, index)
            continue
        glued = token.startswith("##") or (starts and token[:1] not in _STARTS)
        shown = token.removeprefix("##") if glued else token.lstrip(_STARTS)
        if not glued:
            pen.space(current)
        pen.scored(current, shown or token, (index,))
    return pen.trimmed(), pen.columns


_STARTS = "Ġ▁"
