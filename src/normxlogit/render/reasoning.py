"""The ways from an answer through its reasoning to the prompt: which parts rest on which thoughts and sources."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..results.attribution import Attribution
from ..results.units.media import overlap
from ..results.verification import LEAST_LOSS, likelihood_text
from ..text.characters import moved
from .blocks import Blocks, Box, Piece, Ways
from .cutting import places_of_parts

MOST_WAYS = 3
"""Most ways that are drawn from a part of the answer."""

LEAST_SHARE = 0.1
"""The least share of a way that is drawn."""


def ways_of(s: Attribution, shares: Sequence[Sequence[float | None]]) -> Blocks:
    """Return the ways from an answer through its reasoning to the prompt, in three columns; none without reasoning.

    Args:
        s: The answer, with its parts as targets and with its sources and earlier parts as units.
        shares: (K, S + P), the shares of sources and earlier parts in each part; None for parts that it cannot read.
    """
    has_reasoning = any(start < end for start, end in s.reasoning)  # a model that answers at once has an empty one
    if not has_reasoning or not s.has_target_axis or not s.earlier_parts:
        return []
    parts = _parts_of(s)
    labels = _labels(s, parts)
    reached: set[int] = set()  # the sources and earlier parts that some way leads to
    answer: list[Box] = []
    reasoning: list[Box] = []
    for part, shares_of_part in zip(parts, shares, strict=True):
        ways = _strongest(shares_of_part)
        reached.update(way.unit for way in ways)
        column = reasoning if part.is_thought else answer
        column.append(_box(part, ways, labels))
    sources = sorted(reached & {*range(len(s.units.sources))})
    source_boxes = [Box(labels[source], _source_piece(s, source)) for source in sources]
    return [Ways({"Answer": answer, "Reasoning": reasoning, "What it rests on": source_boxes})]


class _Part(NamedTuple):
    """A part of the answer."""

    number: int  # its place among the targets
    name: str
    is_thought: bool  # whether it is of the reasoning
    unit: int | None  # its place among sources and earlier parts; None if no later part can rest on it
    loss: float | None  # the drop of the answer's log-probability without it, in nats; None if not measured


class _Way(NamedTuple):
    """What a part of the answer rests on."""

    unit: int  # the place among sources and earlier parts
    share: float


def _parts_of(s: Attribution) -> list[_Part]:
    """Return the parts of an answer in the order of its targets."""
    unit_of_span = places_of_parts(s)
    thoughts = [moved(thought, len(s.prompt or "")) for thought in s.reasoning]  # in characters of the whole text
    parts = []
    for number, (target, span) in enumerate(zip(s.targets, s.target_spans, strict=True)):
        is_thought = any(overlap(span, thought) for thought in thoughts)
        loss = None
        if s.verified and span in unit_of_span:  # only what is a unit can have been left out
            loss = s.verified.loss(s.earlier_parts[span])
        parts.append(_Part(number, target.name, is_thought, unit=unit_of_span.get(span), loss=loss))
    return parts


def _labels(s: Attribution, parts: Sequence[_Part]) -> dict[int, str]:
    """Return the labels of sources (S), thoughts (R) and parts of the answer (A), each kind of unit counted from 1."""
    first_part = len(s.units.sources)
    labels = {source: f"S{source + 1}" for source in range(first_part)}
    for part in parts:
        if part.unit is not None:
            letter = "R" if part.is_thought else "A"
            labels[part.unit] = f"{letter}{part.unit - first_part + 1}"
    return labels


def _strongest(shares: Sequence[float | None]) -> list[_Way]:
    """Return the ways of one part that are drawn, the largest share first."""
    ways = [_Way(unit, share) for unit, share in enumerate(shares) if share is not None and share >= LEAST_SHARE]
    ways.sort(key=lambda way: (way.share, way.unit), reverse=True)  # of equal ones the later unit first
    return ways[:MOST_WAYS]


def _box(part: _Part, ways: Sequence[_Way], labels: Mapping[int, str]) -> Box:
    """Return the box of a part, with its ways to others, by the labels of these.

    Args:
        part: The part of the answer.
        ways: What it rests on.
        labels: The label of each source and earlier part, by its place among these.
    """
    label = f"A{part.number + 1}" if part.unit is None else labels[part.unit]
    note = "" if part.loss is None else f"the answer is {likelihood_text(-part.loss)} without it"
    return Box(label, _piece(part), note, [(labels[way.unit], way.share) for way in ways])


def _piece(part: _Part) -> Piece:
    """Return the text of a part, in grey if the answer loses nothing without it."""
    changes_nothing = part.loss is not None and part.loss < LEAST_LOSS
    return Piece(part.name, kind="grey" if changes_nothing else "strong", part=part.number, source=part.unit)


def _source_piece(s: Attribution, source: int) -> Piece:
    """Return the text of a source, or its name where it has no text."""
    unit = s.units.sources[source]
    return Piece(s.units.text[unit] or s.units.names[unit], kind="strong", source=source)
