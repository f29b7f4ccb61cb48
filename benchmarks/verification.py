"""What the test of an explanation costs, and how small its sets are beside the smallest there are."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.timing import in_turn, ratio
from normxlogit.explainer import Explainer
from normxlogit.leave_out.picking import removable_for_task
from normxlogit.leave_out.removal import TextRemoval
from normxlogit.leave_out.smallest import tokens_of
from normxlogit.leave_out.text_answers import TextAnswers

TRIED: Mapping[str, tuple[int, int, int | Literal["auto"]]] = {
    "their 8 first words": (8, 8, 8),
    "one or two of their 20 first words": (20, 2, "auto"),
}
"""Sets that are all tried, by what they are of: how many words, most of a set, the `verify` that they stand beside."""

REPEATS = 20
"""Plain forward passes in a round: one alone is too short beside an explanation."""


class SetSizes(NamedTuple):
    """Sizes of sets whose removal changes the prediction of a text.

    Attributes:
        found: By `verify`; None where it found none.
        smallest: By trying all sets of the words; None where none changes it.
    """

    found: int | None
    smallest: int | None


def passes(explainer: Explainer, texts: Sequence[str], verify: int, rounds: int) -> tuple[float, float]:
    """Return what an explanation costs in forward passes over the same text, without its test and with it."""
    without, tested = [], []
    for text in texts:
        (encoding,) = explainer.encode(text)
        batch = explainer.task_model.batch([encoding], [0])
        sides: dict[str, Callable[[], Any]] = {
            "forward": partial(_forward, explainer.task_model.module, dict(batch.inputs)),
            "explained": partial(explainer, text),
            "tested": partial(explainer, text, verify=verify),
        }
        times = in_turn(sides, rounds=rounds, warmup=1)
        without.append(REPEATS * ratio(times["explained"], times["forward"]))
        tested.append(REPEATS * ratio(times["tested"], times["forward"]))
    return float(np.median(without)), float(np.median(tested))


def _forward(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> None:
    """Run `REPEATS` bare forward passes."""
    with torch.inference_mode():
        for _ in range(REPEATS):
            module(**inputs)


def set_sizes(
    explainer: Explainer, texts: Sequence[str], what: str, on_progress: OnProgress | None = None
) -> list[SetSizes]:
    """Compare the sets that `verify` finds among the first words with the smallest of all their sets, see `TRIED`."""
    word_count, most, verify = TRIED[what]
    sizes = []
    for _, text in with_progress(what, texts, on_progress):
        a = explainer(text, verify=verify)
        parts = removable_for_task(explainer.task_model, a).parts[:word_count]
        set_lengths = range(min(most, len(parts)) + 1)  # the empty set first: the whole text
        sets = [members for length in set_lengths for members in itertools.combinations(range(len(parts)), length)]
        answers = TextAnswers(explainer.task_model, explainer.encode(text), [a])
        removals = [TextRemoval(0, tokens_of(parts, members)) for members in sets]
        outcomes = [answer.outcome for answer in answers(removals)]
        changing = (len(members) for members, outcome in zip(sets, outcomes, strict=True) if outcome != outcomes[0])
        found = None if a.verified is None or a.verified.smallest is None else len(a.verified.smallest.units)
        sizes.append(SetSizes(found, smallest=next(changing, None)))
    return sizes


def table(measured: Mapping[str, Sequence[SetSizes]], costs: tuple[float, float], verify: int) -> str:
    """Return both measurements as Markdown tables."""
    rows = []
    for what, sizes in measured.items():
        both = [(s.found, s.smallest) for s in sizes if s.found is not None and s.smallest is not None]
        ratios = [found / least for found, least in both]
        shares = [f"{np.mean([found == least for found, least in both]):.2f}", f"{np.median(ratios):.2f}"]
        counts = [str(sum(s.smallest is not None for s in sizes)), str(len(both))]
        rows.append([f"{len(sizes)} texts, {what}", *counts, *shares, f"{np.mean(ratios):.2f}"])
    columns = ["sets", "a set exists", "found ↑", "of the smallest size ↑", "median size / smallest ↓", "mean ↓"]
    cost = [["without a test", f"{costs[0]:.1f}"], [f"verify={verify}", f"{costs[1]:.1f}"]]
    return markdown_table(columns, rows) + "\n" + markdown_table(["an explanation", "forward passes ↓"], cost)
