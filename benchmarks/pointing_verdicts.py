"""Does `cite` tell answers that rest on a picture from the same answers to another picture?"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.grounding.verdicts import Support
from normxlogit.results.verification import LEAST_LOSS

from .pointing_cases import PointingCase


class PicturedAnswer(NamedTuple):
    """What `cite` says of one answer, to its own picture and to another one of which the right answer is another."""

    own: Support
    other: Support


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
        supports = (
            explainer.cite(messages=asked.prompt, answer=case.answer, verify=1).support[0] for asked in (case, other)
        )
        answers.append(PicturedAnswer(*supports))
    return answers


def _with_other_pictures(cases: Sequence[PointingCase]) -> Iterator[tuple[PointingCase, PointingCase]]:
    """Yield each case with the next one that asks the same and has another answer."""
    for number, case in enumerate(cases):
        following = (*cases[number + 1 :], *cases[:number])
        other = next((c for c in following if c.question == case.question and c.answer != case.answer), None)
        if other is not None:
            yield case, other


def verdicts_table(answers: Sequence[PicturedAnswer], seed: int = 0) -> str:
    """Return how many answers rest on their own picture, and on another, as a Markdown table.

    Args:
        answers: What `evaluate_verdicts` returns.
        seed: Of the bootstrap over answers.
    """
    from sklearn.metrics import roc_auc_score

    columns = ["by", "AUROC ↑", "rests on its own picture ↑", "rests on another picture ↓"]
    losses, rests = (
        np.array([[getattr(support, name) for support in answer] for answer in answers], np.float64)
        for name in ("loss", "rests")
    )  # (N, 2) each
    lines = []
    for name, values, holds in (
        ("as in the verdict", None, rests),
        ("the nats lost without it alone", losses, losses > LEAST_LOSS),
    ):
        is_own = np.array([1, 0] * len(answers))
        area = "" if values is None else f"{roc_auc_score(is_own, values.ravel()):.2f}"
        intervals = [interval_text(mean_interval(column, seed)) for column in holds.astype(np.float64).T]
        lines.append([name, area, *intervals])
    return markdown_table(columns, lines)
