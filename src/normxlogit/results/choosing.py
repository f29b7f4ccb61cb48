"""One of the targets of a result, with the units that were read before it."""

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from ..errors import TargetError, listed
from ..text.same import matching_names
from .targets import Prediction

if TYPE_CHECKING:
    from .attribution import Attribution


def of_target(a: "Attribution", target: str | SupportsIndex) -> "Attribution":
    """Return the result for one target, without the target axis.

    Args:
        a: The result.
        target: Its name, or its index, negative from the end.

    Raises:
        TargetError: If there is no such target, or several have the name.
    """
    index = _target_index(a, target)
    if not a.has_target_axis:
        return a
    # A verification is of one target; of a completion it is of the whole answer.
    is_verified = a.verified is not None and a.verified.target == a.targets[index].name and a.completion is None
    result = a._transformed(
        lambda scores: scores[index],
        targets=(a.targets[index],),
        diagnostics={
            name: value[index] if isinstance(value, tuple) else value for name, value in a.diagnostics.items()
        },
        predictions=_predictions_for(a, index),
        generated=a.generated[index : index + 1],
        verified=a.verified if is_verified else None,
    )
    read_units = units_before(a, index)
    return result if len(read_units) == len(a.units) else _up_to_target(result, read_units)


def _target_index(a: "Attribution", target: str | SupportsIndex) -> int:
    """Return the index of a target that is named, or counted from either end."""
    names = [named.name for named in a.targets]
    if isinstance(target, str):
        matches = matching_names(target, names)
        if len(matches) > 1:
            raise TargetError(f"{len(matches)} targets are called {target!r}: choose by index")
        if not matches:
            raise TargetError(f"no target {target!r} among {listed(list(map(repr, names)), 10)}")
        return matches[0]
    if isinstance(target, bool) or not isinstance(target, SupportsIndex):
        raise TargetError(f"a target is a name or an index, not {target!r}")
    try:
        return range(len(names))[target]  # counts a negative index from the end, and refuses what is outside
    except IndexError:
        raise TargetError(f"no target {operator.index(target)}; there are {len(names)}, counted from 0") from None


def _predictions_for(a: "Attribution", index: int) -> tuple[Prediction, ...]:
    """Return the prediction to show with one target: its own where each has one, as generated tokens do.

    Otherwise there is one at most, of the input. If it is a regression value, no other value is shown with it.
    """
    if len(a.predictions) == len(a):
        return (a.predictions[index],)
    target = a.targets[index]
    return tuple(shown for shown in a.predictions if target.kind != "value" or shown.id == target.id)


def units_before(a: "Attribution", index: int) -> list[int]:
    """Return the units that were read before a target: of a generated token those before it, otherwise all.

    Args:
        a: The result.
        index: Which target.
    """
    if not a.generated or a.prompt_tokens is None:
        return list(range(len(a.units)))
    return [*range(a.prompt_tokens + index), *range(a.text_units, len(a.units))]


def _up_to_target(a: "Attribution", read_units: list[int]) -> "Attribution":
    """Return the result for a generated token with the units that were read before it, and the text up to there.

    Args:
        a: The result for the token, still with all units.
        read_units: The units that were read: the first tokens of the text, and all parts of media.
    """
    unread = len(a.units) - len(read_units)
    text_units = a.text_units - unread
    predicting_unit = text_units - 1  # the position that predicts is never held constant
    sinks = tuple(unit for unit in a.sinks if unit < predicting_unit)
    text, spans = None, a.units.spans
    if a.text is not None and spans is not None:
        # Up to the end of the last token that was read: it may hold bytes of the next token's first character.
        target_start = spans[text_units][0]
        text = a.text[: max(target_start, *(end for _, end in spans[:text_units]), 0)]
    return replace(
        a,
        scores=np.ascontiguousarray(a.scores[..., read_units]),
        units=a.units.take(read_units),
        media=tuple(replace(medium, first=medium.first - unread) for medium in a.media),
        sink=a.sink if sinks else None,  # no sink without a unit that is one
        sinks=sinks,
        targets=tuple(target._replace(span=None) for target in a.targets),  # it is behind the text that is left
        text=text,
        completion=None,
        reasoning=(),
        marked_reasoning=(),
        prompt_tokens=None,
        generated=(),
    )
