"""Units, the parts of an input that have scores, as columns."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError
from ...extending import named_once, registered
from ...text.boundaries import word_spans
from ...text.characters import Span, trimmed
from ..storage.schema import Fields, Index, IndexSpans, Indices, Strings, abbreviated, require

UnitKind = str
"""A kind of unit: one of `KINDS`, or that of the parts of a medium, which its class names (`Medium.unit_kind`)."""

KINDS = frozenset(
    ("token", "word", "sentence", "paragraph", "message", "span", "region", "medium", "rest", "answer"),
)
"""A "span" has a name that the caller gave, a "medium" is a whole picture or sound, a "region" a place in one; "rest"
is what of the prompt is in no other unit, "answer" the answer's own earlier tokens."""

APART: tuple[UnitKind, ...] = ("rest", "answer")
"""Kinds of units that are not sources: the rest of a prompt, and the answer's own earlier tokens."""

FILL_VALUES = {"spans": (0, 0), "words": (0, 0), "ids": None, "name": ""}
"""What stands in a column for units that do not have it, as far as not all units do."""


@dataclass(frozen=True, kw_only=True)
class Units:
    """The units of an input, one entry of each column for each; those of the text come first.

    Attributes:
        kind: Its kind.
        text: Its text; of a token as a readable string, of a patch its row and column, of a moment its number.
        special: Whether a person did not write it: special tokens, a chat template's, and what is left of a
            prompt.
        sequence: Which of two texts (or pictures) it is of, 0 or 1; None for special tokens, but of a cosine, to which
            either text adds up.
        spans: Its first character in that text and one past its last, (0, 0) where it has none; None when the tokenizer
            cannot tell.
        words: The characters of the word that each is of, where the caller has split the text; (0, 0) for none. None
            where words are found in the text.
        ids: Vocabulary indices of tokens; empty if there is no vocabulary.
        name: What it is called where that is not its text, such as "returns.txt:1"; empty if nothing has a name.
    """

    kind: tuple[UnitKind, ...]
    text: Strings
    special: tuple[bool, ...]
    sequence: tuple[Index | None, ...]
    spans: IndexSpans | None = None
    words: IndexSpans | None = None
    ids: tuple[Index | None, ...] = ()
    name: Strings = ()

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def names(self) -> Strings:
        """The name of each unit; empty strings if no unit has a name other than its text."""
        return self.name or ("",) * len(self)

    @cached_property
    def sources(self) -> list[int]:
        """The indices of the sources of an answer: all units but the rest of a prompt and the answer's own."""
        return [index for index, kind in enumerate(self.kind) if kind not in APART]

    @property
    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The columns that the units have, by name."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: values for name, values in columns.items() if values}

    def __add__(self, other: "Units") -> "Units":
        """Concatenate units; a column that only one of them has is filled for the other."""
        own_columns, other_columns = self.columns, other.columns
        columns: Fields = {}
        for name in own_columns | other_columns:
            fill = (FILL_VALUES.get(name),)
            columns[name] = own_columns.get(name, fill * len(self)) + other_columns.get(name, fill * len(other))
        return replace(self, **columns)

    def take(self, indices: Sequence[int]) -> "Units":
        """Return the units at some indices, in their order."""
        columns: Fields = {name: tuple(values[index] for index in indices) for name, values in self.columns.items()}
        return replace(self, **columns)

    def validate(self) -> None:
        """Raise ValueError if a column does not have an entry for each."""
        for name in ("kind", "special", "sequence", *self.columns):
            fits = len(getattr(self, name)) == len(self)
            require(fits, f"units, {name}: not one for each text, of which there are {len(self)}")
        for kind in set(self.kind) - KINDS:
            require(kind in kinds_of_media(), f"units, kind: {abbreviated(kind)} is of no extension that is installed")


def kinds_of_media() -> dict[UnitKind, Any]:
    """Return the kinds of the units of media, each with the class of the medium."""
    media = registered("media").values()
    # The module is what an error names where two have one kind.
    entries = [(medium.unit_kind, medium, medium.__module__) for medium in media]
    return named_once("kinds of units", entries, KINDS)


