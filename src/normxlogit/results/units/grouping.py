"""Grouping: tokens to words, sentences and sources, generated tokens to parts of an answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import DataError, InputError
from ..attribution import Attribution
from ..storage.schema import FloatArray
from ..targets import Target
from .kinds import Merge
from .spans import NamedSpan, PartSpec, Sequenced, SourceSpec, answer_parts, media_places, prompt_sources, share_inside
from .units import APART, Units
from .words import check_merge, merge_scores

Floats = npt.NDArray[np.float64]


def grouped(a: Attribution, by: SourceSpec, merge: Merge | None = None) -> Attribution:
    """Return a result with coarser units; see `Attribution.group`."""
    if merge is None:
        merge = a.merge if by == "word" and not a.media else "sum"
    check_merge(merge)
    if a.media and merge != "sum":
        raise DataError("pictures and sounds are units with the sum of their scores: merge='sum'")
    groups = groups_of(a, by)
    if not groups:
        raise DataError("; ".join(["the prompt holds no source", *a.notes]))
    check_coarser(a, groups)
    in_groups = {unit for group in groups for unit in group.tokens}
    start = a.text_units if a.prompt_tokens is None else a.prompt_tokens
    ungrouped = tuple(i for i in range(start) if i not in in_groups)
    whole = "text" if a.completion is None else "prompt"
    others = [NamedSpan(f"the rest of the {whole}", 0, 0, ungrouped, "rest", None)]
    if a.completion is not None:
        others += _earlier_words(a, range(start, a.text_units))
    scores = np.stack([_merged(a.scores, group, merge) for group in (*groups, *others)], -1)  # (..., groups + others)
    units = units_of([*groups, *others], [a.text or "", a.text_pair or ""])
    sinks = tuple(k for k, group in enumerate((*groups, *others)) if not set(a.sinks).isdisjoint(group.tokens))
    changes: dict[str, Any] = {"sinks": sinks}
    if merge != "sum":  # bias and sink add up with sums only
        changes = {"bias": None, "sink": None, "sinks": (), "settings": {**a.settings, "merge": merge}}
    targets = tuple(target._replace(position=None) for target in a.targets)
    return replace(a, scores=scores.astype(np.float32), units=units, targets=targets, **a._without_units(), **changes)


def _earlier_words(a: Attribution, units: Sequence[int]) -> list[NamedSpan]:
    """Return the units of the answer's own tokens: of each explained part of it one, and of all other tokens one."""
    name, spans, pieces = "the answer's earlier words", a.units.spans or (), []
    parts = {target.span: None for target in a.targets if target.kind == "part" and target.span and spans}
    for start, end in parts:  # two targets may be of one part
        tokens = tuple(unit for unit in units if start < spans[unit][1] <= end)  # it may begin with a space
        pieces.append(NamedSpan(name, start, end, tokens, "answer", 0))
    in_parts = {unit for piece in pieces for unit in piece.tokens}
    left = tuple(unit for unit in units if unit not in in_parts)
    return [*pieces, *([NamedSpan(name, 0, 0, left, "answer", None)] if left or not pieces else [])]


def grouped_targets(a: Attribution, parts: PartSpec, merge: Merge = "sum") -> Attribution:
    """Return a result with coarser targets; see `Attribution.group_targets`."""
    if a.completion is None or not a.has_target_axis:
        raise DataError("parts of an answer are those of generated tokens, and this result explains none")
    if a.text is None or all(target.span is None for target in a.targets):
        raise DataError("parts of an answer need the text and the character offsets of its tokens")
    end = len(a.text)
    spans = [target.span or (end, end) for target in a.targets]
    special = [target.span is None for target in a.targets]
    pieces = answer_parts(Sequenced(a.text, spans, special, 0, end - len(a.completion), None), parts)
    rows = [list(piece.tokens) for piece in pieces]
    pieces = [p if p.name else p._replace(name=a.targets[p.tokens[0]].name) for p in pieces]

    changes: dict[str, Any] = {"predictions": (), "generated": (), "diagnostics": {}, "verified": None}
    coarser = a._transformed(
        lambda values: np.array([values[part].sum(0, dtype=np.float64) for part in rows]),
        targets=part_targets(pieces),
        **changes,
    )
    if merge != "max":
        return coarser
    # The largest score of a part's tokens; scores of units outside the sources, such as the rest of the prompt, add up.
    largest = np.array([a.scores[part].max(0) for part in rows])
    return replace(coarser, scores=np.where([kind in APART for kind in a.units.kind], coarser.scores, largest))


