"""Coarser units and targets: spans of texts and regions of pictures, and the sums of the scores in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
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

    def between_special_tokens(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the spans of characters between special tokens, such as those of a chat that was written as a text."""
        edges = [edge for span in self._special_spans if start <= span[0] < span[1] <= end for edge in span]
        return list(zip([start, *edges[1::2]], [*edges[::2], end], strict=True))

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
    """
    if isinstance(sources, str):
        kinds, prompt = get_args(SourceKind), (MessageSpan("prompt", 0, sequence.prompt_characters),)
        if sources not in kinds:
            raise InputError(f"sources are {', '.join(map(repr, kinds))} or named spans, not {sources!r}")
        messages = prompt if sequence.messages is None else sequence.messages
        return [
            group._replace(name=message.role if sources == "message" else group.name, kind=sources)
            for message in messages
            for group in _groups_between(sequence, sources, message.start, message.end, of_answer=False)
            if sequence.text[group.start : group.end].strip()
        ]
    if not isinstance(sources, Mapping) or not sources:
        raise InputError('sources are named spans of characters, such as {"first": (0, 20)}')
    named_spans = [_named(sequence, str(name), span) for name, span in sources.items() if not is_region(span)]
    order = sorted(named_spans, key=lambda group: group.start)
    for source, following in pairwise(order):
        if following.start < source.end:
            raise InputError(f"the sources {source.name!r} and {following.name!r} overlap")
    return named_spans


def answer_parts(sequence: Sequenced, parts: PartSpec) -> list[NamedSpan]:
    """Return the parts of an answer, see `Attribution.group_targets`."""
    first, shift = sequence.prompt_tokens, sequence.prompt_characters
    count, length = len(sequence.offsets) - first, len(sequence.text) - shift
    if parts is None or parts == "all":
        return [NamedSpan(sequence.text[shift:], shift, shift + length, tuple(range(first, first + count)))]
    if parts == "token":
        parts = list(range(count))
    elif type(parts) is int:
        parts = [parts]
    if isinstance(parts, list) and parts and all(type(i) is int for i in parts):
        if outside := [i for i in parts if not -count <= i < count]:
            raise InputError(f"no generated token {outside[0]}; there are {count}")
        spans = [(first + i % count, sequence.offsets[first + i % count]) for i in parts]
        return [NamedSpan(sequence.text[start:end], start, end, (token,)) for token, (start, end) in spans]
    kind: SourceKind = "message"
    if parts in ("word", "sentence", "paragraph"):
        kind, start, end = parts, 0, length
    elif isinstance(parts, tuple) and len(parts) == 2 and all(isinstance(i, int) for i in parts):
        start, end = parts
        if not 0 <= start < end <= length:
            raise InputError(f"{parts} is not a span of the completion, which has {length} characters")
    else:
        raise InputError(
            "parts of an answer are 'token', 'word', 'sentence', 'paragraph' or 'all', the index of a token, a list of "
            f"indices, or a span (start, end) of characters, not {parts!r}"
        )
    between = partial(_groups_between, sequence, kind, of_answer=True)
    groups: list[NamedSpan] = []
    for thought, marked in sequence.reasoning if kind != "message" else ():
        groups += between(shift + start, shift + marked[0])
        thoughts = between(shift + thought[0], shift + thought[1])
        edges = [shift + marked[0], *(group.start for group in thoughts[1:]), shift + marked[1]]
        for group, (first, last) in zip(thoughts, pairwise(edges), strict=False):  # the marks belong to them
            groups.append(group._replace(start=first, end=last, tokens=sequence.tokens_in(first, last, of_answer=True)))
        start = marked[1]
    groups += between(shift + start, shift + end)
    # An answer without a sentence, such as an emoji, is one part.
    groups = groups or _groups_between(sequence, "paragraph", shift + start, shift + end, of_answer=True)
    if not groups:
        raise InputError("no token of the answer begins there")
    return groups


def _groups_between(sequence: Sequenced, kind: str, start: int, end: int, *, of_answer: bool) -> list[NamedSpan]:
    """Return the spans of a kind between two characters that have tokens, named by their texts."""
    if kind == "message":
        spans = [(start, end)]
    elif kind == "word":
        tokens = [(i, *sequence.offsets[i]) for i in sequence.tokens_in(start, end, of_answer=of_answer)]
        spans = [(a, b) for a, b, _ in word_groups(sequence.text, tokens, start if of_answer else end, sequence.words)]
    else:
        cut, between = sentence_spans if kind == "sentence" else paragraph_spans, sequence.between_special_tokens
        spans = [(at + a, at + b) for at, last in between(start, end) for a, b in cut(sequence.text[at:last])]
    groups = [NamedSpan(sequence.text[a:b], a, b, sequence.tokens_in(a, b, of_answer=of_answer)) for a, b in spans]
    return [group for group in groups if group.tokens]


def _named(sequence: Sequenced, name: str, span: tuple[int, ...]) -> NamedSpan:
    """Return a source that the caller named by its characters, with its tokens."""
    if not isinstance(span, Sequence) or len(span) != 2 or not all(isinstance(i, int) for i in span):
        raise InputError(f"source {name!r}: a span is (start, end), counted in characters, not {span!r}")
    (start, end), size = span, sequence.prompt_characters
    if not 0 <= start < end <= size:
        raise InputError(f"source {name!r}: {start} to {end} is not a span of the prompt, which has {size} characters")
    tokens = sequence.tokens_in(start, end, of_answer=False)
    if not tokens:
        raise InputError(f"source {name!r}: no token begins between the characters {start} and {end}")
    return NamedSpan(name, start, end, tokens)


def grouped(a: "Attribution", by: SourceSpec, merge: Merge = "sum") -> "Attribution":
    """Return a result with coarser units, see `Attribution.group`; words may have scores other than sums."""
    coarser = [kind for kind in a.units.kind if kind in ("sentence", "paragraph", "message", "span")]
    if by == "word" and coarser:
        raise InputError(f"the units are already {coarser[0]}s, which words would divide; group the tokens")
    groups = groups_of(a, by)
    if not groups:
        raise DataError("; ".join(["the prompt holds no source", *a.notes]))
    check_coarser(a, groups)
    start = a.text_units if a.prompt_tokens is None else a.prompt_tokens
    ungrouped = _not_in(groups, range(start))
    whole = "prompt" if a.completion is not None else "text" if a.has_text else "input"
    groups.append(NamedSpan(f"the rest of the {whole}", 0, 0, ungrouped, "rest", None))
    if a.completion is not None:
        groups += _earlier_words(a, range(start, a.text_units))
    scores = np.stack([_merged(a.scores, group, merge) for group in groups], -1)  # (..., groups)
    units = units_of(groups, [a.text or "", a.text_pair or ""])
    sinks = tuple(k for k, group in enumerate(groups) if not set(a.sinks).isdisjoint(group.tokens))
    changes: dict[str, Any] = {"sinks": sinks}
    if merge != "sum":  # bias and sink add up with sums only
        changes = {"bias": None, "sink": None, "sinks": ()}
    targets = tuple(target._replace(position=None) for target in a.targets)
    return replace(a, scores=scores.astype(np.float32), units=units, targets=targets, **a._without_units(), **changes)


def _earlier_words(a: "Attribution", units: Sequence[int]) -> list[NamedSpan]:
    """Return the units of the answer's own tokens: of each explained part of it one, and of all other tokens one."""
    name, spans, groups, left = "the answer's earlier words", a.units.spans or (), [], tuple(units)
    for start, end in dict.fromkeys(t.span for t in a.targets if t.kind == "part" and t.span and spans):
        tokens = tuple(unit for unit in left if start < spans[unit][1] <= end)  # it may begin with a space
        groups.append(NamedSpan(name, start, end, tokens, "answer", 0))
        left = _not_in(groups, left)  # two tokens of one character are both in its first part
    return [*groups, *([NamedSpan(name, 0, 0, left, "answer", None)] if left or not groups else [])]


