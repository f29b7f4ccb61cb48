"""What an answer rests on through its own earlier words: their scores passed on to what these rest on themselves."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...errors import DataError, InputError
from ..storage.schema import FloatArray
from .media import overlap

if TYPE_CHECKING:
    from ..attribution import Attribution


def passed_through(
    a: "Attribution", spans: str | Sequence[tuple[int, int]] | None = None, weighted: FloatArray | None = None
) -> "Attribution":
    """Return a result whose scores of the answer's own parts are passed on; see `Attribution.through`.

    With A_k the scores of part k of the answer on the prompt and B_kj its score on an earlier part j, the passed-on
    scores are T_k = A_k + sum_j B_kj r_j, where r_j says what part j rests on: the positive scores of A_j + sum_i B_ji
    r_i, divided by their sum. The matrix B is triangular, for a part is read by later ones alone, so one pass over the
    parts in their order solves it. Each r_j sums to 1, so the sum over units is that of the direct scores. It may be
    taken of other scores of the parts, `weighted`.
    """
    part_of_unit = _parts_that_are_units(a)  # by unit, of those that are passed on
    if spans is not None:
        chosen = _spans_passed(a, spans)
        lies_there = [any(overlap(target.span or (-1, -1), span) for span in chosen) for target in a.targets]
        part_of_unit = {unit: k for unit, k in part_of_unit.items() if lies_there[k]}
        if not part_of_unit:
            raise InputError("no explained part of the answer that later ones read lies there")
    direct = a.scores.astype(np.float64)  # (K, ..., U)
    basis = direct if weighted is None else weighted.astype(np.float64)  # (K, ..., U)
    passed, rests = direct.copy(), basis.copy()
    passed[..., list(part_of_unit)] = rests[..., list(part_of_unit)] = 0
    support = np.zeros_like(direct)  # r, (K, ..., U)
    starts = [k if a.generated else (target.span or (0, 0))[0] for k, target in enumerate(a.targets)]
    for k in sorted(range(len(starts)), key=starts.__getitem__):  # as they stand in the text
        of_part = [unit for unit, j in part_of_unit.items() if j == k]
        earlier = [unit for unit, j in part_of_unit.items() if starts[j] < starts[k]]
        of_earlier = support[[part_of_unit[unit] for unit in earlier]]  # (n, ..., U)
        for scores, total in ((direct, passed), (basis, rests)):
            total[k] += np.einsum("...n,n...u->...u", scores[k][..., earlier], of_earlier)  # (..., U)
        positive = np.maximum(rests[k], 0)
        positive[..., of_part[:1]] += positive.sum(-1, keepdims=True) == 0  # a part that rests on nothing keeps it
        support[k] = positive / positive.sum(-1, keepdims=True) if of_part else 0
        # What a part takes from its own earlier words rests on what the part rests on.
        passed[k] += direct[k][..., of_part].sum(-1, keepdims=True) * support[k]
    settings = {**a.settings, "through": "the answer" if spans is None else str(spans)}
    return replace(a, scores=passed.astype(np.float32), settings=settings, verified=None)


def _parts_that_are_units(a: "Attribution") -> dict[int, int]:
    """Return the index of the target that each unit of the answer is, or is a token of."""
    explained = [target.id for target in a.targets]
    is_other = bool(a.generated) and explained != [token.id for token in a.generated]
    if is_other or any(target.contrast is not None for target in a.targets):
        raise DataError("scores pass through the answer's own words, and another target or a contrast is explained")
    start = a.text_units if a.prompt_tokens is None else a.prompt_tokens
    if a.generated and a.prompt_tokens is not None:  # the targets are the generated tokens
        return {unit: unit - start for unit in range(start, a.text_units)}
    units, spans = a.units, a.units.spans
    if a.completion is None or not a.has_target_axis or spans is None:
        raise DataError("scores pass through the parts of an answer: explain_completion(..., parts='sentence')")
    of_answer = [unit for unit in range(a.text_units) if unit >= start or units.kind[unit] == "answer"]
    ends = {k: target.span or (-1, -1) for k, target in enumerate(a.targets)}
    parts = {  # a token may begin with the space before its part
        unit: k for unit in of_answer for k, (first, end) in ends.items() if first < spans[unit][1] <= end
    }
    if not parts:
        raise DataError("the answer's words are one unit: explain its parts, or pass scores on before they are grouped")
    return parts


def _spans_passed(a: "Attribution", spans: str | Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of characters of the completion as spans of the whole text."""
    shift = len(a.text or "") - len(a.completion or "")
    if isinstance(spans, str):
        if spans != "reasoning":
            raise InputError(f"through() takes 'reasoning' or spans (start, end) of the completion, not {spans!r}")
        if not a.reasoning:
            raise InputError("no reasoning was found in the answer: pass its spans, as here or as reasoning=")
        spans = a.reasoning
    return [(shift + start, shift + end) for start, end in spans]