def check_coarser(a: Attribution, groups: Sequence[NamedSpan]) -> None:
    """Refuse units that are not tokens, which cannot be divided.

    Raises:
        InputError: If one reaches beyond its group.
    """
    spans = a.units.spans or ()
    of_text = min(a.text_units, len(spans))
    for group in groups:
        for unit in group.tokens:
            if a.units.kind[unit] != "token" and unit < of_text and spans[unit][1] > group.end:
                kind = a.units.kind[unit]
                raise InputError(f"the units are already {kind}s, which {group.kind}s would divide; group the tokens")


def units_of(pieces: Sequence[NamedSpan], texts: Sequence[str]) -> Units:
    """Return named spans of texts, pictures and sounds as units."""
    bodies = ["" if p.sequence is None else texts[p.sequence][p.start : p.end] for p in pieces]
    return Units(
        kind=tuple(piece.kind for piece in pieces),
        text=tuple(bodies),
        special=tuple(piece.kind in APART for piece in pieces),
        sequence=tuple(piece.sequence for piece in pieces),
        spans=tuple((piece.start, piece.end) for piece in pieces),
        name=tuple("" if piece.kind in ("word", "sentence", "paragraph") else piece.name for piece in pieces),
    )


def part_targets(pieces: Sequence[NamedSpan]) -> tuple[Target, ...]:
    """Return parts of an answer as targets."""
    return tuple(Target("part", piece.name, span=(piece.start, piece.end)) for piece in pieces)


def sequenced(a: Attribution, sequence: int = 0) -> Sequenced:
    """Return one of the texts of a result as characters and tokens.

    Raises:
        DataError: If the tokenizer gave no offsets.
    """
    text = (a.text, a.text_pair)[sequence]
    if a.offsets is None or text is None:
        raise DataError("sources need the text and the character offsets of its tokens")
    masked = [
        special or text_index not in (None, sequence)
        for special, text_index in zip(a.special_tokens_mask, a.units.sequence, strict=False)
    ]
    completion_length = len(a.completion or "") if a.prompt_tokens is not None else 0
    prompt_tokens = a.text_units if a.prompt_tokens is None else a.prompt_tokens
    messages = None if sequence else a.messages
    prompt_characters = len(text) - completion_length
    return Sequenced(text, a.offsets, masked, prompt_tokens, prompt_characters, messages, a.units.words)


def groups_of(a: Attribution, by: SourceSpec) -> list[NamedSpan]:
    """Return the groups of the units of a result: spans of its texts, then its pictures and sounds."""
    return [*_groups_of_text(a, by), *_groups_of_media(a, by)]


def _groups_of_text(a: Attribution, by: SourceSpec) -> list[NamedSpan]:
    """Return the groups of the units of the text; none for a result of pictures or sounds without a text."""
    if a.media and (not by or (a.units.spans is None and not a.has_text)):
        return []
    groups = prompt_sources(sequenced(a), by)
    if a.text_pair is not None and isinstance(by, str):
        groups += [piece._replace(sequence=1) for piece in prompt_sources(sequenced(a, 1), by)]
    return groups


def _groups_of_media(a: Attribution, by: SourceSpec) -> list[NamedSpan]:
    """Return the groups of media units: each medium, or its regions and the rest of it."""
    groups = []
    left = [np.ones(medium.shape) for medium in a.media]  # the share of each part that is in no region yet
    for index, name, kind, boxes in media_places(a.media, by):
        medium = a.media[index]
        spans = [a.units.spans[token] for token in medium.tokens] if a.units.spans else []
        span = min((s for s, _ in spans), default=0), max((e for _, e in spans), default=0)
        shares = share_inside(medium, boxes[0]) if kind == "region" else left[index]
        left[index] = left[index] - shares
        parts = np.flatnonzero(shares)
        tokens, weights = tuple((medium.first + parts).tolist()), tuple(shares.ravel()[parts].tolist())
        groups.append(NamedSpan(name, *span, tokens, kind, None, weights))
    return groups


def _merged(scores: FloatArray, group: NamedSpan, merge: Merge) -> Floats:
    """Return the scores of a group, (...)."""
    values = scores[..., list(group.tokens)].astype(np.float64)  # (..., n)
    if merge == "sum" or group.kind in APART:
        sums: Floats = values @ np.array(group.weights or [1.0] * len(group.tokens))
        return sums
    return np.asarray(values.max(-1) if merge == "max" and group.kind != "word" else merge_scores(values, merge))