def _not_in(groups: Sequence[NamedSpan], units: Sequence[int]) -> tuple[int, ...]:
    grouped_units = {unit for group in groups for unit in group.tokens}
    return tuple(unit for unit in units if unit not in grouped_units)


def earlier_parts(a: "Attribution") -> dict[tuple[int, int], int]:
    """Return the parts of an answer that are units: the unit of each span."""
    columns = zip(a.units.kind, a.units.sequence, a.units.spans or (), strict=False)
    return {
        span: unit
        for unit, (kind, sequence, span) in enumerate(columns)
        if kind == "answer" and sequence is not None and span
    }


def grouped_targets(a: "Attribution", parts: PartSpec) -> "Attribution":
    """Return a result with coarser targets; see `Attribution.group_targets`."""
    if a.completion is None or not a.has_target_axis:
        raise DataError("parts of an answer are those of generated tokens, and this result explains none")
    if a.text is None or all(target.span is None for target in a.targets):
        raise DataError("parts of an answer need the text and the character offsets of its tokens")
    end = len(a.text)
    spans = [target.span or (end, end) for target in a.targets]
    special = [target.span is None for target in a.targets]
    reasoning = list(zip(a.reasoning, a.marked_reasoning, strict=True))
    groups = answer_parts(Sequenced(a.text, spans, special, 0, end - len(a.completion), None, None, reasoning), parts)
    rows = [list(group.tokens) for group in groups]
    named = [p if p.name else p._replace(name=a.targets[p.tokens[0]].name) for p in groups]
    changes: dict[str, Any] = {"predictions": (), "generated": (), "diagnostics": {}, "verified": None}
    changes["targets"] = part_targets(named)
    return a._transformed(lambda values: np.array([values[k].sum(0, dtype=np.float64) for k in rows]), **changes)