class UnitScore(NamedTuple):
    """A unit with its score: a word, a token, a source of an answer, a region of a picture or a moment of a sound.

    Attributes:
        text: Its text; of a word as it stands in the original text.
        tokens: Indices of the result's units that it is made of.
        score: A float; of words of a result with several targets or layers an array of the leading axes of its scores.
        start: First character, in the text of its `sequence`; 0 where it has none, like `end`.
        end: One past the last character.
        sequence: 0 for the text, 1 for the second text of a pair, None for neither.
        name: Its name, if that is not its text.
        share: Its share of the sum of the positive scores; 0 where there are several targets or layers.
    """

    text: str
    tokens: Indices
    score: Any
    start: int = 0
    end: int = 0
    sequence: int | None = 0
    name: str = ""
    share: float = 0.0

    @property
    def position(self) -> int:
        """The index of its first unit."""
        return self.tokens[0]


def with_shares(units: Sequence[UnitScore]) -> list[UnitScore]:
    """Return units with one score each, with their shares of the sum of positive scores."""
    total = sum(max(unit.score, 0.0) for unit in units) or 1.0  # without a positive score all shares are 0
    return [unit._replace(share=max(unit.score, 0.0) / total) for unit in units]


class WordTokens(NamedTuple):
    """A word with its tokens.

    Attributes:
        start: Its first character.
        end: One past its last.
        tokens: The indices of its tokens.
    """

    start: int
    end: int
    tokens: list[int]


def word_groups(
    text: str, tokens: list[tuple[int, int, int]], boundary: int = 0, split: Sequence[Span] | None = None
) -> list[WordTokens]:
    """Return each word that has tokens; every token is in exactly one word.

    Words and signs are those of `word_spans`. A token that reaches over several of these makes one word of them.

    Args:
        text: The text.
        tokens: The index of each token, and its first and last character, the last one excluded.
        boundary: The character at which a word ends, and another begins, such as the start of a completion.
        split: The characters of the word of each token; None to find words in the text.
    """
    if split is not None:
        return _split_words(tokens, split)
    spans = word_spans(text, 0, boundary) + word_spans(text, boundary)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    words: list[WordTokens] = []
    without_word: list[int] = []  # tokens without characters, and lone spaces as before a number: of the next word
    for token, start, end in sorted(tokens, key=itemgetter(1, 2)):
        is_blank = not text[start:end].strip(" ")
        ends_at_boundary = start < end == boundary  # a blank there may not join the next word, behind the boundary
        if is_blank and not ends_at_boundary:
            without_word.append(token)
            continue
        start, end = trimmed(text, start, end)  # byte-level tokens begin with the space
        reached = slice(bisect_right(ends, start), bisect_left(starts, end))  # the words that the token is in
        word_start, word_end = min([start, *starts[reached]]), max([end, *ends[reached]])
        _append_word(words, WordTokens(word_start, word_end, [*without_word, token]))
        without_word = []
    if without_word and words:
        words[-1].tokens.extend(without_word)
    return [word._replace(tokens=sorted(word.tokens)) for word in words]


def _append_word(words: list[WordTokens], word: WordTokens) -> None:
    """Append a word, as one with the last word where a token reaches over both."""
    if words and word.start < words[-1].end:
        previous = words.pop()
        word = WordTokens(previous.start, max(previous.end, word.end), previous.tokens + word.tokens)
    words.append(word)


def _split_words(tokens: list[tuple[int, int, int]], word_of_token: Sequence[Span]) -> list[WordTokens]:
    """Return the words into which a caller has split a text, with the tokens of each.

    Args:
        tokens: As in `word_groups`.
        word_of_token: The characters of the word of each token.
    """
    words: dict[Span, WordTokens] = {}
    for token, _, _ in tokens:
        span = word_of_token[token]
        words.setdefault(span, WordTokens(*span, tokens=[])).tokens.append(token)
    return list(words.values())


def merge_scores(scores: Any, merge: str) -> Any:
    """Reduce the last axis to one score.

    Args:
        scores: (..., tokens), the scores of the tokens of a word, as an array of numpy.
        merge: One of `Merge`; "max" takes the largest magnitude with its sign.

    Returns:
        An array of the leading axes; a float if there are none.

    Raises:
        InputError: If the way to merge is unknown.
    """
    match merge:
        case "sum":
            score = scores.sum(-1)
        case "mean":
            score = scores.mean(-1)
        case "first":
            score = scores[..., 0]
        case "max":
            largest = np.abs(scores).argmax(-1)[..., None]  # (..., 1)
            score = np.take_along_axis(scores, largest, -1)[..., 0]
        case _:
            raise InputError(f"merge must be 'sum', 'max', 'mean' or 'first', not {merge!r}")
    return float(score) if score.ndim == 0 else score
