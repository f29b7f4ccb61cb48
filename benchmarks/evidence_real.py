"""Evidence that other people marked: how well methods find the two paragraphs that HotpotQA's answers rest on.

What is measured of a question is kept in a file at once, without its texts, so that a stopped run goes on and the
tables are printed again without the model and the data.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from normxlogit import Explainer
from normxlogit.errors import DataError
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval, rank_correlation
from normxlogit.grounding.citations.cited_answer import read_answered
from normxlogit.methods import method_named
from normxlogit.methods.perturbation import Perturbation, log_odds

from .evidence_rankings import MEASURES
from .hotpot import Array, Prompt, Question, is_right
from .kept_rows import check_reader, kept_rows

MEASURED = Path(__file__).with_name("evidence_real.jsonl")
"""What SmolLM2-135M makes of the development half, 46 questions, as far as it was measured."""

NEW_TOKENS = 20
"""Most tokens of an answer that the model writes."""

WRITTEN = "the answer is right"
"""The method of rows that say whether a written answer is right."""


class Measured(NamedTuple):
    """What one method makes of one question.

    Attributes:
        number: The question's row.
        answers: "given" or "written".
        kind: The question's kind.
        gold: The indices of the paragraphs with supporting facts.
        holding: Those of them that hold the answer.
        method: The name of the method, or of the removals.
        units: The paragraph of each scored unit, (U,).
        scores: The scores, (U,); of removals the log-probability of the answer after each subset, (N,).
        passes: Forward passes, a backward pass counted as two.
        present: Of removals the subsets, each as a word of 0 and 1, a letter for each paragraph.
        divergences: Of removals the divergences from all paragraphs, (N,).
        tokens: Tokens of the answer.
    """

    number: int
    answers: str
    kind: str
    gold: list[int]
    holding: list[int]
    method: str
    units: list[int]
    scores: list[float]
    passes: float
    present: list[str] = []  # noqa: RUF012  # never changed
    divergences: list[float] = []  # noqa: RUF012
    tokens: int = 0

    @property
    def subsets(self) -> Array:
        """The subsets of removals, (N, D), 1 for a paragraph that is there."""
        return np.array([[float(letter) for letter in subset] for subset in self.present])


OfQuestion = Mapping[str, Measured]
"""The rows of one question by method."""


class Ranking(NamedTuple):
    """How a method ranks the D paragraphs of a question.

    Attributes:
        order: Their indices, the first one first.
        sums: The score of each, (D,), for the rank correlation with removals.
        passes: What it costs in forward passes.
    """

    order: list[int]
    sums: Array
    passes: float


Rank = Callable[[OfQuestion], Ranking | None]
"""Ranks the paragraphs of a question; None where what it needs was not measured."""


def measure(
    explainer: Explainer,
    questions: Sequence[Question],
    names: Sequence[str],
    file: Path,
    *,
    is_written: bool = False,
    on_progress: OnProgress | None = None,
) -> None:
    """Measure questions, and add each method's row to a file at once; rows that the file has are not measured again.

    Args:
        explainer: An explainer of a causal language model.
        questions: The questions, in the order in which they are measured.
        names: Which of `MEASURES`.
        file: JSON lines.
        is_written: Whether the model writes the answers; questions that it answers wrongly are left out.
        on_progress: Called after each question.

    Raises:
        DataError: If another model measured what the file has.
    """
    check_reader(explainer.language_model, file)
    answers = "written" if is_written else "given"
    known = by_question(load_measured(file), answers)
    for _, question in with_progress(f"questions, answers {answers}", questions, on_progress):
        rows = known.get(question.number, {})
        missing = [name for name in names if not set(MEASURES[name].methods) <= rows.keys()]
        if not missing or is_wrong(rows):
            continue
        default = sentence_ranking("alone, with words", rows)
        answer = _written(explainer, question) if is_written else question.answer
        prompt = Prompt(explainer, question, answer, None if default is None else default.order[0])
        for row in _rows(prompt, missing, needs_judgement=is_written and WRITTEN not in rows):
            _keep(prompt, row, answers, file)


def _rows(prompt: Prompt, names: Sequence[str], *, needs_judgement: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a prompt: first whether its answer is right, and nothing more of a wrong one.

    Args:
        prompt: The prompt with its answer.
        names: Which of `MEASURES`.
        needs_judgement: Whether the model wrote the answer, and nothing is known of it.
    """
    if needs_judgement:
        row = _judged(prompt)
        yield row
        if not row["scores"][0]:
            return
    for name in names:
        yield from MEASURES[name].measure(prompt)


def is_wrong(rows: OfQuestion) -> bool:
    """Return whether the model has written a wrong answer to a question, whose sources nobody marked."""
    return WRITTEN in rows and not rows[WRITTEN].scores[0]


def in_random_order(questions: Sequence[Question], count: int | None = None) -> list[Question]:
    """Return questions in a fixed random order, so that what a stopped run has measured is a sample.

    Args:
        questions: All questions.
        count: How many; None for all.
    """
    order = np.random.default_rng(0).permutation(len(questions)).tolist()
    return [questions[place] for place in order[:count]]