def check_coarser(a: "Attribution", groups: Sequence[NamedSpan]) -> None:
    """Refuse units that are not tokens, which cannot be divided."""
    spans = a.units.spans or ()
    of_text = min(a.text_units, len(spans))
    for group in groups:
        for unit in group.tokens:
            if (kind := a.units.kind[unit]) != "token" and unit < of_text and spans[unit][1] > group.end:
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
    """Return one of the texts of a result as characters and tokens."""
    text = (a.text, a.text_pair)[sequence]
    if a.offsets is None or text is None:
        raise DataError("sources need the text and the character offsets of its tokens")
    in_other = [text_index not in (None, sequence) for text_index in a.units.sequence]
    offsets = [(0, 0) if other else span for span, other in zip(a.offsets, in_other, strict=False)]
    masked = [special or other for special, other in zip(a.special_tokens_mask, in_other, strict=False)]
    tokens, characters = a.text_units, len(text)
    if a.prompt_tokens is not None:
        tokens, characters = a.prompt_tokens, characters - len(a.completion or "")
    return Sequenced(text, offsets, masked, tokens, characters, None if sequence else a.messages, a.units.words)


def groups_of(a: "Attribution", by: SourceSpec) -> list[NamedSpan]:
    """Return the groups of the units of a result: spans of its texts, then its pictures and sounds or their regions."""
    groups: list[NamedSpan] = []
    if not a.media or (by and (a.units.spans is not None or a.has_text)):
        groups = prompt_sources(sequenced(a), by)
        if a.text_pair is not None and isinstance(by, str):
            groups += [group._replace(sequence=1) for group in prompt_sources(sequenced(a, 1), by)]
    left = [np.ones(medium.shape) for medium in a.media]  # the share of each part that is in no region yet
    for index, name, kind, boxes in media_places(a.media, by, has_text=bool(a.text)):
        medium = a.media[index]
        spans = [a.units.spans[token] for token in medium.tokens] if a.units.spans else []
        span = min((s for s, _ in spans), default=0), max((e for _, e in spans), default=0)
        shares = medium.share_inside(boxes[0]) if kind == "region" else left[index]
        left[index] = left[index] - shares
        parts = np.flatnonzero(shares)
        tokens, weights = tuple((medium.first + parts).tolist()), tuple(shares.ravel()[parts].tolist())
        groups.append(NamedSpan(name, *span, tokens, kind, None, weights))
    return groups


def _merged(scores: FloatArray, group: NamedSpan, merge: Merge) -> Any:
    """Return the scores of a group, (...)."""
    values = scores[..., list(group.tokens)].astype(np.float64)  # (..., n)
    if merge == "sum" or group.kind in APART:
        return values @ np.array(group.weights or [1.0] * len(group.tokens))
    return merge_scores(values, merge)
