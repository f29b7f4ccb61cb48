"""Coarser units and targets: spans of texts and regions of pictures, and the sums of the scores in them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter, or_
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, InputError
from ...text.boundaries import paragraph_spans, sentence_spans
from ...text.characters import trimmed
from ..storage.schema import FloatArray, Index
from ..targets import Target
from .kinds import Merge, PartKind, SourceKind
from .media import is_region, media_places
from .units import APART, UnitKind, Units, merge_scores, word_groups

if TYPE_CHECKING:
    from ..attribution import Attribution

SourceSpec = SourceKind | Mapping[str, tuple[int, ...]]
"""How a prompt is divided into sources: by a kind of span, or named spans of characters and regions of media."""

PartSpec = int | list[int] | tuple[int, int] | PartKind | None
"""Parts of an answer: one or several token indices, a span of characters, each span of a kind, or all of it."""


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
    tokens: tuple[int, ...]  # or the finer units that it is made of
    kind: UnitKind = "span"
    sequence: int | None = 0  # which of two texts it is of, None for pictures and sounds
    weights: tuple[float, ...] = ()
    places: tuple[tuple[int, tuple[float, ...]], ...] = ()


@dataclass(frozen=True)
class Sequenced:
    """A prompt with its completion, as characters and as tokens; other fields as in `Units` and `Attribution`.

    Attributes:
        reasoning: Spans of the completion's reasoning, in its characters, each with its span with the marks around it.
    """

    text: str
    offsets: Sequence[tuple[int, int]]
    special: Sequence[bool]
    prompt_tokens: int
    prompt_characters: int
    messages: tuple[MessageSpan, ...] | None
    words: Sequence[tuple[int, int]] | None = None
    reasoning: Sequence[tuple[tuple[int, int], tuple[int, int]]] = ()

    def tokens_in(self, start: int, end: int, *, of_answer: bool) -> tuple[int, ...]:
        """Return the tokens that begin in a span, leading white space ignored; special tokens are left out."""
        first, last = (self.prompt_tokens, len(self.offsets)) if of_answer else (0, self.prompt_tokens)
        begins = self._begins[first:last]
        return tuple((np.flatnonzero((start <= begins) & (begins < end)) + first).tolist())

    def divided(self, divide: Callable[[str], list[tuple[int, int]]], start: int, end: int) -> list[tuple[int, int]]:
        """Return spans between two characters: those of the texts between special tokens, which part a written chat.

        Args:
            divide: What divides a text, such as into sentences.
            start: The first character.
            end: One past the last.
        """
        special_spans = [span for span in self._special_spans if start <= span[0] < span[1] <= end]
        spans = []
        for before, after in pairwise([(start, start), *special_spans, (end, end)]):
            shift = before[1]
            spans += [(shift + first, shift + last) for first, last in divide(self.text[shift : after[0]])]
        return spans

    @cached_property
    def _special_spans(self) -> list[tuple[int, int]]:
        """The spans of special tokens that are written in the text, such as "</s>"; not those of unknown words."""
        pairs = zip(self.offsets, self.special, strict=False)  # pictures have no offsets
        spans = [span for span, special in pairs if special and span[1] - span[0] > 2]
        return [(a, b) for a, b in spans if not (self.text[a].isalnum() or self.text[b - 1].isalnum())]

    @cached_property
    def _begins(self) -> NDArray[np.int64]:
        """The first character of each token that is not white space, shape (T,); -1 for special tokens."""
        spans = zip(self.offsets, self.special, strict=False)
        return np.array([-1 if special else trimmed(self.text, *span)[0] for span, special in spans], int)


def prompt_sources(sequence: Sequenced, sources: SourceSpec) -> list[NamedSpan]:
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


def _sources_of_kind(sequence: Sequenced, kind: SourceKind) -> list[NamedSpan]:
    """Return the words, sentences, paragraphs or messages of a prompt."""
    kinds = get_args(SourceKind)
    if kind not in kinds:
        raise InputError(f"sources are {', '.join(map(repr, kinds))} or named spans, not {kind!r}")
    messages = sequence.messages
    if messages is None:
        messages = (MessageSpan("prompt", 0, sequence.prompt_characters),)
    sources = []
    for message in messages:
        spans = _spans_of_kind(sequence, kind, message.start, message.end)
        spans = [span._replace(kind=kind) for span in spans if sequence.text[span.start : span.end].strip()]
        sources += [span._replace(name=message.role) for span in spans] if kind == "message" else spans
    return sources


def _named_source(sequence: Sequenced, name: str, span: tuple[int, ...]) -> NamedSpan:
    """Return a source that the caller named by its characters, with its tokens."""
    if not isinstance(span, Sequence) or not _is_pair(span):
        raise InputError(f"source {name!r}: a span is (start, end), counted in characters, not {span!r}")
    (start, end), size = span, sequence.prompt_characters
    if not 0 <= start < end <= size:
        raise InputError(f"source {name!r}: {start} to {end} is not a span of the prompt, which has {size} characters")
    tokens = sequence.tokens_in(start, end, of_answer=False)
    if not tokens:
        raise InputError(f"source {name!r}: no token begins between the characters {start} and {end}")
    return NamedSpan(name, start, end, tokens)


def _is_pair(numbers: Sequence[Any]) -> bool:
    return len(numbers) == 2 and all(isinstance(number, int) for number in numbers)


def answer_parts(sequence: Sequenced, parts: PartSpec) -> list[NamedSpan]:
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
    if named_tokens := _named_tokens(sequence, parts):
        spans = [(*sequence.offsets[token], (token,)) for token in named_tokens]
        return [NamedSpan(sequence.text[first:last], first, last, token) for first, last, token in spans]
    if parts in ("word", "sentence", "paragraph"):
        part_spans = _answer_parts_of_kind(sequence, parts)
    else:
        part_spans = _spans_of_kind(sequence, "message", *_span_in_answer(sequence, parts))
    if not part_spans:
        raise InputError("no token of the answer begins there")
    return part_spans


def _named_tokens(sequence: Sequenced, parts: PartSpec) -> list[int]:
    """Return the generated tokens that are named one by one; none if the parts are named in another way."""
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
    return [first + index % count for index in indices]


def _span_in_answer(sequence: Sequenced, span: Any) -> tuple[int, int]:
    """Return a span of characters of the completion as one of the whole text."""
    if not isinstance(span, tuple) or not _is_pair(span):
        raise InputError(
            "parts of an answer are 'token', 'word', 'sentence', 'paragraph' or 'all', the index of a token, a list of "
            f"indices, or a span (start, end) of characters, not {span!r}"
        )
    (start, end), shift = span, sequence.prompt_characters
    length = len(sequence.text) - shift
    if not 0 <= start < end <= length:
        raise InputError(f"{span} is not a span of the completion, which has {length} characters")
    return shift + start, shift + end


def _answer_parts_of_kind(sequence: Sequenced, kind: SourceKind) -> list[NamedSpan]:
    """Return the words, sentences or paragraphs of an answer; none of them reaches over an end of its reasoning."""
    start, end = sequence.prompt_characters, len(sequence.text)
    parts: list[NamedSpan] = []
    for thought, marked_thought in sequence.reasoning:
        first, last = (sequence.prompt_characters + edge for edge in marked_thought)
        parts += _spans_of_kind(sequence, kind, start, first)
        parts += _thoughts(sequence, kind, thought, (first, last))
        start = last
    parts += _spans_of_kind(sequence, kind, start, end)
    # An answer without a sentence, such as an emoji, is one part.
    return parts or _spans_of_kind(sequence, "paragraph", start, end)


def _thoughts(
    sequence: Sequenced, kind: SourceKind, thought: tuple[int, int], marked: tuple[int, int]
) -> list[NamedSpan]:
    """Return the parts of one reasoning; the marks around it belong to its first and its last part."""
    shift = sequence.prompt_characters
    thoughts = _spans_of_kind(sequence, kind, shift + thought[0], shift + thought[1])
    edges = [marked[0], *(part.start for part in thoughts[1:]), marked[1]]
    return [
        part._replace(start=start, end=end, tokens=sequence.tokens_in(start, end, of_answer=True))
        for part, (start, end) in zip(thoughts, pairwise(edges), strict=False)
    ]


def _spans_of_kind(sequence: Sequenced, kind: SourceKind, start: int, end: int) -> list[NamedSpan]:
    """Return the spans of a kind between two characters that have tokens, named by their texts."""
    of_answer = start >= sequence.prompt_characters
    if kind == "message":
        spans = [(start, end)]
    elif kind == "word":
        tokens = [(token, *sequence.offsets[token]) for token in sequence.tokens_in(start, end, of_answer=of_answer)]
        words = word_groups(sequence.text, tokens, start if of_answer else end, sequence.words)
        spans = [(first, last) for first, last, _ in words]
    else:
        divide = sentence_spans if kind == "sentence" else paragraph_spans
        spans = sequence.divided(divide, start, end)
    named = [
        NamedSpan(sequence.text[first:last], first, last, sequence.tokens_in(first, last, of_answer=of_answer))
        for first, last in spans
    ]
    return [span for span in named if span.tokens]


def grouped(a: "Attribution", by: SourceSpec, merge: Merge = "sum") -> "Attribution":
    """Return a result with coarser units, see `Attribution.group`; words may have scores other than sums.

    Args:
        a: The result.
        by: The coarser units.
        merge: How the score of a word comes from those of its tokens.

    Raises:
        DataError: If tokens could not be found in the text, or it has no such unit.
        InputError: If there is no such kind or span, or a unit of the result would be divided.
    """
    coarser = [kind for kind in a.units.kind if kind in ("sentence", "paragraph", "message", "span")]
    if by == "word" and coarser:
        raise InputError(f"the units are already {coarser[0]}s, which words would divide; group the tokens")
    groups = groups_of(a, by)
    if not groups:
        raise DataError("; ".join(["the prompt holds no source", *a.notes]))
    check_coarser(a, groups)
    groups += _units_left(a, groups)
    sums: dict[str, Any] = {"bias": None, "sink": None, "sinks": ()}
    if merge == "sum":  # bias and sink add up with sums only
        sums = {"sinks": tuple(i for i, group in enumerate(groups) if not set(a.sinks).isdisjoint(group.tokens))}
    return replace(
        a,
        scores=np.stack([_merged(a.scores, group, merge) for group in groups], -1).astype(np.float32),  # (..., groups)
        units=units_of(groups, [a.text or "", a.text_pair or ""]),
        targets=tuple(target._replace(position=None) for target in a.targets),
        **a._without_units(),
        **sums,
    )


def _units_left(a: "Attribution", groups: Sequence[NamedSpan]) -> list[NamedSpan]:
    """Return what no group holds, as further groups: the rest of the prompt, and the answer's own tokens."""
    grouped_units = {unit for group in groups for unit in group.tokens}
    rest = tuple(unit for unit in range(a.answer_units.start) if unit not in grouped_units)
    if a.completion is not None:
        return [NamedSpan("the rest of the prompt", 0, 0, rest, "rest", None), *_earlier_words(a)]
    return [NamedSpan(f"the rest of the {'text' if a.has_text else 'input'}", 0, 0, rest, "rest", None)]


