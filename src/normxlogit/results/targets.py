"""What a model answered, and what of it is explained."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from .schema import Index, Number


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


@dataclass(frozen=True)
class TargetInfo:
    """What the scores explain.

    Attributes:
        kind: "label", "value" (regression) or "token" (language models).
        labels: One name for each entry of the label axis; a single one when there is no such axis.
        ids: Their class or vocabulary indices.
        contrast: Name of the class or token that is subtracted, if any.
        contrast_id: Its index.
        position: Index of the token whose prediction is explained (language models), counted in `tokens`.
    """

    kind: Literal["label", "value", "token"]
    labels: tuple[str, ...]
    ids: tuple[Index, ...]
    contrast: str | None = None
    contrast_id: Index | None = None
    position: Index | None = None
