"""Spans: sources of a prompt and parts of an answer, by characters, by tokens, and by regions of pictures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ...errors import InputError
from ..storage.schema import Index
from .kinds import PartKind, SourceKind
from .media import Medium
from .sentences import paragraph_spans, sentence_spans
from .units import UnitKind
from .words import word_groups

SourceSpec = SourceKind | Mapping[str, tuple[int, ...]]
"""How a prompt is divided into sources: by a kind of span, or named spans of characters and boxes of pictures."""

PartSpec = int | list[int] | tuple[int, int] | PartKind | None
"""Parts of an answer: one or several token indices, a span of characters, each span of a kind, or all of it."""


class MessageSpan(NamedTuple):
    """A message of a chat or of a conversation, as the template renders it in the prompt.

    Attributes:
        role: Role of its author; of a conversation what it is: also "tool call", "tool result" and "reasoning".
        start: Its first character in the text.
        end: One past its last.
        name: What it is called, such as "tool result search (2)"; names of its sources begin with it. Of a conversation
            whose sources are cited, like `tool`.
        tool: Name of the tool; of other messages empty.
    """

    role: str
    start: Index
    end: Index
    name: str = ""
    tool: str = ""


class NamedSpan(NamedTuple):
    """A source of the prompt, a part of the answer, or another coarser unit.

    Attributes:
        name: Its name.
        start: Its first character in the text.
        end: One past its last.
        tokens: Indices of its tokens in the sequence, or of the finer units that it is made of.
        kind: What it is as a unit.
        sequence: Which of two texts it is of, None for pictures and sounds.
        weights: How much of each of `tokens` belongs to it, such as the share of a patch that lies in a region; empty
            where all of them do.
        places: What it is of pictures and sounds: which of them, and a box in pixels or a span in seconds.
    """

    name: str
    start: int
    end: int
    tokens: tuple[int, ...]
    kind: UnitKind = "span"
    sequence: int | None = 0
    weights: tuple[float, ...] = ()
    places: tuple[tuple[int, tuple[float, ...]], ...] = ()


@dataclass(frozen=True)
class Sequenced:
    """A prompt with its completion, as characters and as tokens.

    Attributes:
        text: Both.
        offsets: Character spans of the T tokens.
        special: True at special tokens and at those of a chat template.
        prompt_tokens: Tokens of the prompt.
        prompt_characters: Characters of the prompt.
        messages: Spans of the messages of a chat; None for a prompt that was one text.
        words: The characters of the word of each token, where the caller has split the text into words.
    """

    text: str
    offsets: Sequence[tuple[int, int]]
    special: Sequence[bool]
    prompt_tokens: int
    prompt_characters: int
    messages: tuple[MessageSpan, ...] | None
    words: Sequence[tuple[int, int]] | None = None

    def tokens_in(self, start: int, end: int, *, of_answer: bool) -> tuple[int, ...]:
        """Return the tokens that begin in a span, leading white space ignored; special tokens are left out."""
        first, last = (self.prompt_tokens, len(self.offsets)) if of_answer else (0, self.prompt_tokens)
        begins = self._begins[first:last]
        return tuple((np.flatnonzero((start <= begins) & (begins < end)) + first).tolist())

    @cached_property
    def _begins(self) -> NDArray[np.int64]:
        """The first character of each token that is not white space, shape (T,); -1 for special tokens."""
        begins = np.full(len(self.offsets), -1)
        for token, (begin, stop) in enumerate(self.offsets):
            body = self.text[begin:stop]
            if not self.special[token]:
                begins[token] = begin + (len(body) - len(body.lstrip()) if body.strip() else 0)
        return begins


def prompt_sources(sequence: Sequenced, sources: SourceSpec) -> list[NamedSpan]:
    """Return the sources of a prompt; text between sources is in none of them.

    Args:
        sequence: The prompt with its completion.
        sources: "word", "sentence", "paragraph" or "message", without the chat template's text around the messages; or
            named spans of characters of the prompt. Boxes of pictures among them are left out.
    """
    if isinstance(sources, str):
        if sources not in get_args(SourceKind):
            raise InputError(
                f"sources are {', '.join(map(repr, get_args(SourceKind)))} or named spans, not {sources!r}"
            )
        prompt = (MessageSpan("prompt", 0, sequence.prompt_characters),)
        messages = prompt if sequence.messages is None else sequence.messages
        return [
            piece._replace(name=message.role if sources == "message" else piece.name, kind=sources)
            for message in messages
            for piece in _pieces(sequence, sources, message.start, message.end, of_answer=False)
            if sequence.text[piece.start : piece.end].strip()
        ]
    if not isinstance(sources, Mapping) or not sources:
        raise InputError('sources are named spans of characters, such as {"first": (0, 20)}')
    named_spans = [_named(sequence, str(name), span) for name, span in sources.items() if not is_box(span)]
    order = sorted(named_spans, key=lambda piece: piece.start)
    for source, following in pairwise(order):
        if following.start < source.end:
            raise InputError(f"the sources {source.name!r} and {following.name!r} overlap")
    return named_spans


def answer_parts(sequence: Sequenced, parts: PartSpec) -> list[NamedSpan]:
    """Return the parts of an answer.

    Args:
        sequence: The prompt with its completion.
        parts: A token's index (negative from the end) or a list of them; a span of characters of the completion; each
            "token", "word", "sentence" or "paragraph"; or "all" or None for the whole answer as one part.
    """
    first, shift = sequence.prompt_tokens, sequence.prompt_characters
    count, length = len(sequence.offsets) - first, len(sequence.text) - shift
    if parts is None or parts == "all":
        return [NamedSpan(sequence.text[shift:], shift, shift + length, tuple(range(first, first + count)))]
    if isinstance(parts, int) and not isinstance(parts, bool):
        parts = [parts]
    if parts == "token":
        parts = list(range(count))
    if isinstance(parts, list) and parts and all(type(i) is int for i in parts):
        if outside := [i for i in parts if not -count <= i < count]:
            raise InputError(f"no generated token {outside[0]}; there are {count}")
        spans = [(first + i % count, sequence.offsets[first + i % count]) for i in parts]
        return [NamedSpan(sequence.text[start:end], start, end, (token,)) for token, (start, end) in spans]
    kind: SourceKind
    if parts in ("word", "sentence", "paragraph"):
        kind, start, end = parts, 0, length
    elif isinstance(parts, tuple) and len(parts) == 2 and all(isinstance(i, int) for i in parts):
        kind, (start, end) = "message", parts
        if not 0 <= start < end <= length:
            raise InputError(f"{parts} is not a span of the completion, which has {length} characters")
    else:
        raise InputError(
            "parts of an answer are 'token', 'word', 'sentence', 'paragraph' or 'all', the index of a token, a list of "
            f"indices, or a span (start, end) of characters, not {parts!r}"
        )
    pieces = _pieces(sequence, kind, shift + start, shift + end, of_answer=True)
    if not pieces:
        raise InputError("no token of the answer begins there")
    return pieces


def _pieces(sequence: Sequenced, kind: str, start: int, end: int, *, of_answer: bool) -> list[NamedSpan]:
    """Return the spans of a kind between two characters, named by their texts; spans without tokens are left out."""
    if kind == "message":
        spans = [(start, end)]
    elif kind == "word":
        tokens = [(i, *sequence.offsets[i]) for i in sequence.tokens_in(start, end, of_answer=of_answer)]
        spans = [(a, b) for a, b, _ in word_groups(sequence.text, tokens, start if of_answer else end, sequence.words)]
    else:
        cut = sentence_spans if kind == "sentence" else paragraph_spans
        spans = [(start + a, start + b) for a, b in cut(sequence.text[start:end])]
    pieces = [NamedSpan(sequence.text[a:b], a, b, sequence.tokens_in(a, b, of_answer=of_answer)) for a, b in spans]
    return [piece for piece in pieces if piece.tokens]


def _named(sequence: Sequenced, name: str, span: tuple[int, ...]) -> NamedSpan:
    """Return a source that the caller named by its characters, with its tokens."""
    if not isinstance(span, Sequence) or len(span) != 2 or not all(isinstance(i, int) for i in span):
        raise InputError(f"source {name!r}: a span is (start, end), counted in characters, not {span!r}")
    start, end = span[0], span[1]
    if not 0 <= start < end <= sequence.prompt_characters:
        raise InputError(
            f"source {name!r}: {start} to {end} is not a span of the prompt, which has {sequence.prompt_characters} "
            "characters"
        )
    tokens = sequence.tokens_in(start, end, of_answer=False)
    if not tokens:
        raise InputError(f"source {name!r}: no token begins between the characters {start} and {end}")
    return NamedSpan(name, start, end, tokens)


Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels of the picture that was given."""


