"""What an answer rests on through its own earlier words: their scores passed on to what these rest on themselves."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...errors import DataError, InputError
from ...text.characters import Span, moved
from ..storage.schema import Float64Array, FloatArray
from .grouping import units_ending_in
from .media import overlap

if TYPE_CHECKING:
    from ..attribution import Attribution

PartOfUnit = dict[int, int]
"""The index of the target that a unit of the answer is, or is a token of, by the index of the unit."""


def passed_through(
    a: "Attribution", spans: str | Sequence[Span] | None = None, weighted: FloatArray | None = None
) -> "Attribution":
    """Return a result whose scores of the answer's own parts are passed on; see `Attribution.through`.

    With A_k the scores of part k of the answer on the prompt and B_kj its score on an earlier part j, the passed-on
    scores are T_k = A_k + sum_j B_kj r_j, where r_j says what part j rests on: the positive scores of A_j + sum_i B_ji
    r_i, divided by their sum. The matrix B is triangular, for a part is read by later ones alone, so one pass over the
    parts in their order solves it. Each r_j sums to 1, so the sum over units is that of the direct scores.

    Args:
        a: The result.
        spans: Which parts are passed on, as in `Attribution.through`.
        weighted: (K, ..., U), the scores A and B by which r is taken, where these are others than those that are
            passed on, such as scores that are scaled by what was measured; by default the result's own.

    Raises:
        DataError: If the parts of the answer are not both targets and units.
        InputError: If no part lies in the spans.
    """
    part_of_unit = _parts_passed_on(a, spans)
    units, parts = np.array(sorted(part_of_unit.items())).T  # (n,) each: units of the answer, and the part of each
    direct = a.scores.astype(np.float64)  # A and B, (K, ..., U)
    basis = direct if weighted is None else weighted.astype(np.float64)  # the same, for r, (K, ..., U)
    passed, passed_basis = direct.copy(), basis.copy()  # T, of the scores and for r, (K, ..., U)
    passed[..., units] = passed_basis[..., units] = 0  # A alone; B is added below, passed on
    support = np.zeros_like(direct)  # r, (K, ..., U)
    starts = np.arange(len(a)) if a.generated else np.array(a.target_spans)[:, 0]  # (K,)
    for part in np.argsort(starts, kind="stable"):  # as they stand in the text
        is_earlier = starts[parts] < starts[part]  # (n,)
        earlier_units, own_units = units[is_earlier], units[parts == part]  # those of earlier parts, and of this one
        support_of_earlier = support[parts[is_earlier]]  # r of the part of each earlier unit, (earlier, ..., U)
        for scores, total in ((direct, passed), (basis, passed_basis)):
            of_earlier = scores[part][..., earlier_units]  # B, (..., earlier)
            total[part] += np.einsum("...n,n...u->...u", of_earlier, support_of_earlier)  # (..., U)
        if own_units.size:  # the part is a unit, on which later parts rest
            support[part] = _shares_of_support(passed_basis[part], own_units[0])
            # What a part takes from its own earlier words rests on what the part rests on.
            passed[part] += direct[part][..., own_units].sum(-1, keepdims=True) * support[part]
    settings = {**a.settings, "through": "the answer" if spans is None else str(spans)}
    return replace(a, scores=passed.astype(np.float32), settings=settings, verified=None)


def _shares_of_support(scores: Float64Array, own_unit: int) -> Float64Array:
    """Return positive scores, (..., U), divided by their sum; a part that rests on nothing rests on its own unit.

    Args:
        scores: The scores of all units for a part of the answer, (..., U).
        own_unit: The index of a unit that is the part itself.
    """
    positive = np.maximum(scores, 0)
    rests_on_nothing = positive.sum(-1) == 0  # (...)
    positive[..., own_unit] += rests_on_nothing
    return np.asarray(positive / positive.sum(-1, keepdims=True))


def _parts_passed_on(a: "Attribution", spans: str | Sequence[Span] | None) -> PartOfUnit:
    """Return the target of each unit whose scores are passed on.

    Args:
        a: The result.
        spans: Which parts are passed on, as in `Attribution.through`.
    """
    part_of_unit = _parts_that_are_units(a)
    if spans is None:
        return part_of_unit
    spans_passed = _spans_passed(a, spans)
    without_span = (-1, -1)  # overlaps with nothing
    lies_there = [any(overlap(target.span or without_span, span) for span in spans_passed) for target in a.targets]
    passed_on = {unit: part for unit, part in part_of_unit.items() if lies_there[part]}
    if not passed_on:
        raise InputError("no explained part of the answer that later ones read lies there")
    return passed_on


def _parts_that_are_units(a: "Attribution") -> PartOfUnit:
    """Return which target each unit of the answer is, or is a token of."""
    if not _explains_own_words(a):
        raise DataError("scores pass through the answer's own words, and another target or a contrast is explained")
    if a.generated and a.prompt_tokens is not None:  # the targets are the generated tokens
        return {unit: part for part, unit in enumerate(a.answer_units)}
    if a.completion is None or not a.has_target_axis or a.units.spans is None:
        raise DataError("scores pass through the parts of an answer: explain_completion(..., parts='sentence')")
    parts = _parts_by_spans(a)
    if not parts:
        raise DataError("the answer's words are one unit: explain its parts, or pass scores on before they are grouped")
    return parts


def _parts_by_spans(a: "Attribution") -> PartOfUnit:
    """Return the index of the target in whose span each unit of the answer ends."""
    earlier_words = [unit for unit, kind in enumerate(a.units.kind[: a.text_units]) if kind == "answer"]
    parts: PartOfUnit = {}
    for part, target in enumerate(a.targets):
        if target.span is not None:
            parts |= dict.fromkeys(units_ending_in(a, target.span, [*earlier_words, *a.answer_units]), part)
    return parts


def _explains_own_words(a: "Attribution") -> bool:
    """Return whether what is explained is the answer itself: no other tokens in its place, and no contrast."""
    has_contrast = any(target.contrast is not None for target in a.targets)
    explains_other_tokens = a.generated and not a.explains_itself
    return not (has_contrast or explains_other_tokens)


def _spans_passed(a: "Attribution", spans: str | Sequence[Span]) -> list[Span]:
    """Return spans of characters of the completion as spans of the whole text."""
    shift = len(a.text or "") - len(a.completion or "")
    if isinstance(spans, str):
        if spans != "reasoning":
            raise InputError(f"through() takes 'reasoning' or spans (start, end) of the completion, not {spans!r}")
        if not a.reasoning:
            raise InputError("no reasoning was found in the answer: pass its spans, as here or as reasoning=")
        spans = a.reasoning
    return [moved(span, shift) for span in spans]
