"""`ModelDifference`, the difference of two models' answers to a text."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from ..errors import DataError
from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray, Number, require
from ..results.targets import Prediction

Names = tuple[str, str]
"""The names of two models, the one before and the one after."""

BEFORE, AFTER = 0, 1
"""The indices of the two models in every pair of theirs."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelDifference(Attribution):
    """The scores of a text's words for the difference of two models: those of the one after, less those before.

    With `bias` and `sink` they add up to the explained quantity of the model after, less that of the model before.

    Attributes:
        models: The names of both models, before and after.
        answers: Their predictions; none of a completion. `predictions` has both, with the difference as its value.
        measured: The probability of the target in each, or its value; of a completion its log-probability.
        changed: Whether the answers are different labels.
        scores_of_each: float32, (2, U): the words' scores in each model; None of coarser units.
        constants_of_each: float32, (2, 2): the bias, and what attention sinks contribute, in each.
    """

    kind: ClassVar = "model-difference"
    described: ClassVar = "a difference of two models"
    columns: ClassVar[Mapping[str, Any]] = {
        "changed": bool,
        "prediction_before": str,
        "prediction_after": str,
        "measured_before": Number,
        "measured_after": Number,
        "scores_before": FloatArray,
        "scores_after": FloatArray,
    }

    models: Names
    answers: tuple[Prediction, ...]
    measured: tuple[Number, Number]
    changed: bool
    scores_of_each: FloatArray | None
    constants_of_each: FloatArray

    @property
    def title(self) -> str:
        """The heading of a page of such results."""
        return f"{self.models[0]} → {self.models[1]}"

    @property
    def before(self) -> Attribution:
        """The attribution of the model before, of the same words."""
        return self._of_model(BEFORE)

    @property
    def after(self) -> Attribution:
        """The attribution of the model after, of the same words."""
        return self._of_model(AFTER)

    def _of_model(self, model: int) -> Attribution:
        """Return the attribution of one of the models, `BEFORE` or `AFTER`."""
        if self.scores_of_each is None:
            raise DataError("of coarser units take before.group(...) and after.group(...)")
        state = {field.name: getattr(self, field.name) for field in fields(Attribution)}
        bias, sink = self.constants_of_each[model]
        state |= {
            "model": self.models[model],
            "scores": self.scores_of_each[model].copy(),
            "bias": bias,
            "sink": sink if self.sinks else None,
            "predictions": self.answers[model : model + 1],  # none of a completion
            "verified": None,  # the difference without some words was measured, and not this model's answer
        }
        return Attribution(**state)

    def validate(self) -> None:
        """Raise ValueError if the values of the two models do not fit the attribution."""
        super().validate()
        scores = self.scores_of_each
        require(scores is None or scores.shape == (2, *self.scores.shape), "scores_of_each: not two rows of scores")
        require(self.constants_of_each.shape == (2, 2), "constants_of_each: not of shape (2, 2)")
        require(len(self.answers) in (0, 2), "answers: not two")

    def _without_units(self) -> dict[str, Any]:
        """Return the state without what belongs to the units: the words' scores in each model as well."""
        return {**super()._without_units(), "scores_of_each": None}

    def column_values(self) -> dict[str, Any]:
        """Return what each model answered, and whether that differs."""
        # A completion has no answers to show.
        labels = [answer.label for answer in self.answers] or (None, None)
        scores = (None, None) if self.scores_of_each is None else self.scores_of_each
        return {
            "changed": self.changed,
            "prediction_before": labels[BEFORE],
            "prediction_after": labels[AFTER],
            "measured_before": self.measured[BEFORE],
            "measured_after": self.measured[AFTER],
            "scores_before": scores[BEFORE],
            "scores_after": scores[AFTER],
        }