def _written(explainer: Explainer, question: Question) -> str:
    """Return the answer that the model writes."""
    answered = read_answered(
        explainer.language_model, question.question, dict(question.documents), max_new_tokens=NEW_TOKENS
    )
    completed = answered.completed
    return (completed.encoding.text or "")[completed.prompt_characters :]


def _judged(prompt: Prompt) -> dict[str, Any]:
    """Return a row that says whether a written answer is right: 1 or 0."""
    scores = [float(is_right(prompt.answer, prompt.question.answer))]
    return {"method": WRITTEN, "units": [], "scores": scores, "passes": 0.0}


def _keep(prompt: Prompt, row: Mapping[str, Any], answers: str, file: Path) -> None:
    """Add a row to the file, in five significant digits."""
    question = prompt.question
    fields = {"units": prompt.units, **row, "tokens": len(prompt.completed.generated_ids)}
    fields["units"] = list(fields["units"])
    for name in ("scores", "divergences"):
        fields[name] = [float(f"{value:.5g}") for value in fields.get(name, ())]
    holding = question.holding(question.answer)
    measured = Measured(question.number, answers, question.kind, list(question.gold), holding, **fields)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(measured._asdict()) + "\n")


def load_measured(file: Path) -> list[Measured]:
    """Read what was measured; nothing of a file that is not there."""
    return kept_rows(file, Measured, "not a measured question")


def by_question(rows: Sequence[Measured], answers: str) -> dict[int, dict[str, Measured]]:
    """Return the rows of each question by method.

    Args:
        rows: The rows of a file.
        answers: Of which answers, "given" or "written".
    """
    questions: dict[int, dict[str, Measured]] = {}
    for row in rows:
        if row.answers == answers:
            questions.setdefault(row.number, {})[row.method] = row
    return questions


def sentence_ranking(method: str, rows: OfQuestion) -> Ranking | None:
    """Return the ranking by the scores of sentences, of which a paragraph's best counts, or of paragraphs."""
    if (row := rows.get(method)) is None:
        return None
    units, scores = np.array(row.units), np.array(row.scores)  # (U,) each
    documents = range(int(units.max()) + 1)
    best = np.array([scores[units == d].max(initial=-np.inf) for d in documents])  # (D,)
    sums = np.array([scores[units == d].sum() for d in documents])  # (D,)
    return Ranking(ordered(best), sums, row.passes)


def ordered(scores: Array) -> list[int]:
    """Return the indices of scores, the largest first, of equal ones the earlier first."""
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order


def _cited_ranking(rows: OfQuestion) -> Ranking | None:
    """Return the ranking of `cite`: the best paragraph alone and by words, then what the others make likelier in it."""
    alone, with_words, leads = (rows.get(name) for name in MEASURES["alone"].methods)
    if alone is None or with_words is None or leads is None:
        return None
    best = ordered(np.array(with_words.scores))[0]
    others = [leads.units[place] for place in ordered(np.array(leads.scores))]
    return Ranking([best, *others], np.array(alone.scores), alone.passes + leads.passes)


def _left_out_ranking(rows: OfQuestion, *, is_divergence: bool) -> Ranking | None:
    """Return the ranking by what leaving out one paragraph does to the answer."""
    if (row := rows.get("one left out")) is None:
        return None
    scores = np.array(row.divergences[1:]) if is_divergence else row.scores[0] - np.array(row.scores[1:])  # (D,)
    return Ranking(ordered(scores), scores, row.passes)


def _context_cite_ranking(rows: OfQuestion, parts: Sequence[str]) -> Ranking | None:
    """Return the ranking by ContextCite's linear model (Cohen-Wang et al., 2024, section 4) of random removals."""
    if not set(parts) <= rows.keys():
        return None
    measured = [rows[part] for part in parts]
    present = np.concatenate([row.subsets for row in measured])  # (N, D)
    odds = log_odds(np.concatenate([row.scores for row in measured])) / measured[0].tokens  # (N,)
    method = method_named("context-cite")
    assert isinstance(method, Perturbation)  # noqa: S101  # for the type checker
    scores = method.fit(present.astype(bool), odds[:, None])[0]  # (D,)
    return Ranking(ordered(scores), scores, float(len(present)))


METHODS: Mapping[str, Rank] = {
    "`cite` (default)": _cited_ranking,
    "the paragraph alone": partial(sentence_ranking, "alone"),
    "its evidence": partial(sentence_ranking, "default"),
    "its sums over all tokens": partial(sentence_ranking, "sums"),
    "`normxlogit`": partial(sentence_ranking, "normxlogit"),
    "gradient x input": partial(sentence_ranking, "gradient x input"),
    "attention rollout": partial(sentence_ranking, "attention rollout"),
    "FlashTrace, one hop": partial(sentence_ranking, "FlashTrace"),
    "leave-one-out": partial(_left_out_ranking, is_divergence=False),
    "ARC-JSD": partial(_left_out_ranking, is_divergence=True),
    "ContextCite, 32": partial(_context_cite_ranking, parts=("context-cite 1",)),
    "ContextCite, 64": partial(_context_cite_ranking, parts=("context-cite 1", "context-cite 2")),
    "shared rare words (no model)": partial(sentence_ranking, "shared rare words"),
}
"""What ranks the paragraphs of a question; the first is what others are compared with."""