def share_inside(medium: Medium, box: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the share of each part's area that lies in a box, (h, w), of a medium with two axes."""
    left, top, right, bottom = box
    x0, y0, x1, y1 = np.moveaxis(medium.places.astype(np.float64), -1, 0)  # (h, w) each
    wide = np.clip(np.minimum(x1, right) - np.maximum(x0, left), 0, None)
    high = np.clip(np.minimum(y1, bottom) - np.maximum(y0, top), 0, None)
    shares: npt.NDArray[np.float64] = wide * high / np.maximum((x1 - x0) * (y1 - y0), 1e-12)
    return shares


def is_box(value: Any) -> bool:
    """Return whether a source is written as a box: four whole numbers, or five with the picture's number first."""
    return isinstance(value, Sequence) and len(value) in (4, 5) and all(isinstance(i, int | np.integer) for i in value)


def boxes_outside(boxes: Iterable[Box], size: Sequence[float]) -> list[tuple[float, float, float, float]]:
    """Return boxes of what of a picture is in none of some boxes."""
    box_list, (width, height) = list(boxes), size
    columns = sorted({0, width, *(edge for left, _, right, _ in box_list for edge in (left, right))})
    rows = sorted({0, height, *(edge for _, top, _, bottom in box_list for edge in (top, bottom))})
    return [
        (left, top, right, bottom)
        for top, bottom in pairwise(rows)
        for left, right in pairwise(columns)
        if not any(a <= left and right <= c and b <= top and bottom <= d for a, b, c, d in box_list)
    ]


def media_places(media: Sequence[Any], sources: Any) -> Iterator[tuple[int, str, UnitKind, list[tuple[float, ...]]]]:
    """Yield what of media is a source: each medium, or its regions and the rest of it.

    Args:
        media: What a prompt or a result holds beside its text, each with a `name` and an `extent`.
        sources: How it is divided, with boxes of pictures among named sources.

    Yields:
        The index of the medium, the name and the kind of the source, and its boxes; none for a whole medium.
    """
    pictures = [index for index, medium in enumerate(media) if len(medium.extent) == 2]
    regions = regions_of(sources, [media[index].extent for index in pictures])
    for index, medium in enumerate(media):
        boxes = {name: box for name, (picture, box) in regions.items() if pictures[picture] == index}
        for name, box in boxes.items():
            yield index, name, "region", [box]
        if not boxes:
            yield index, medium.name, "medium", []
        elif rest := boxes_outside(boxes.values(), medium.extent):
            yield index, f"the rest of {medium.name}", "medium", [*rest]


def regions_of(sources: Any, sizes: Sequence[Sequence[float]]) -> dict[str, tuple[int, Box]]:
    """Return the regions among named sources: for each name, the index of the picture and the box in it.

    Args:
        sources: The named sources; no regions are among others.
        sizes: Width and height of each picture.

    Raises:
        InputError: If there is no such picture, a box is not inside it, or two overlap.
    """
    boxes = {str(n): v for n, v in sources.items() if is_box(v)} if isinstance(sources, Mapping) else {}
    regions: dict[str, tuple[int, Box]] = {}
    for name, value in boxes.items():
        number = value[0] if len(value) == 5 else 0
        if (len(value) == 4 and len(sizes) != 1) or number not in range(len(sizes)):
            raise InputError(
                f"source {name!r}: the prompt holds {len(sizes)} pictures; a region is (left, top, right, bottom) of "
                "the only one, or (picture, left, top, right, bottom) with its number from 0"
            )
        left, top, right, bottom = map(int, value[-4:])
        width, height = sizes[number]
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            raise InputError(
                f"source {name!r}: {tuple(value[-4:])} is not a box (left, top, right, bottom) of a picture of "
                f"{width} x {height} pixels"
            )
        regions[name] = number, (left, top, right, bottom)
    for (first, (picture, (a, b, c, d))), (second, (other_picture, (e, f, g, h))) in combinations(regions.items(), 2):
        if picture == other_picture and max(a, e) < min(c, g) and max(b, f) < min(d, h):
            raise InputError(f"the sources {first!r} and {second!r} overlap")
    return regions
