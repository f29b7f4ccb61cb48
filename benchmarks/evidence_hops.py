"""The second of two paragraphs that an answer rests on: ways to find it once the first one is found.

The first paragraph is the one that alone makes the answer likeliest. A way orders the others behind it; it is chosen on
one half of the questions and reported on the other. A way costs less than three passes over the prompt, since each
pass that it makes reads one or two of the paragraphs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.statistics import interval_text, mean_interval

from .evidence_real import METHODS, Measured, OfQuestion, Rank, Ranking, figures, ordered
from .hotpot import Array

Scores = Callable[[OfQuestion], Array]
"""Returns a score of each paragraph, (D,), for being the second one."""

BASELINE = "shared rare words (no model)"
"""The way, of `METHODS`, that reads no model: both paragraphs by the words that they share with question and answer."""


class Half(NamedTuple):
    """The questions of the development half, or of the other one."""

    name: str
    questions: list[OfQuestion]


def first_paragraph(rows: OfQuestion) -> int:
    """Return the index of the paragraph that alone makes the answer likeliest."""
    return int(np.argmax(rows["one kept"].scores[1:]))


def scores_of(method: str, rows: OfQuestion) -> Array:
    """Return the scores of a method's row for each paragraph, (D,); the lowest for one that has none."""
    row = rows[method]
    scores = np.full(len(rows["one kept"].scores) - 1, min(row.scores))  # (D,)
    scores[row.units] = row.scores
    return scores


def alone(rows: OfQuestion) -> Array:
    """Return the log-probability of the answer after each paragraph alone, (D,)."""
    return np.array(rows["one kept"].scores[1:])


def beside_first(rows: OfQuestion) -> Array:
    """Return the log-probability of the answer after the first paragraph and each other one, (D,)."""
    return np.array(rows["first and one kept"].scores)


def joint_effect(rows: OfQuestion) -> Array:
    """Return how far each paragraph's effect beside the first one exceeds its effect alone, (D,)."""
    return beside_first(rows) - alone(rows)


def summed(methods: Sequence[str], rows: OfQuestion) -> Array:
    """Return the sum of the scores of several rows, (D,)."""
    total: Array = np.sum([scores_of(method, rows) for method in methods], axis=0)
    return total


def ranks_of(scores: Sequence[Scores], rows: OfQuestion) -> Array:
    """Return the sum of the ranks by several scores, (D,), which need not be in one unit."""
    total: Array = np.sum([rankdata(score(rows)) for score in scores], axis=0)
    return total


_WORDS = ("shared rare words", "words of the first")
_likelier_words = partial(scores_of, "words of the first are likelier")

WAYS: Mapping[str, Scores] = {
    "alone": alone,
    "beside the first": beside_first,
    "joint effect with the first": joint_effect,
    "makes the first likelier": partial(scores_of, "first is likelier"),
    "makes five words of the first likelier": _likelier_words,
    "rare words of question and answer": partial(scores_of, "shared rare words"),
    "rare words of the question's names": partial(scores_of, "names of the question"),
    "rare words of the first": partial(scores_of, "words of the first"),
    "rare words of question, answer and first": partial(summed, _WORDS),
    "rare words of all three, and makes five words likelier": partial(
        ranks_of, (partial(summed, _WORDS), _likelier_words)
    ),
    "rare words of all three, and beside the first": partial(ranks_of, (partial(summed, _WORDS), beside_first)),
}
"""Ways to order the other paragraphs behind the first one."""


def with_second(scores: Scores, rows: OfQuestion) -> Ranking | None:
    """Return the first paragraph and the others by a way; None where these were not measured.

    Args:
        scores: The way.
        rows: The rows of a question.
    """
    if not {"one kept", "shared rare words"} <= rows.keys():
        return None
    first, values = first_paragraph(rows), scores(rows)
    order = [first, *(document for document in ordered(values) if document != first)]
    return Ranking(order, values, 0.0)


def halves(questions: Mapping[int, OfQuestion]) -> tuple[Half, Half]:
    """Return the development half of the questions and the other one, by a fixed seed over their numbers.

    Args:
        questions: The rows of each question by its number.
    """
    is_development = np.random.default_rng(1).random(1 + max(questions)) < 0.5
    split: tuple[list[OfQuestion], list[OfQuestion]] = ([], [])
    for number in sorted(questions):
        if with_second(alone, questions[number]) is not None:
            split[int(not is_development[number])].append(questions[number])
    return Half("development", split[0]), Half("test", split[1])


def table(questions: Mapping[int, OfQuestion], seed: int = 0) -> str:
    """Return how often each way finds both paragraphs, on both halves, and which way the first half chooses.

    Args:
        questions: The rows of each question by its number.
        seed: Of the bootstrap.
    """
    development, test = halves(questions)
    if not (development.questions and test.questions):
        return ""
    ranks: dict[str, Rank] = {name: partial(with_second, scores) for name, scores in WAYS.items()}
    ranks[BASELINE] = METHODS[BASELINE]
    chosen = max(WAYS, key=lambda name: np.mean(_found(ranks[name], development)))
    lines = []
    for name, rank in ranks.items():
        less_baseline = np.subtract(_found(rank, test), _found(ranks[BASELINE], test))
        cells = [interval_text(mean_interval(values, seed)) for values in (_found(rank, test), less_baseline)]
        title = f"**{name}**" if name == chosen else name
        lines.append([title, f"{np.mean(_found(rank, development)):.2f}", *cells])
    titles = [f"{half.name} ↑ (n = {len(half.questions)})" for half in (development, test)]
    first = np.mean([first_paragraph(rows) in _row(rows).gold for rows in (*development.questions, *test.questions)])
    return f"Both gold paragraphs are the first two. The first one is gold in {first:.2f}.\n\n" + markdown_table(
        ["second by", *titles, f"test, less {BASELINE}"], lines
    )


def _found(rank: Rank, half: Half) -> list[float]:
    """Return for each question 1 if both gold paragraphs are the first two, else 0."""
    return [figures(rank, rows)["both gold first"] for rows in half.questions]


def _row(rows: OfQuestion) -> Measured:
    return next(iter(rows.values()))
