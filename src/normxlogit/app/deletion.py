"""Deletion curves: a model's output as the words of a text are deleted in the order of their scores."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import DataError, UnsupportedModelError
from ..leave_out.answers import TextAnswers
from ..leave_out.removal import masks
from ..leave_out.units import removable_for_task
from ..model.task_model import TaskModel
from ..results.attribution import Attribution


@dataclass(frozen=True)
class DeletionCurve:
    """A model's outputs for the target as more and more of a text is deleted.

    Attributes:
        quantity: The kind of values: the target's probability, or the value of a regression model.
        units: The deleted units, the highest scored first.
        unit: What they are: words, or tokens if words are not known.
        shares: The deleted share of them, from 0 to 1, (P,).
        highest_first: The values when the highest scored ones are deleted first, (P,).
        lowest_first: The values when the lowest scored ones are deleted first, (P,).
        masked: Whether they are replaced by the mask token instead of deleted.
    """

    method: str
    target: str
    quantity: Literal["probability", "value"]
    units: tuple[str, ...]
    unit: Literal["words", "tokens"]
    shares: tuple[float, ...]
    highest_first: tuple[float, ...]
    lowest_first: tuple[float, ...]
    masked: bool

    @property
    def measured(self) -> str:
        """What is measured, in words."""
        return f"probability of {self.target}" if self.quantity == "probability" else self.target

    @property
    def gap(self) -> float:
        """The area between the two curves: 0 for a random order, larger for a more faithful one, at most 1."""
        difference = np.subtract(self.lowest_first, self.highest_first)
        widths = np.diff(self.shares)
        return float((widths * (difference[1:] + difference[:-1]) / 2).sum())


def deletion_curve(model: TaskModel, attribution: Attribution, *, points: int = 20) -> DeletionCurve:
    """Delete the words of a text in the order of their scores, and record the model's output after each step.

    Of a result with several labels or layers, choose one first.

    Args:
        model: The model that the result is of.
        attribution: The result: one score for each token.
        points: Most points of the curve after the full text; in a longer text several words are deleted at a time.

    Raises:
        DataError: If there is no text, several scores for each token, or these are not this model's tokens.
        UnsupportedModelError: If the model neither classifies nor predicts a token.
    """
    a = attribution
    if a.text is None or a.scores.ndim != 1:
        raise DataError(
            "a deletion curve needs the text and one score for each token; choose by a[target] and a.layer(...)"
        )
    if model.task.reads != "text" or model.task.position.at == "span":
        raise UnsupportedModelError(f"deletion curves are of classifiers and language models, not of {model.task.name}")
    model.refresh()
    (encoding,) = model.encoder([a.text if a.text_pair is None else (a.text, a.text_pair)])
    if tuple(encoding.ids) != a.token_ids:
        raise DataError("the tokens of the result are not those that this model reads in its text")
    order = removable_for_task(model, a).parts  # the highest scored first
    if not order:
        raise DataError("the text has only special tokens, and nothing to delete")
    counts = np.unique(np.linspace(0, len(order), min(points, len(order)) + 1).round().astype(int)).tolist()
    queries = [  # the index of the only text, and the tokens to delete from it
        (0, tuple(sorted(token for part in ranked[:n] for token in part.tokens)))
        for ranked in (order, order[::-1])
        for n in counts
    ]
    values = [answer.value for answer in TextAnswers(model, [encoding], [a], masked=masks(model))(queries)]
    return DeletionCurve(
        method=a.method,
        target=a.target.name,
        quantity="value" if a.target.kind == "value" else "probability",
        units=tuple(part.text for part in order),
        unit="words" if a.has_words else "tokens",
        shares=tuple(n / len(order) for n in counts),
        highest_first=tuple(values[: len(counts)]),
        lowest_first=tuple(values[len(counts) :]),
        masked=masks(model),
    )
