"""Spans of a prompt and its completion that are coarser units: words, sentences, messages, parts of an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...text.boundaries import paragraph_spans, sentence_spans
from ...text.characters import Span, moved, trimmed
from ..storage.schema import Index, Indices
from .kinds import PartKind, SourceKind
from .media import is_region, overlap
from .units import UnitKind, word_groups

SourceSpec = SourceKind | Mapping[str, Indices]
"""How a prompt is divided into sources: by a kind of span, or named spans of characters and regions of media."""

PartSpec = int | list[int] | Span | PartKind | Mapping[str, Span] | None
"""Parts of an answer: token indices, a span of characters or several by name, each span of a kind, or all of it."""


class MessageSpan(NamedTuple):
    """A message of a chat or of a conversation, as the template renders it in the prompt.

    Attributes:
        role: Role of its author; of a conversation what it is: also "tool call", "tool result" and "reasoning".
        name: What it is called in a conversation, such as "tool result search (2)"; its sources' names begin with it.
    """

    role: str
    start: Index
    end: Index
    name: str = ""
    tool: str = ""  # its name; of other messages empty


class NamedSpan(NamedTuple):
    """A source of the prompt, a part of the answer, or another coarser unit.

    Attributes:
        weights: How much of each of `tokens` belongs to it, such as the share of a patch that lies in a region; empty
            where all of them do.
        places: What it is of pictures and sounds: which of them, and a box in pixels or a span in seconds.
    """

    name: str
    start: int
    end: int
    tokens: Indices  # or the finer units that it is made of
    kind: UnitKind = "span"
    sequence: int | None = 0  # which of two texts it is of, None for pictures and sounds
    weights: tuple[float, ...] = ()
    places: tuple[tuple[int, tuple[float, ...]], ...] = ()


Groups = list[NamedSpan]
"""Sources, parts or other coarser units, in their order."""


@dataclass(frozen=True)
class Sequenced:
    """A prompt with its completion, as characters and as T tokens.

    Attributes:
        text: Both, one after the other.
        offsets: The characters of each token, (start, end); (0, 0) of one that is of another text.
        special: Which tokens are in no span: special tokens, and those of another text.
        prompt_tokens: How many tokens stand before the first one of the completion.
        prompt_characters: How many characters stand before the completion.
        messages: The messages of the prompt; None if it is one text.
        words: The characters of the word of each token, where the caller has split the text.
        reasoning: Spans of the completion's reasoning, in its characters, each with its span with the marks around it.
    """

    text: str
    offsets: Sequence[Span]
    special: Sequence[bool]
    prompt_tokens: int
    prompt_characters: int
    messages: tuple[MessageSpan, ...] | None
    words: Sequence[Span] | None = None
    reasoning: Sequence[tuple[Span, Span]] = ()

    def tokens_in(self, start: int, end: int, *, of_answer: bool) -> Indices:
        """Return the tokens that begin in a span, leading white space ignored; special tokens are left out.

        Args:
            start: The first character of the span, in the whole text.
            end: One past the last.
            of_answer: Whether tokens of the answer are looked for, or those of the prompt.
        """
        first_token, end_token = (self.prompt_tokens, len(self.offsets)) if of_answer else (0, self.prompt_tokens)
        characters = self._first_characters[first_token:end_token]
        is_inside = (start <= characters) & (characters < end)
        return tuple((first_token + np.flatnonzero(is_inside)).tolist())

    def divided(self, divide: Callable[[str], list[Span]], start: int, end: int) -> list[Span]:
        """Divide what stands between two characters; no span reaches over a special token, which parts a written chat.

        Args:
            divide: What divides a text, such as into sentences.
            start: The first character.
            end: One past the last.

        Returns:
            Spans in characters of the whole text.
        """
        special_spans = [span for span in self._special_spans if start <= span[0] < span[1] <= end]
        spans = []
        for (_, text_start), (text_end, _) in pairwise([(start, start), *special_spans, (end, end)]):
            spans += [moved(span, text_start) for span in divide(self.text[text_start:text_end])]
        return spans

    @cached_property
    def _special_spans(self) -> list[Span]:
        """The spans of special tokens that are written in the text, such as "</s>"; not those of unknown words."""
        pairs = zip(self.offsets, self.special, strict=False)  # pictures have no offsets
        return [span for span, is_special in pairs if is_special and self._is_mark(*span)]

    def _is_mark(self, start: int, end: int) -> bool:
        """Return whether a special token is written there, such as "</s>", and not an unknown word.

        An unknown word, whose token is special too, begins or ends with a letter, or is a short sign such as an emoji.
        """
        is_short = end - start <= 2
        return not (is_short or self.text[start].isalnum() or self.text[end - 1].isalnum())

    @cached_property
    def _first_characters(self) -> NDArray[np.int64]:
        """The first character of each token that is not white space, shape (T,); -1 for special tokens."""
        pairs = zip(self.offsets, self.special, strict=False)
        return np.array([-1 if is_special else trimmed(self.text, *span)[0] for span, is_special in pairs], int)


def prompt_sources(sequence: Sequenced, sources: SourceSpec) -> Groups:
    """Return the sources of a prompt; regions of pictures and sounds are left out.

    Text between sources, such as the chat template's around messages, is in none of them.

    Args:
        sequence: The prompt with its completion.
        sources: How the prompt is divided.

    Raises:
        InputError: If there is no such kind or span, or two spans overlap.
    """
    if isinstance(sources, str):
        return _sources_of_kind(sequence, sources)
    if not isinstance(sources, Mapping) or not sources:
        raise InputError('sources are named spans of characters, such as {"first": (0, 20)}')
    named_spans = [_named_source(sequence, str(name), span) for name, span in sources.items() if not is_region(span)]
    for source, following in pairwise(sorted(named_spans, key=attrgetter("start"))):
        if following.start < source.end:
            raise InputError(f"the sources {source.name!r} and {following.name!r} overlap")
    return named_spans


def _sources_of_kind(sequence: Sequenced, kind: SourceKind) -> Groups:
    """Return the words, sentences, paragraphs or messages of a prompt."""
    kinds = get_args(SourceKind)
    if kind not in kinds:
        raise InputError(f"sources are {', '.join(map(repr, kinds))} or named spans, not {kind!r}")
    messages = sequence.messages
    if messages is None:
        messages = (MessageSpan("prompt", 0, sequence.prompt_characters),)
    sources = []
    for message in messages:  # one that is blank is no source
        for span in _spans_of_kind(sequence, kind, message.start, message.end):
            if sequence.text[span.start : span.end].strip():
                name = message.role if kind == "message" else span.name
                sources.append(span._replace(kind=kind, name=name))
    return sources


def _named_source(sequence: Sequenced, name: str, span: Indices) -> NamedSpan:
    """Return a source that the caller named by its characters, with its tokens.

    Args:
        sequence: The prompt with its completion.
        name: What the caller calls it.
        span: What the caller gave: its first character, and one past its last.
    """
    if not isinstance(span, Sequence) or not _is_pair(span):
        raise InputError(f"source {name!r}: a span is (start, end), counted in characters, not {span!r}")
    start, end = span
    length = sequence.prompt_characters
    if not 0 <= start < end <= length:
        raise InputError(
            f"source {name!r}: {start} to {end} is not a span of the prompt, which has {length} characters"
        )
    tokens = sequence.tokens_in(start, end, of_answer=False)
    if not tokens:
        raise InputError(f"source {name!r}: no token begins between the characters {start} and {end}")
    return NamedSpan(name, start, end, tokens)


def _is_pair(numbers: Sequence[Any]) -> bool:
    """Return whether these are two whole numbers."""
    return len(numbers) == 2 and all(isinstance(number, int) for number in numbers)


def answer_parts(sequence: Sequenced, parts: PartSpec) -> Groups:
    """Return the parts of an answer, see `Attribution.group_targets`.

    Args:
        sequence: The prompt with its completion.
        parts: How the answer is divided.

    Raises:
        InputError: If there is no such part.
    """
    start, end = sequence.prompt_characters, len(sequence.text)
    if parts is None or parts == "all":
        tokens = range(sequence.prompt_tokens, len(sequence.offsets))
        return [NamedSpan(sequence.text[start:], start, end, tuple(tokens))]
    if isinstance(parts, Mapping):
        return _named_parts(sequence, parts)
    if named_tokens := _named_tokens(sequence, parts):
        return [_part_of_token(sequence, token) for token in named_tokens]
    if parts in ("word", "sentence", "paragraph"):
        part_spans = _answer_parts_of_kind(sequence, parts)
    else:  # one span, which is not divided, as a message is not
        part_spans = _spans_of_kind(sequence, "message", *_span_in_answer(sequence, parts))
    if not part_spans:
        raise InputError("no token of the answer begins there")
    return part_spans


def _part_of_token(sequence: Sequenced, token: int) -> NamedSpan:
    """Return a token as a part of an answer."""
    start, end = sequence.offsets[token]
    return NamedSpan(sequence.text[start:end], start, end, tokens=(token,))


def _named_parts(sequence: Sequenced, parts: Mapping[str, Span]) -> Groups:
    """Return named parts of an answer with all tokens that have a character of them; parts without any are left out.

    A token with the quotation mark before a word belongs to the word, and a special token that is written, such as
    "[TOOL_CALLS]", to the part that names it.

    Args:
        sequence: The prompt with its completion.
        parts: The characters of each part in the completion, by its name.
    """
    tokens = range(sequence.prompt_tokens, len(sequence.offsets))
    named_parts = []
    for name, span in parts.items():
        start, end = _span_in_answer(sequence, span)
        inside = tuple(token for token in tokens if overlap(sequence.offsets[token], (start, end)))
        if inside:
            named_parts.append(NamedSpan(str(name), start, end, inside))
    if not named_parts:
        raise InputError("no token of the answer is in these parts")
    return named_parts


def _named_tokens(sequence: Sequenced, parts: PartSpec) -> list[int]:
    """Return the generated tokens that are named one by one; none if the parts are named in another way.

    Args:
        sequence: The prompt with its completion.
        parts: How the caller divides the answer.
    """
    first = sequence.prompt_tokens
    count = len(sequence.offsets) - first
    if parts == "token":
        return list(range(first, first + count))
    indices = [parts] if type(parts) is int else parts
    if not isinstance(indices, list) or any(type(index) is not int for index in indices):
        return []
    for index in indices:
        if not -count <= index < count:
            raise InputError(f"no generated token {index}; there are {count}")
    return [first + index % count for index in indices]  # a negative index counts from the end


def _span_in_answer(sequence: Sequenced, span: Any) -> Span:
    """Return a span of characters of the completion as one of the whole text.

    Args:
        sequence: The prompt with its completion.
        span: What the caller gave: the first character in the completion, and one past the last.
    """
    if not isinstance(span, tuple) or not _is_pair(span):
        raise InputError(
            "parts of an answer are 'token', 'word', 'sentence', 'paragraph' or 'all', the index of a token, a list of "
            f"indices, a span (start, end) of characters, or several by name, not {span!r}"
        )
    start, end = span
    length = len(sequence.text) - sequence.prompt_characters
    if not 0 <= start < end <= length:
        raise InputError(f"{span} is not a span of the completion, which has {length} characters")
    return moved(span, sequence.prompt_characters)


def _answer_parts_of_kind(sequence: Sequenced, kind: SourceKind) -> Groups:
    """Return the words, sentences or paragraphs of an answer; none of them reaches over an end of its reasoning."""
    completion_start = sequence.prompt_characters
    start, end = completion_start, len(sequence.text)
    parts: Groups = []
    for spans in sequence.reasoning:
        thought, marked_thought = (moved(span, completion_start) for span in spans)
        parts += _spans_of_kind(sequence, kind, start, marked_thought[0])
        parts += _thoughts(sequence, kind, thought, marked_thought)
        start = marked_thought[1]
    parts += _spans_of_kind(sequence, kind, start, end)
    # An answer without a sentence, such as an emoji, is one part.
    return parts or _spans_of_kind(sequence, "paragraph", start, end)


def _thoughts(sequence: Sequenced, kind: SourceKind, thought: Span, marked_thought: Span) -> Groups:
    """Return the parts of one reasoning; the marks around it belong to its first and its last part.

    Args:
        sequence: The prompt with its completion.
        kind: What the reasoning is divided into.
        thought: Its span, in characters of the whole text.
        marked_thought: The same with the marks around it.
    """
    thoughts = _spans_of_kind(sequence, kind, *thought)
    marked_start, marked_end = marked_thought
    edges = [marked_start, *(part.start for part in thoughts[1:]), marked_end]
    return [
        part._replace(start=start, end=end, tokens=sequence.tokens_in(start, end, of_answer=True))
        for part, (start, end) in zip(thoughts, pairwise(edges), strict=False)  # also of reasoning without parts
    ]


def _spans_of_kind(sequence: Sequenced, kind: SourceKind, start: int, end: int) -> Groups:
    """Return the spans of a kind between two characters that have tokens, named by their texts.

    Args:
        sequence: The prompt with its completion.
        kind: What the text between the characters is divided into; as a "message" it is one span.
        start: The first character, in the whole text.
        end: One past the last.
    """
    of_answer = start >= sequence.prompt_characters
    if kind == "message":
        spans = [(start, end)]
    elif kind == "word":
        tokens = [(token, *sequence.offsets[token]) for token in sequence.tokens_in(start, end, of_answer=of_answer)]
        boundary = start if of_answer else end  # no word reaches over the beginning of the answer
        words = word_groups(sequence.text, tokens, boundary, sequence.words)
        spans = [(word.start, word.end) for word in words]
    else:
        divide = sentence_spans if kind == "sentence" else paragraph_spans
        spans = sequence.divided(divide, start, end)
    named = [
        NamedSpan(sequence.text[first:last], first, last, sequence.tokens_in(first, last, of_answer=of_answer))
        for first, last in spans
    ]
    return [span for span in named if span.tokens]