def _earlier_words(a: "Attribution") -> list[NamedSpan]:
    """Return the answer's own tokens as groups: those of each explained part of it, then all others."""
    name, spans = "the answer's earlier words", a.units.spans or ()
    groups, left = [], list(a.answer_units)
    parts = [target.span for target in a.targets if target.kind == "part" and target.span and spans]
    for start, end in dict.fromkeys(parts):
        tokens = tuple(unit for unit in left if start < spans[unit][1] <= end)  # it may begin with a space
        left = [unit for unit in left if unit not in tokens]  # two tokens of one character are both in its first part
        groups.append(NamedSpan(name, start, end, tokens, "answer"))
    if left or not groups:
        groups.append(NamedSpan(name, 0, 0, tuple(left), "answer", None))
    return groups


def grouped_targets(a: "Attribution", parts: PartSpec) -> "Attribution":
    """Return a result with coarser targets; see `Attribution.group_targets`."""
    if a.completion is None or not a.has_target_axis:
        raise DataError("parts of an answer are those of generated tokens, and this result explains none")
    if a.text is None or all(target.span is None for target in a.targets):
        raise DataError("parts of an answer need the text and the character offsets of its tokens")
    part_spans = answer_parts(_sequenced_targets(a, a.text), parts)
    named = [part if part.name else part._replace(name=a.targets[part.tokens[0]].name) for part in part_spans]
    return a._transformed(
        lambda values: np.array([values[list(part.tokens)].sum(0, dtype=np.float64) for part in part_spans]),
        targets=part_targets(named),
        predictions=(),
        generated=(),
        diagnostics={},
        verified=None,
    )


