"""Which sources of a prompt an answer rests on: scores summed from tokens to sentences, messages or documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from ..errors import InputError
from .base import Result, require
from .schema import FloatArray, Index
from .spans import Piece
from .tables import Columns, text_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..render.blocks import Block


Merging = Literal["sum", "max", "excess"]
"""How the score of a source comes from its tokens'."""


class Passage(NamedTuple):
    """A source of the prompt or a part of the answer.

    Attributes:
        name: Its name.
        start: Its first character in the text.
        end: One past its last.
    """

    name: str
    start: Index
    end: Index


class SourceScore(NamedTuple):
    """A source with its score.

    Attributes:
        source: Its index among the sources.
        name: Its name.
        text: Its text.
        score: Its score.
        share: Its share of the sum of the sources' positive scores.
    """

    source: int
    name: str
    text: str
    score: float
    share: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sources(Result):
    """Scores of the sources of a prompt, for the whole answer and for each of its parts.

    Where tokens are summed, `table[k].sum() + rest[k] + written[k]` is the sum of all scores of part k, and with the
    `bias` (and the `sink`) of a frozen gradient it is the explained quantity itself.

    It has the attributes of `Result`, and:

    Attributes:
        scores: float32, (S,): the sum of `table` over the parts.
        table: float32, (K, S): what each of the K parts of the answer rests on.
        rest: float32, (K,): what rests on the prompt outside every source (template, instructions, question).
        written: float32, (K,): what rests on the answer's own earlier tokens.
        bias: float32, (K,), as `sink`.
        sources: Name and span of each source.
        parts: Text and span of each part of the answer.
        text: Prompt and completion.
        completion: The generated part of the text.
        unit: Unit of the scores, such as "logit" or "nats".
    """

    kind: ClassVar = "sources"
    described: ClassVar = "an attribution to sources"
    title: ClassVar = "An answer and the sources it rests on"

    table: FloatArray
    rest: FloatArray
    written: FloatArray
    sources: tuple[Passage, ...]
    parts: tuple[Passage, ...]
    text: str
    completion: str
    unit: str

    def __len__(self) -> int:
        """Return S, the number of sources."""
        return len(self.sources)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(source.name for source in self.sources)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The character spans of the sources in `text`."""
        return tuple((source.start, source.end) for source in self.sources)

    @property
    def shares(self) -> FloatArray:
        """Each source's share of the sum of positive scores, (S,): they add up to 1.

        Sources with negative scores have a share of 0; if no score is positive, all shares are 0.
        """
        return _shares(self.scores)

    @property
    def part_shares(self) -> FloatArray:
        """The same for each part of the answer, (K, S)."""
        return np.stack([_shares(row) for row in self.table])

    def top(self, k: int = 5, *, part: int | None = None) -> list[SourceScore]:
        """Return the `k` sources with the highest scores.

        Args:
            k: How many.
            part: Index of a part of the answer, negative from the end; None for the whole answer.

        Raises:
            InputError: If the answer has no such part.
        """
        if part is not None and part not in range(-len(self.parts), len(self.parts)):
            raise InputError(f"no part {part!r} of the answer; there are {len(self.parts)}, counted from 0")
        row = self.scores if part is None else self.table[part]  # (S,)
        shares = _shares(row)
        order = [int(i) for i in np.argsort(-row, kind="stable")][:k]
        return [
            SourceScore(i, self.sources[i].name, self.text[slice(*self.spans[i])], float(row[i]), float(shares[i]))
            for i in order
        ]

    def plot(self, *, k: int | None = None) -> "Figure":
        """Return a matplotlib heat map of the shares, a row for each source and a column for each part of the answer.

        Args:
            k: How many sources: the strongest for any part, in the order of the prompt, by default 12.

        Raises:
            DataError: If matplotlib is missing.
        """
        from ..render.plots import figure_of
        from ..render.source_blocks import SHARED, shares_grid

        return figure_of(shares_grid(self).strongest(k or SHARED).transposed())

    def _validate(self) -> None:
        count, rows = len(self.sources), len(self.parts)
        require(count > 0 and rows > 0, "sources: none, or no part of an answer")
        shapes = {"scores": (count,), "table": (rows, count), "rest": (rows,), "written": (rows,)}
        for name, shape in shapes.items():
            require(getattr(self, name).shape == shape, f"{name}: not of shape {shape}")
        self._validate_bias((rows,))
        for passage in (*self.sources, *self.parts):
            require(passage.start <= passage.end <= len(self.text), "spans: outside the text")

    def _columns(self) -> Columns:
        names = ("part", "part_text", "source", "name", "start", "end", "score", "share")
        rows = [
            (k, part.name, i, *source, float(self.table[k, i]), float(shares[i]))
            for k, (part, shares) in enumerate(zip(self.parts, self.part_shares, strict=True))
            for i, source in enumerate(self.sources)
        ]
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))

    def _text_row(self) -> Mapping[str, Any]:
        names = [self.text[slice(*span)] or name for span, name in zip(self.spans, self.names, strict=True)]
        prompt = self.text[: len(self.text) - len(self.completion)]
        return text_row(prompt, self.completion, zip(names, self.scores, strict=True), self.notes)

    def _blocks(self) -> "list[Block]":
        from ..render.source_blocks import source_blocks

        return source_blocks(self)

    def _heading(self) -> str:
        return self.completion

    def _shown(self) -> str:
        return f"{self.method}, {len(self.parts)} parts of {self.completion!r}, {len(self)} sources"


def check_merging(merge: str) -> None:
    """Check the name of a way to merge the scores of a source's tokens."""
    if merge not in get_args(Merging):
        raise InputError(f"merge must be 'sum', 'max' or 'excess', not {merge!r}")


def sum_to_sources(
    values: FloatArray,
    parts: Sequence[Piece],
    sources: Sequence[Piece],
    start: int,
    merge: Merging = "sum",
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Merge scores of tokens to sources.

    Args:
        values: For each part its rows of scores, all of T tokens: (R, T), the rows of part k named by its tokens.
        parts: The K parts; their tokens count from the first token of the sequence.
        sources: The S sources.
        start: The first generated token.
        merge: The "sum" over tokens and rows; "max", the largest score of a token in any row; or "excess", the sum
            minus the mean score of the sources' tokens times the number of tokens.

    Returns:
        The table (K, S), the sums of the rest of the prompt (K,) and of the answer's own tokens (K,).
    """
    held = sorted({token for source in sources for token in source.tokens})
    outside = np.setdiff1d(np.arange(start), held)
    table = np.zeros((len(parts), len(sources)), np.float32)
    others = np.zeros((2, len(parts)), np.float32)
    for k, part in enumerate(parts):
        rows = values[[token - start for token in part.tokens]].astype(np.float64)  # (R', T)
        for i, source in enumerate(sources):
            block = rows[:, list(source.tokens)]  # (R', n)
            table[k, i] = block.max() if merge == "max" else block.sum()
        if merge == "excess":
            lengths = np.array([len(source.tokens) for source in sources], np.float64)  # (S,)
            table[k] -= table[k].sum() / lengths.sum() * lengths
        others[:, k] = rows[:, outside].sum(), rows[:, start:].sum()
    return table, others[0], others[1]


def _shares(row: FloatArray) -> FloatArray:
    """Return the positive part of a row over its sum."""
    positive = np.maximum(row, 0)
    total = positive.sum()
    return (positive / total if total > 0 else np.zeros_like(positive)).astype(np.float32)
