"""A result in one line."""

from typing import TYPE_CHECKING

from .storage.tables import named_scores
from .targets import answer_number, prediction_of
from .units.characters import shortened

if TYPE_CHECKING:
    from .attribution import Attribution

SUMMARY, TITLE = 2, 32
"""Units in the line of a result, and most characters of a text in it."""


def summary_of(a: "Attribution") -> str:
    """Return a result in one line, for `repr`: its text, the answer, and the units with the largest magnitude."""
    answer, scores = a.completion, f"scores {'x'.join(map(str, a.scores.shape))}"
    if (answer is not None or not a.has_target_axis) and a.layers is None:
        scored = [(text.strip(), score) for text, score in named_scores(a._summed("repr")) if text.strip()]
        scored.sort(key=lambda pair: -abs(pair[1]))
        scores = ", ".join(f"{text} {score:+.2f}" for text, score in scored[:SUMMARY])
    if answer is not None:
        answer = repr(shortened(answer, TITLE))
    elif (prediction := prediction_of(a)) is not None:
        answer = f"{prediction.label} {answer_number(prediction)}"
    return f"{shortened(a._heading(), TITLE)!r}" + (f" -> {answer}" if answer else "") + f": {scores}"