def _sequenced_targets(a: "Attribution", text: str) -> Sequenced:
    """Return an answer as characters and as its explained tokens, which are counted from the first one."""
    return Sequenced(
        text,
        offsets=[target.span or (len(text), len(text)) for target in a.targets],
        special=[target.span is None for target in a.targets],
        prompt_tokens=0,
        prompt_characters=len(a.prompt or ""),
        messages=None,
        reasoning=list(zip(a.reasoning, a.marked_reasoning, strict=True)),
    )


def check_coarser(a: "Attribution", groups: Sequence[NamedSpan]) -> None:
    """Refuse groups that would divide a unit, as a word would divide a sentence; a token belongs to one group whole.

    Args:
        a: The result with the units.
        groups: Coarser units.

    Raises:
        InputError: If a unit that is not a token ends behind its group.
    """
    text_spans = (a.units.spans or ())[: a.text_units]
    for group in groups:
        for unit in group.tokens:
            kind = a.units.kind[unit]
            is_divided = unit < len(text_spans) and text_spans[unit][1] > group.end
            if is_divided and kind != "token":
                raise InputError(f"the units are already {kind}s, which {group.kind}s would divide; group the tokens")


def units_of(groups: Sequence[NamedSpan], texts: Sequence[str]) -> Units:
    """Return named spans of texts, pictures and sounds as units."""
    return Units(
        kind=tuple(group.kind for group in groups),
        text=tuple("" if p.sequence is None else texts[p.sequence][p.start : p.end] for p in groups),
        special=tuple(group.kind in APART for group in groups),
        sequence=tuple(group.sequence for group in groups),
        spans=tuple((group.start, group.end) for group in groups),
        name=tuple("" if group.kind in ("word", "sentence", "paragraph") else group.name for group in groups),
    )


