"""The second of two paragraphs that an answer rests on: ways to find it once the first one is found.

The first paragraph is the one that `cite` ranks first. A way orders the others behind it: by the same measurements, by
words and titles, which need no model, or by short passes that read two of the paragraphs at a time. The way is chosen
on one half of the questions and reported on the other.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from scipy.stats import rankdata

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.statistics import interval_text, mean_interval

from .evidence_real import METHODS, OfQuestion, Rank, Ranking, figures, ordered, sentence_ranking
from .hotpot import Array

Scores = Callable[[OfQuestion], Array]
"""Returns a score of each paragraph, (D,), for being the second one."""

Questions = Sequence[OfQuestion]

BASELINE = "shared rare words (no model)"
"""Of `METHODS`: both paragraphs by the words that they share with question and answer."""


def first_paragraph(rows: OfQuestion) -> int:
    """Return the index of the paragraph that `cite` ranks first."""
    ranking = sentence_ranking("alone, with words", rows)
    assert ranking is not None  # noqa: S101  # questions without it are left out
    return ranking.order[0]


def best_sentences(rows: OfQuestion) -> Array:
    """Return the score of the best sentence of each paragraph by the evidence of `cite`, (D,)."""
    units, scores = np.array(rows["default"].units), np.array(rows["default"].scores)  # (S,) each
    return np.array([scores[units == document].max(initial=-np.inf) for document in range(int(units.max()) + 1)])


def scores_of(method: str, rows: OfQuestion) -> Array:
    """Return the scores of a row, (D,): the lowest one for a paragraph that has none."""
    row = rows[method]
    scores = np.full(int(max(rows["default"].units)) + 1, min(row.scores))  # (D,)
    scores[row.units] = row.scores
    return scores


def between(method: str, rows: OfQuestion) -> Array:
    """Return the scores of the pairs of the first paragraph with each one, (D,)."""
    pairs = np.array(rows[method].scores)  # (D * D,)
    return np.asarray(pairs.reshape(len(rows[method].units), -1)[first_paragraph(rows)])


def beside_first(rows: OfQuestion) -> Array:
    """Return the log-probability of the answer after the first paragraph and each other one, (D,)."""
    return np.array(rows["first and one kept"].scores)


def joint_effect(rows: OfQuestion) -> Array:
    """Return how far each paragraph's effect beside the first one exceeds its effect alone, (D,)."""
    return beside_first(rows) - np.array(rows["one kept"].scores[1:])


def summed(scores: Sequence[Scores], rows: OfQuestion) -> Array:
    """Return the sum of several scores, (D,)."""
    total: Array = np.sum([score(rows) for score in scores], axis=0)
    return total


def ranks_of(scores: Sequence[Scores], rows: OfQuestion) -> Array:
    """Return the sum of the ranks by several scores, (D,), which need not be in one unit."""
    total: Array = np.sum([rankdata(score(rows)) for score in scores], axis=0)
    return total


of_question = partial(scores_of, "shared rare words")
of_first = partial(between, "words between")
of_titles = partial(between, "titles between")
of_words = partial(summed, (of_question, of_first))
likelier_words = partial(scores_of, "words of the first are likelier")

BY_WORDS: dict[str, Scores] = {
    "the order of `cite`": partial(scores_of, "leads"),
    "the order alone": partial(scores_of, "alone"),
    "the order of its evidence": best_sentences,
    "rare words of question and answer": of_question,
    "rare words of the question's names": partial(scores_of, "names of the question"),
    "rare words of the first": of_first,
    "rare words of question, answer and first": of_words,
    "titles: it names the first, or the first names it": of_titles,
    "titles, and rare words of question and answer": partial(ranks_of, (of_titles, of_question)),
    "titles, and the order of its evidence": partial(ranks_of, (of_titles, best_sentences)),
}
"""Ways to order the other paragraphs behind the first one, without a further pass."""

BY_PASSES: dict[str, Scores] = {
    "the answer after the first and each": beside_first,
    "joint effect with the first": joint_effect,
    "makes the first likelier": partial(scores_of, "first is likelier"),
    "makes five words of the first likelier": likelier_words,
    "that, and rare words of question and answer": partial(ranks_of, (of_question, likelier_words)),
    "that, and titles": partial(ranks_of, (of_titles, of_question, likelier_words)),
}
"""Ways with further passes, which read one or two of the paragraphs each: less than three prompts in all."""


def with_second(scores: Scores, rows: OfQuestion) -> Ranking:
    """Return the first paragraph and the others by a way.

    Args:
        scores: The way.
        rows: The rows of a question.
    """
    first, values = first_paragraph(rows), scores(rows)
    return Ranking([first, *(document for document in ordered(values) if document != first)], values, 0.0)


def halves(questions: Mapping[int, OfQuestion]) -> tuple[list[OfQuestion], list[OfQuestion]]:
    """Return the development half of the questions and the other one, by a fixed seed over their numbers.

    Args:
        questions: The rows of each question by its number.
    """
    is_development = np.random.default_rng(1).random(1 + max(questions)) < 0.5
    development, test = list[OfQuestion](), list[OfQuestion]()
    for number, rows in sorted(questions.items()):
        (development if is_development[number] else test).append(rows)
    return development, test


def report(questions: Mapping[int, OfQuestion], seed: int = 0) -> str:
    """Return how often each way finds both paragraphs; nothing where `cite` was measured on no question of a half.

    Args:
        questions: The rows of each question by its number.
        seed: Of the bootstrap.
    """
    cited = {
        number: rows
        for number, rows in questions.items()
        if {"alone, with words", "leads", "words between"} <= rows.keys()
    }
    asked = {number: rows for number, rows in cited.items() if "one kept" in rows}
    if asked and all(halves(asked)):
        return way_table(asked, BY_WORDS | BY_PASSES, seed)
    return way_table(cited, BY_WORDS, seed) if cited and all(halves(cited)) else ""


def way_table(questions: Mapping[int, OfQuestion], ways: Mapping[str, Scores], seed: int = 0) -> str:
    """Return a table of ways on both halves, with the one that the development half chooses in bold.

    Args:
        questions: The rows of each question by its number.
        ways: The ways by name.
        seed: Of the bootstrap.
    """
    development, test = halves(questions)
    ranks: dict[str, Rank] = {name: partial(with_second, scores) for name, scores in ways.items()}
    ranks[BASELINE] = METHODS[BASELINE]
    chosen = max(ways, key=lambda name: np.mean(_found(ranks[name], development)))
    lines = []
    for name, rank in ranks.items():
        less_baseline = np.subtract(_found(rank, test), _found(ranks[BASELINE], test))
        cells = [interval_text(mean_interval(values, seed)) for values in (_found(rank, test), less_baseline)]
        lines.append([f"**{name}**" if name == chosen else name, f"{np.mean(_found(rank, development)):.2f}", *cells])
    titles = [f"development ↑ (n = {len(development)})", f"test ↑ (n = {len(test)})", f"test, less {BASELINE} ↑"]
    return markdown_table(["second by", *titles], lines)


def _found(rank: Rank, questions: Questions) -> list[float]:
    """Return for each question 1 if both gold paragraphs are the first two, else 0."""
    return [figures(rank, rows)["both gold first"] for rows in questions]