def first_is_gold(ranking: Ranking, row: Measured) -> float:
    """Return 1 if the first paragraph holds a supporting fact, else 0."""
    return float(ranking.order[0] in row.gold)


def both_are_first(ranking: Ranking, row: Measured) -> float:
    """Return 1 if the first two paragraphs are those with the supporting facts, else 0."""
    return float(set(ranking.order[:2]) == set(row.gold))


def answer_is_first(ranking: Ranking, row: Measured) -> float | None:
    """Return 1 if the first paragraph is a gold one that holds the answer, else 0; None where none does."""
    return float(ranking.order[0] in row.holding) if row.holding else None


def lds(ranking: Ranking, removals: Measured) -> float:
    """Return the linear datamodelling score of a ranking (Park et al., 2023).

    That is Spearman's correlation, over random subsets of the paragraphs, of the sum of the scores of those that are
    there with the log-probability of the answer.

    Args:
        ranking: The ranking with the paragraphs' scores.
        removals: The subsets with the log-probability after each.
    """
    return rank_correlation(removals.subsets @ ranking.sums, np.array(removals.scores))


def figures(rank: Rank, rows: OfQuestion) -> dict[str, float]:
    """Return what is measured of a ranking of one question, as far as it was measured."""
    if (ranking := rank(rows)) is None:
        return {}
    row = next(iter(rows.values()))
    measured = {
        "first is gold": first_is_gold(ranking, row),
        "both gold first": both_are_first(ranking, row),
        "answer's first": answer_is_first(ranking, row),
        "LDS": lds(ranking, rows["random"]) if "random" in rows else None,
        "passes": ranking.passes,
    }
    return {name: value for name, value in measured.items() if value is not None}


COLUMNS = {
    "first is gold": "first is gold ↑",
    "both gold first": "both gold among the first two ↑",
    "answer's first": "answer's paragraph first ↑",
    "LDS": "LDS ↑",
}
"""The measures with their titles."""


def table(questions: Sequence[OfQuestion], methods: Mapping[str, Rank], seed: int = 0) -> str:
    """Return a Markdown table of methods, with 95% bootstrap intervals over the questions.

    Args:
        questions: The rows of each question.
        methods: What ranks the paragraphs.
        seed: Of the bootstrap.
    """
    lines = []
    for name, rank in methods.items():
        measured = list(filter(None, (figures(rank, rows) for rows in questions)))  # of the questions that have them
        if measured:
            passes = np.mean([of_question["passes"] for of_question in measured])
            lines.append([name, str(len(measured)), *_cells(measured, seed), f"{passes:.0f}"])
    return markdown_table(["ranked by", "questions", *COLUMNS.values(), "passes ↓"], lines)


def difference_table(questions: Sequence[OfQuestion], methods: Mapping[str, Rank], seed: int = 0) -> str:
    """Return a Markdown table of each method less the first one, question by question, with 95% intervals."""
    (first_name, first), *others = methods.items()
    lines = []
    for name, rank in others:
        differences = list(filter(None, (_less(figures(rank, rows), figures(first, rows)) for rows in questions)))
        if differences:
            lines.append([name, str(len(differences)), *_cells(differences, seed)])
    return markdown_table([f"less {first_name}", "questions", *COLUMNS.values()], lines)


def _less(measured: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    """Return the differences of what was measured of both."""
    return {name: measured[name] - others[name] for name in measured.keys() & others.keys()}


def _cells(measured: Sequence[Mapping[str, float]], seed: int) -> list[str]:
    """Return the mean of each of `COLUMNS` over questions, with its interval; "-" for what was measured of none."""
    cells = []
    for column in COLUMNS:
        values = [of_question[column] for of_question in measured if column in of_question]
        cells.append(interval_text(mean_interval(values, seed)) if values else "-")
    return cells


def report(file: Path) -> str:
    """Return the tables of what was measured.

    Raises:
        DataError: If nothing was.
    """
    rows = load_measured(file)
    if not rows:
        raise DataError(f"{file}: nothing was measured; name a model with --model, and its data with --data")
    sections = []
    for answers in ("given", "written"):
        questions = list(by_question(rows, answers).values())
        if questions:
            wrong = sum(map(is_wrong, questions))
            count = f"{len(questions)} questions" + (f", {wrong} of them answered wrongly" if wrong else "")
            sections += [f"{count}\n", f"Answers {answers}\n", table(questions, METHODS)]
            sections += [f"Answers {answers}, question by question\n", difference_table(questions, METHODS)]
    return "\n".join(sections)