def part_targets(groups: Sequence[NamedSpan]) -> tuple[Target, ...]:
    """Return parts of an answer as targets."""
    return tuple(Target("part", group.name, span=(group.start, group.end)) for group in groups)


def sequenced(a: "Attribution", sequence: int = 0) -> Sequenced:
    """Return one of the texts of a result as characters and tokens.

    Args:
        a: The result.
        sequence: Which of two texts, 0 or 1.

    Raises:
        DataError: If the text is not known, or its tokens could not be found in it.
    """
    text = (a.text, a.text_pair)[sequence]
    if a.offsets is None or text is None:
        raise DataError("sources need the text and the character offsets of its tokens")
    in_other = [text_index not in (None, sequence) for text_index in a.units.sequence]
    return Sequenced(
        text,
        offsets=[(0, 0) if is_other else span for span, is_other in zip(a.offsets, in_other, strict=False)],
        special=list(map(or_, a.special_tokens_mask, in_other)),
        prompt_tokens=a.answer_units.start,
        prompt_characters=len(text if a.prompt_tokens is None else a.prompt or ""),
        messages=None if sequence else a.messages,
        words=a.units.words,
    )


def groups_of(a: "Attribution", by: SourceSpec) -> list[NamedSpan]:
    """Return the groups of the units of a result: spans of its texts, then its pictures and sounds or their regions.

    Args:
        a: The result.
        by: The coarser units, as in `Attribution.group`.

    Raises:
        DataError: If tokens could not be found in the text.
        InputError: If there is no such kind, span or region.
    """
    groups: list[NamedSpan] = []
    if not a.media or (by and (a.units.spans is not None or a.has_text)):
        groups = prompt_sources(sequenced(a), by)
        if a.text_pair is not None and isinstance(by, str):
            groups += [group._replace(sequence=1) for group in prompt_sources(sequenced(a, 1), by)]
    return groups + _media_groups(a, by)


def _media_groups(a: "Attribution", by: SourceSpec) -> list[NamedSpan]:
    """Return the pictures and sounds of a result as groups, or regions of them and what these leave."""
    groups = []
    left = [np.ones(medium.shape) for medium in a.media]  # the share of each part that is in no region yet
    for place in media_places(a.media, by, has_text=bool(a.text)):
        medium = a.media[place.medium]
        shares = medium.share_inside(place.places[0]) if place.kind == "region" else left[place.medium]
        left[place.medium] = left[place.medium] - shares
        parts = np.flatnonzero(shares)
        tokens, weights = medium.first + parts, shares.ravel()[parts]
        edges = [edge for token in medium.tokens for edge in a.units.spans[token]] if a.units.spans else []
        start, end = min(edges, default=0), max(edges, default=0)
        groups.append(
            NamedSpan(place.name, start, end, tuple(tokens.tolist()), place.kind, None, tuple(weights.tolist()))
        )
    return groups


def _merged(scores: FloatArray, group: NamedSpan, merge: Merge) -> Any:
    """Return the scores of a group, (...)."""
    values = scores[..., list(group.tokens)].astype(np.float64)  # (..., n)
    if merge == "sum" or group.kind in APART:
        return values @ np.array(group.weights or [1.0] * len(group.tokens))
    return merge_scores(values, merge)
