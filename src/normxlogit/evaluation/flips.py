"""Flips: the model's predictions without the words of the highest scores.

Measures that need no share and no level. Of labels: in which of the texts the prediction is another after one, two,
three or six words are deleted, the highest scored first. Of values: by how much the value is lower then.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..pipeline.verification import Answer, AnswersWithout, removable_for_task
from ..results.attribution import Attribution

__all__ = ["COUNTS", "MOST", "Deletions", "delete_words", "flips_by_some_word"]

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


def delete_words(answers: AnswersWithout, attributions: Sequence[Attribution]) -> Deletions:
    """Delete the words of the highest scores from texts, one after the other.

    Args:
        answers: The answers to the N texts without words, of a model that predicts labels or values.
        attributions: Explanations of the texts, one score for each token.
    """
    model = answers.model
    keys: list[tuple[int, tuple[int, ...]]] = []
    for text, attribution in enumerate(attributions):
        order = sorted(
            removable_for_task(model, attribution).parts, key=lambda part: -part.score
        )  # stable: ties go to the earlier one
        keys += [
            (text, tuple(sorted(token for part in order[:count] for token in part.tokens)))
            for count in range(min(MOST, len(order)) + 1)
        ]
    by_text: dict[int, list[Answer]] = {}
    for (text, _), answer in zip(keys, answers(keys), strict=True):
        by_text.setdefault(text, []).append(answer)
    flips = np.full(len(attributions), np.inf)  # (N,)
    falls = np.zeros((len(attributions), len(COUNTS)))  # (N, 4)
    for text, (original, *without) in by_text.items():
        changed = [count for count, answer in enumerate(without, start=1) if answer.outcome != original.outcome]
        flips[text] = min(changed, default=np.inf)
        falls[text] = [original.value - [original, *without][: count + 1][-1].value for count in COUNTS]
    return Deletions(flips, falls)


def flips_by_some_word(answers: AnswersWithout, attributions: Sequence[Attribution]) -> npt.NDArray[np.bool_]:
    """Return whether some single word of each text changes the prediction when deleted, (N,), by trying all.

    No method's first word can change more of them.

    Args:
        answers: As for `delete_words`.
        attributions: Explanations of the texts, whatever their scores.
    """
    texts = range(len(attributions))
    keys = [
        (text, part.tokens) for text in texts for part in removable_for_task(answers.model, attributions[text]).parts
    ]
    originals = answers([(text, ()) for text in texts])
    changed = np.zeros(len(attributions), bool)  # (N,)
    for (text, _), answer in zip(keys, answers(keys), strict=True):
        changed[text] |= answer.outcome != originals[text].outcome
    return changed
