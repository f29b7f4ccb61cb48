"""Deletion of the words of the highest scores: flips of a model's prediction.

They need no share and no level. Of labels: in which of the texts the prediction is another after one, two, three or
six words are deleted, the highest scored first. Of values: by how much the value is lower then.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..leave_out.answers import Answer, TextAnswers
from ..leave_out.removal import TextRemoval
from ..leave_out.units import removable_for_task
from ..results.attribution import Attribution

COUNTS = (1, 2, 3, 6)
"""Numbers of deleted words that tables show."""

MOST = 6
"""Most words that are deleted."""


class Deletions(NamedTuple):
    """The model's outputs without the words of the highest scores."""

    flips: npt.NDArray[np.float64]  # words deleted until the prediction changes, (N,): infinity for over `MOST`
    falls: npt.NDArray[np.float64]  # fall of the probability, or value, after each of `COUNTS` words, (N, 4)


def delete_words(answers: TextAnswers, attributions: Sequence[Attribution]) -> Deletions:
    """Delete the words of the highest scores from texts, one after the other."""
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
