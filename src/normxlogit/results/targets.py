"""Predictions of a model, and the targets that are explained."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from .storage.schema import Index, IndexSpan, Number
from .units.characters import visible

Quantity = Literal[
    "logit",
    "logit less the contrast's",
    "logit less the vocabulary's mean",
    "value",
    "log-probability",
    "log-probability less the contrast's",
    "log odds",
    "cosine",
]
"""What is explained: the scores of methods whose scores add up are parts of it."""

OutputQuantity = Literal["logit", "log-probability"]
"""What of an output is explained. Where whole answers are compared it is the log-probability: sums of logits over their
tokens grow with the number of tokens."""


class Prediction(NamedTuple):
    """A prediction of the model.

    Attributes:
        label: Label name or token string; for regression the name of the output.
        id: Class or vocabulary index.
        value: The logit, or the regression output.
        probability: Softmax (or, for several labels at once, sigmoid) probability; None for regression.
    """

    label: str
    id: Index
    value: Number
    probability: Number | None


class Target(NamedTuple):
    """The target that one row of scores explains.

    Attributes:
        kind: "label", "value" (regression), "token" (or several in a row), "part" (of an answer) or "cosine".
        name: The label, the token, the text of the part.
        id: Class or vocabulary index; None for parts of an answer and several tokens.
        contrast: Name of the class or token that is subtracted, if any.
        contrast_id: Its index.
        position: Index of the unit at which the prediction is read (language models); None for whole inputs.
        span: First character in the text, and one past the last, of a part of an answer.
    """

    kind: Literal["label", "value", "token", "part", "cosine"]
    name: str
    id: Index | None = None
    contrast: str | None = None
    contrast_id: Index | None = None
    position: Index | None = None
    span: IndexSpan | None = None


def common_position(targets: Iterable[Target]) -> int | None:
    """Return the position at which all targets are read; None where there are several, or none."""
    positions = {target.position for target in targets}
    return positions.pop() if len(positions) == 1 else None


def prediction_of(result: Any) -> Prediction | None:
    """Return the prediction of a result; None if it has none, or one for each of several tokens."""
    predictions: tuple[Prediction, ...] = getattr(result, "predictions", ())
    return predictions[0] if len(predictions) == 1 and result.completion is None else None


def prediction_text(prediction: Prediction) -> str:
    """Return a prediction as "negative, 98.2%", or "score = 3.14" for regression."""
    label, number = visible(prediction.label), answer_number(prediction)
    return f"{label} = {number}" if prediction.probability is None else f"{label}, {number}"


def answer_number(prediction: Prediction) -> str:
    """Return the probability of a prediction, or the value of a regression."""
    return f"{prediction.value:.4g}" if prediction.probability is None else f"{100 * prediction.probability:.1f}%"
