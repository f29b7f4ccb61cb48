"""Results with coarser units and targets: the sums of the scores in spans of texts and in regions of pictures."""

from collections.abc import Sequence
from dataclasses import replace
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError, InputError
from ...text.characters import Span
from ..storage.schema import Fields, FloatArray, Indices
from ..targets import Target
from .kinds import Merge
from .media import Medium, media_places
from .spans import Groups, NamedSpan, PartSpec, Sequenced, SourceSpec, answer_parts, prompt_sources
from .units import APART, Units, merge_scores

if TYPE_CHECKING:
    from ..attribution import Attribution


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
    if by == "word":
        _check_finer_than_words(a)
    groups = groups_of(a, by)
    if not groups:
        raise DataError("; ".join(["the prompt holds no source", *a.notes]))  # notes may say why, such as a cut text
    check_coarser(a, groups)
    groups += _units_left(a, groups)
    if merge == "sum":
        constants: Fields = {"sinks": _groups_with(a.sinks, groups)}
    else:  # bias and sink add up with sums only
        constants = {"bias": None, "sink": None, "sinks": ()}
    return replace(
        a,
        scores=np.stack([_merged(a.scores, group, merge) for group in groups], -1).astype(np.float32),  # (..., groups)
        units=units_of(groups, [a.text or "", a.text_pair or ""]),
        targets=tuple(target._replace(position=None) for target in a.targets),  # it is an index of the finer units
        **a._without_units(),
        **constants,
    )


def _check_finer_than_words(a: "Attribution") -> None:
    """Refuse a result whose units are coarser than words."""
    coarser = [kind for kind in a.units.kind if kind in ("sentence", "paragraph", "message", "span")]
    if coarser:
        raise InputError(f"the units are already {coarser[0]}s, which words would divide; group the tokens")


def _groups_with(units: Sequence[int], groups: Groups) -> Indices:
    """Return the indices of the groups that hold one of some units."""
    return tuple(index for index, group in enumerate(groups) if not set(units).isdisjoint(group.tokens))


def _units_left(a: "Attribution", groups: Groups) -> Groups:
    """Return what no group holds, as further groups: the rest of the prompt, maybe empty, and the answer's tokens."""
    grouped_units = {unit for group in groups for unit in group.tokens}
    tokens = tuple(unit for unit in range(a.answer_units.start) if unit not in grouped_units)
    whole = "text" if a.has_text else "input"
    if a.completion is not None:
        whole = "prompt"
    rest = NamedSpan(f"the rest of the {whole}", 0, 0, tokens, kind="rest", sequence=None)
    return [rest] if a.completion is None else [rest, *_earlier_words(a)]


def _earlier_words(a: "Attribution") -> Groups:
    """Return the answer's own tokens as groups: those of each explained part of it, then all others."""
    name = "the answer's earlier words"
    groups: Groups = []
    left = list(a.answer_units)
    # Without spans it is not known which tokens are of which part.
    parts = [target.span for target in a.targets if target.kind == "part"] if a.units.spans else []
    for part in filter(None, dict.fromkeys(parts)):
        tokens = units_ending_in(a, part, left)
        left = [unit for unit in left if unit not in tokens]  # two tokens of one character are both in its first part
        groups.append(NamedSpan(name, *part, tuple(tokens), kind="answer"))
    if left or not groups:
        groups.append(NamedSpan(name, 0, 0, tuple(left), kind="answer", sequence=None))
    return groups


def units_ending_in(a: "Attribution", span: Span, units: Sequence[int]) -> list[int]:
    """Return which of some units end in a span of the text, as a token may begin with the space before it.

    Args:
        a: The result.
        span: The first character of the span, and one past its last.
        units: Indices of units.
    """
    spans, (start, end) = a.units.spans or (), span
    return [unit for unit in units if start < spans[unit][1] <= end]


def grouped_targets(a: "Attribution", parts: PartSpec) -> "Attribution":
    """Return a result with coarser targets; see `Attribution.group_targets`."""
    if a.completion is None or not a.has_target_axis:
        raise DataError("parts of an answer are those of generated tokens, and this result explains none")
    if a.text is None or all(target.span is None for target in a.targets):
        raise DataError("parts of an answer need the text and the character offsets of its tokens")
    part_spans = answer_parts(_sequenced_targets(a, a.text), parts)
    # A token without characters, such as the end of an answer, has the name of its target.
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
        # A token without characters is special, so that no span of the answer has it.
        offsets=[target.span or (len(text), len(text)) for target in a.targets],
        special=[target.span is None for target in a.targets],
        prompt_tokens=0,
        prompt_characters=len(a.prompt or ""),
        messages=None,
        reasoning=list(zip(a.reasoning, a.marked_reasoning, strict=True)),
    )


