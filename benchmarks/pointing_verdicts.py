"""Does `cite` tell answers that rest on a picture from the same answers to another picture?"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.results.verification import LEAST_LOSS

from .pointing_cases import PointingCase


class PicturedAnswer(NamedTuple):
    """What one answer loses without its own picture, and without another one of which the right answer is another."""

    own: float  # in nats
    other: float


def evaluate_verdicts(
    explainer: Explainer, cases: Sequence[PointingCase], on_progress: OnProgress | None = None
) -> list[PicturedAnswer]:
    """Cite right answers, each with its own picture and with another.

    Args:
        explainer: A vision-language model.
        cases: Questions about pictures with their right answers.
        on_progress: Called with what is done, answers done and answers in all.
    """
    pairs = list(_with_other_pictures(cases))
    answers = []
    for _, (case, other) in with_progress("answers with another picture", pairs, on_progress):
        own, with_other = (explainer.cite(messages=c.prompt, answer=case.answer, verify=1) for c in (case, other))
        answers.append(PicturedAnswer(float(own.sentence_losses[0]), float(with_other.sentence_losses[0])))
    return answers


def _with_other_pictures(cases: Sequence[PointingCase]) -> Iterator[tuple[PointingCase, PointingCase]]:
    """Yield each case with the next one that asks the same and has another answer."""
    for number, case in enumerate(cases):
        following = (*cases[number + 1 :], *cases[:number])
        other = next((c for c in following if c.question == case.question and c.answer != case.answer), None)
        if other is not None:
            yield case, other


def verdicts_table(answers: Sequence[PicturedAnswer], seed: int = 0) -> str:
    """Return how many answers are supported by their own picture, and by another, as a Markdown table.

    Args:
        answers: What `evaluate_verdicts` returns.
        seed: Of the bootstrap over answers.
    """
    from sklearn.metrics import roc_auc_score

    columns = ["AUROC of the nats lost without it ↑", "supported by its own picture ↑", "by another picture ↓"]
    losses = np.array(answers)  # (N, 2)
    is_own = np.array([1, 0] * len(answers))
    intervals = [interval_text(mean_interval(column, seed)) for column in (losses > LEAST_LOSS).astype(np.float64).T]
    return markdown_table(columns, [[f"{roc_auc_score(is_own, losses.ravel()):.2f}", *intervals]])
