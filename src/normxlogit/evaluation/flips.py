"""How many words are deleted until a prediction changes, those of the highest scores first."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..leave_out.outcomes import Answer
from ..leave_out.picking import removable_for_task
from ..leave_out.removal import TextRemoval
from ..leave_out.text_answers import TextAnswers
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from .statistics import Array

COUNTS = (1, 2, 3, 6)
"""Numbers of deleted words that tables show."""

MOST = 6
"""Most words that are deleted."""


class Deletions(NamedTuple):
    """How a model's answers to N texts change without the words of the highest scores."""

    flips: Array  # how many words are deleted until the prediction changes, (N,): infinity for more than `MOST`
    falls: Array  # fall of the probability, or value, after each of `COUNTS` words, (N, 4)


def delete_words(answers: TextAnswers, attributions: Sequence[Attribution]) -> Deletions:
    """Delete the words of the highest scores from texts, one after the other.

    Args:
        answers: The model's answers to the texts without some of their tokens.
        attributions: The scores of the tokens of each text, N of them.
    """
    removals: list[TextRemoval] = []
    for text, attribution in enumerate(attributions):
        removals += _removals_of_first_words(answers.model, text, attribution)
    answers_of_texts: list[list[Answer]] = [[] for _ in attributions]  # of each text without 0, 1, 2... words
    for removal, answer in zip(removals, answers(removals), strict=True):
        answers_of_texts[removal.text].append(answer)
    flips = np.full(len(attributions), np.inf)  # (N,)
    falls = np.zeros((len(attributions), len(COUNTS)))  # (N, 4)
    for text, answers_of_text in enumerate(answers_of_texts):
        original = answers_of_text[0]
        most_deleted = len(answers_of_text) - 1  # fewer than `MOST` of a short text
        flipping = [count for count, answer in enumerate(answers_of_text) if answer.outcome != original.outcome]
        flips[text] = min(flipping, default=np.inf)
        # A text of fewer words has its last fall at the higher counts, too.
        falls[text] = [original.value - answers_of_text[min(count, most_deleted)].value for count in COUNTS]
    return Deletions(flips, falls)


def _removals_of_first_words(model: TaskModel, text: int, attribution: Attribution) -> Iterator[TextRemoval]:
    """Yield what is removed from a text: none of its words, the word of the highest score, the first two and so on.

    Args:
        model: The model.
        text: The index of the text.
        attribution: The scores of its tokens.
    """
    words = removable_for_task(model, attribution).parts  # the highest scored first
    for count in range(min(MOST, len(words)) + 1):
        tokens = sorted(token for word in words[:count] for token in word.tokens)
        yield TextRemoval(text, tuple(tokens))


def flips_by_some_word(answers: TextAnswers, attributions: Sequence[Attribution]) -> npt.NDArray[np.bool_]:
    """Return whether some single word of each text changes the prediction when deleted, (N,), by trying all.

    Args:
        answers: The model's answers to the texts without some of their tokens.
        attributions: Results of the N texts, of any scores.
    """
    texts = range(len(attributions))
    removals = [
        TextRemoval(text, word.tokens)
        for text in texts
        for word in removable_for_task(answers.model, attributions[text]).parts
    ]
    originals = answers([TextRemoval(text, ()) for text in texts])
    changed = np.zeros(len(attributions), bool)  # (N,)
    for removal, answer in zip(removals, answers(removals), strict=True):
        changed[removal.text] |= answer.outcome != originals[removal.text].outcome
    return changed