def check_coarser(a: "Attribution", groups: Groups) -> None:
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
            is_divided = unit < len(text_spans) and text_spans[unit][1] > group.end  # parts of media have no span
            if is_divided and kind != "token":
                raise InputError(f"the units are already {kind}s, which {group.kind}s would divide; group the tokens")


def units_of(groups: Groups, texts: Sequence[str]) -> Units:
    """Return named spans of texts, pictures and sounds as units.

    Args:
        groups: The spans, regions and media.
        texts: The text, and the second text of a pair: what `NamedSpan.sequence` counts.
    """
    return Units(
        kind=tuple(group.kind for group in groups),
        text=tuple(
            "" if group.sequence is None else texts[group.sequence][group.start : group.end] for group in groups
        ),
        special=tuple(group.kind in APART for group in groups),
        sequence=tuple(group.sequence for group in groups),
        spans=tuple((group.start, group.end) for group in groups),
        # The name of these kinds is their text.
        name=tuple("" if group.kind in ("word", "sentence", "paragraph") else group.name for group in groups),
    )


def part_targets(groups: Groups) -> tuple[Target, ...]:
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
    are_elsewhere = [text_index not in (None, sequence) for text_index in a.units.sequence]  # tokens of the other text
    return Sequenced(
        text,
        offsets=[  # those of the text alone: units of media come after them
            (0, 0) if is_elsewhere else span for span, is_elsewhere in zip(a.offsets, are_elsewhere, strict=False)
        ],
        special=list(map(or_, a.special_tokens_mask, are_elsewhere)),
        prompt_tokens=a.answer_units.start,
        prompt_characters=len(text if a.prompt_tokens is None else a.prompt or ""),
        messages=None if sequence else a.messages,
        words=a.units.words,
    )


def groups_of(a: "Attribution", by: SourceSpec) -> Groups:
    """Return the groups of the units of a result: spans of its texts, then its pictures and sounds or their regions.

    Args:
        a: The result.
        by: The coarser units, as in `Attribution.group`.

    Raises:
        DataError: If tokens could not be found in the text.
        InputError: If there is no such kind, span or region.
    """
    groups: Groups = []
    has_text_to_group = a.units.spans is not None or a.has_text
    if not a.media or (by and has_text_to_group):  # media alone are groups also where nothing is named
        groups = prompt_sources(sequenced(a), by)
        if a.text_pair is not None and isinstance(by, str):
            groups += [group._replace(sequence=1) for group in prompt_sources(sequenced(a, 1), by)]
    return groups + _media_groups(a, by)


def _media_groups(a: "Attribution", by: SourceSpec) -> Groups:
    """Return the pictures and sounds of a result as groups, or regions of them and what these leave.

    Args:
        a: The result.
        by: The coarser units, of which those are looked for that are regions.
    """
    groups = []
    left = [np.ones(medium.shape) for medium in a.media]  # the share of each part that is in no region yet
    for place in media_places(a.media, by, has_text=bool(a.text)):
        medium = a.media[place.medium]
        # A region comes before what regions leave of a medium, which of one without regions is all of it.
        shares = medium.share_inside(place.places[0]) if place.kind == "region" else left[place.medium]
        left[place.medium] = left[place.medium] - shares
        parts = np.flatnonzero(shares)
        units, weights = medium.first + parts, shares.ravel()[parts]
        start, end = _span_of_placeholders(a, medium)
        groups.append(
            NamedSpan(
                place.name,
                start,
                end,
                tokens=tuple(units.tolist()),
                kind=place.kind,
                sequence=None,
                weights=tuple(weights.tolist()),
            )
        )
    return groups


def _span_of_placeholders(a: "Attribution", medium: Medium) -> Span:
    """Return where the tokens that stand for a medium are in the text; (0, 0) if that is not known."""
    edges = [edge for token in medium.tokens for edge in a.units.spans[token]] if a.units.spans else []
    return min(edges, default=0), max(edges, default=0)


def _merged(scores: FloatArray, group: NamedSpan, merge: Merge) -> Any:
    """Return the scores of a group, (...).

    Args:
        scores: (..., U), those of all units.
        group: The group.
        merge: How a word's score comes from its tokens'; what is in no word is summed in any case.
    """
    values = scores[..., list(group.tokens)].astype(np.float64)  # (..., n)
    if merge == "sum" or group.kind in APART:
        return values @ np.array(group.weights or [1.0] * len(group.tokens))
    return merge_scores(values, merge)
