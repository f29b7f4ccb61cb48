"""A result in one line."""

from typing import TYPE_CHECKING

from .storage.tables import named_scores
from .targets import answer_number, prediction_of
from .units.characters import shortened

if TYPE_CHECKING:
    from .attribution import Attribution

SUMMARY_UNITS = 2
"""How many units stand in the line of a result."""

TITLE_CHARACTERS = 32
"""Most characters of a text in the line of a result."""


def summary_of(a: "Attribution") -> str:
    """Return a result in one line, for `repr`: its text, the answer, and the units with the largest magnitude."""
    heading, answer = shortened(a.heading(), TITLE_CHARACTERS), _answer(a)
    arrow = f" -> {answer}" if answer else ""
    return f"{heading!r}{arrow}: {_scores(a)}"


def _answer(a: "Attribution") -> str:
    """Return the completion or the prediction; empty without one."""
    if a.completion is not None:
        return repr(shortened(a.completion, TITLE_CHARACTERS))
    prediction = prediction_of(a)
    return "" if prediction is None else f"{prediction.label} {answer_number(prediction)}"


def _scores(a: "Attribution") -> str:
    """Return the units with the largest magnitude; the shape of the scores where a unit has several."""
    has_several_targets = a.has_target_axis and a.completion is None  # those of a completion are summed
    if a.layers is not None or has_several_targets:
        return f"scores {'x'.join(map(str, a.scores.shape))}"
    visible = [unit for unit in named_scores(a, "repr") if unit.name.strip()]
    visible.sort(key=lambda unit: -abs(unit.score))
    return ", ".join(f"{unit.name.strip()} {unit.score:+.2f}" for unit in visible[:SUMMARY_UNITS])
