"""Deletion of the words of the highest scores: curves of the model's output, and flips of its prediction.

Flips need no share and no level. Of labels: in which of the texts the prediction is another after one, two, three or
six words are deleted, the highest scored first. Of values: by how much the value is lower then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError, UnsupportedModelError
from ..explainer import Explainer
from ..leave_out.answers import Answer, TextAnswers
from ..leave_out.removal import TextRemoval, masks
from ..leave_out.units import removable_for_task
from ..results.attribution import Attribution

__all__ = ["COUNTS", "MOST", "DeletionCurve", "Deletions", "delete_words", "deletion_curve", "flips_by_some_word"]


@dataclass(frozen=True)
class DeletionCurve:
    """A model's outputs for the target as more and more of a text is deleted.

    Attributes:
        quantity: The kind of values: the target's probability, or the value of a regression model.
        units: The deleted units, the highest scored first: words, or tokens if words are not known.
        shares: The deleted share of them, from 0 to 1, (P,).
        highest_first: The values when the highest scored ones are deleted first, (P,).
        lowest_first: The values when the lowest scored ones are deleted first, (P,).
        masked: Whether they are replaced by the mask token instead of deleted.
    """

    target: str
    quantity: Literal["probability", "value"]
    units: tuple[str, ...]
    shares: tuple[float, ...]
    highest_first: tuple[float, ...]
    lowest_first: tuple[float, ...]
    masked: bool

    @property
    def gap(self) -> float:
        """The area between the two curves: 0 for a random order, larger for a more faithful one, at most 1."""
        difference = np.subtract(self.lowest_first, self.highest_first)
        widths = np.diff(self.shares)
        return float((widths * (difference[1:] + difference[:-1]) / 2).sum())


def deletion_curve(explainer: Explainer, attribution: Attribution, *, points: int = 20) -> DeletionCurve:
    """Delete the words of a text in the order of their scores, and record the model's output after each step.

    Of a result with several labels or layers, choose one first.

    Args:
        explainer: The model that the result is of.
        attribution: The result: one score for each token.
        points: Most points of the curve after the full text; in a longer text several words are deleted at a time.

    Raises:
        DataError: If there is no text, several scores for each token, or these are not this model's tokens.
        UnsupportedModelError: If the model neither classifies nor predicts a token.
    """
    a, model = attribution, explainer.task_model
    if a.text is None or a.scores.ndim != 1:
        raise DataError(
            "a deletion curve needs the text and one score for each token; choose by a[target] and a.layer(...)"
        )
    if not (model.task.head_reads_tokens and model.task.reads_tokens):
        raise UnsupportedModelError(f"deletion curves are of classifiers and language models, not of {model.task.name}")
    (encoding,) = explainer.encode([a.text if a.text_pair is None else (a.text, a.text_pair)])
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
        target=a.target.name,
        quantity="value" if a.target.kind == "value" else "probability",
        units=tuple(part.text for part in order),
        shares=tuple(n / len(order) for n in counts),
        highest_first=tuple(values[: len(counts)]),
        lowest_first=tuple(values[len(counts) :]),
        masked=masks(model),
    )


COUNTS = (1, 2, 3, 6)
"""Numbers of deleted words that tables show."""

MOST = 6
"""Most words that are deleted."""


class Deletions(NamedTuple):
    """The model's outputs without the words of the highest scores.

    Attributes:
        flips: How many words are deleted until the prediction changes, (N,): infinity for more than `MOST`, or where
            the answer is a value.
        falls: How much the explained probability or value is lower after each of `COUNTS` deleted words, (N, 4).
    """

    flips: npt.NDArray[np.float64]
    falls: npt.NDArray[np.float64]


def delete_words(answers: TextAnswers, attributions: Sequence[Attribution]) -> Deletions:
    """Delete the words of the highest scores from texts, one after the other.

    Args:
        answers: The answers to the N texts without words, of a model that predicts labels or values.
        attributions: Explanations of the texts, one score for each token.
    """
    model = answers.model
    queries: list[TextRemoval] = []
    for text, attribution in enumerate(attributions):
        order = removable_for_task(model, attribution).parts  # the highest scored first
        queries += [
            (text, tuple(sorted(token for part in order[:count] for token in part.tokens)))
            for count in range(min(MOST, len(order)) + 1)
        ]
    by_text: dict[int, list[Answer]] = {}
    for (text, _), answer in zip(queries, answers(queries), strict=True):
        by_text.setdefault(text, []).append(answer)
    flips = np.full(len(attributions), np.inf)  # (N,)
    falls = np.zeros((len(attributions), len(COUNTS)))  # (N, 4)
    for text, answers_of_text in by_text.items():  # without 0, 1, 2... words
        original, most_deleted = answers_of_text[0], len(answers_of_text) - 1
        flipping = [count for count, answer in enumerate(answers_of_text) if answer.outcome != original.outcome]
        flips[text] = min(flipping, default=np.inf)
        falls[text] = [original.value - answers_of_text[min(count, most_deleted)].value for count in COUNTS]
    return Deletions(flips, falls)


def flips_by_some_word(answers: TextAnswers, attributions: Sequence[Attribution]) -> npt.NDArray[np.bool_]:
    """Return whether some single word of each text changes the prediction when deleted, (N,), by trying all.

    No method's first word can change more of them.

    Args:
        answers: As for `delete_words`.
        attributions: Explanations of the texts, whatever their scores.
    """
    texts = range(len(attributions))
    queries = [
        (text, part.tokens) for text in texts for part in removable_for_task(answers.model, attributions[text]).parts
    ]
    originals = answers([(text, ()) for text in texts])
    changed = np.zeros(len(attributions), bool)  # (N,)
    for (text, _), answer in zip(queries, answers(queries), strict=True):
        changed[text] |= answer.outcome != originals[text].outcome
    return changed
