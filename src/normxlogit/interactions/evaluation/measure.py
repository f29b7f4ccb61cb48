"""Fit surrogates to a model's answers to an input, and predict its answers to other masks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import DataError
from ...evaluation.report import markdown_table
from ...evaluation.runs import OnProgress, ResultCache
from ...evaluation.statistics import interval_text, mean_interval
from ...explainer import Explainer
from ...leave_out.smallest import tokens_of
from ...methods.perturbation import Booleans, Floats, random_subsets
from ..answers import UnitAnswers
from ..call import answers_to_prompts, answers_to_texts
from .surrogates import PAIRS, pairs, surrogates

LEAST_MASKS, MOST_MASKS = 32, 128
"""How many masks are predicted, at least and at most; no surrogate has asked for them."""

DRAWN_MASKS = 2048
"""How many masks are drawn, from which these are taken."""

SEED = 1
"""The seed of what is drawn."""

LEAST_UNITS = 8
"""Fewest units of an input, which have 256 masks: of fewer, surrogates would ask for most of them."""


class Input(NamedTuple):
    """A text, or a prompt with its completion."""

    text: Any
    completion: str | None = None


@dataclass(frozen=True)
class Explained:
    """How far a surrogate explains the answers to an input.

    Attributes:
        surrogate: Its name.
        budget: How many passes it had.
        r2: R² on masks that no surrogate asked for.
        kept_aside: R² on masks kept aside, as `explainer.pairs` reports it; None for other surrogates.
    """

    surrogate: str
    budget: int
    r2: float
    kept_aside: float | None = None


OfInput = tuple[Explained, ...]
"""The results of the surrogates on one input."""


def measure(
    explainer: Explainer,
    inputs: Sequence[Input],
    budgets: Sequence[int],
    *,
    most_units: int,
    limit: int,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> list[OfInput]:
    """Measure how far each surrogate explains the answers to inputs.

    Args:
        explainer: The model.
        inputs: The inputs; those with too few or too many units are passed over.
        budgets: How many passes each surrogate has.
        most_units: Most units of an input.
        limit: Most inputs that are measured.
        folder: Where the results of each input are kept; None for nowhere.
        on_progress: Called with the inputs.

    Returns:
        The results of each measured input.

    Raises:
        DataError: If there is no result.
    """
    stored = ResultCache[OfInput](folder, explainer.task_model, [most_units, list(budgets)], OfInput)
    measured: list[OfInput] = []
    for number, case in enumerate(inputs):
        compute = partial(measure_input, explainer, case, budgets, most_units)
        # Stored for this input, and for the surrogates that are installed now.
        explained = stored.cached(compute, f"input-{number}", case.text, case.completion, sorted(surrogates()))
        if explained:  # () of an input that is passed over
            measured.append(explained)
            if on_progress is not None:
                on_progress("inputs", len(measured), limit)
        if len(measured) == limit:
            break
    if not measured:
        raise DataError(
            f"no input has from {LEAST_UNITS} to {most_units} units that can be left out, and masks beyond the budgets"
        )
    return measured


def measure_input(explainer: Explainer, case: Input, budgets: Sequence[int], most_units: int) -> OfInput:
    """Return how far each surrogate explains the answers to an input; nothing if its units are too few or too many.

    Nor is there a result if surrogates have asked for nearly all masks, or all answers are equal.

    Args:
        explainer: The model.
        case: The input.
        budgets: How many passes each surrogate has.
        most_units: Most units of an input.
    """
    unit_answers = _answers(explainer, case)
    if not LEAST_UNITS <= len(unit_answers.contributions) <= most_units:
        return ()
    # All surrogates are fitted first: masks that one of them asks for are none to predict.
    pair_models = {budget: pairs(unit_answers, budget) for budget in budgets}
    peers = surrogates(may_be_empty=unit_answers.may_be_empty)
    peer_models = {(name, budget): fit(unit_answers, budget) for name, fit in peers.items() for budget in budgets}
    masks = _masks_not_asked(unit_answers)
    values = unit_answers.values(masks)  # (N,)
    if len(values) < LEAST_MASKS or values.std() == 0:  # of equal values there is no R²
        return ()
    results = []
    for budget, model in pair_models.items():
        results.append(Explained(PAIRS, budget, _r2(values, model.predict(masks)), kept_aside=model.r2))
    for (name, budget), predict in peer_models.items():
        results.append(Explained(name, budget, _r2(values, predict(masks))))
    return tuple(results)


def _answers(explainer: Explainer, case: Input) -> UnitAnswers:
    """Return the answers to a text, or of a prompt the log-probability of its completion, with some of its units."""
    if case.completion is None:
        inputs = answers_to_texts(explainer, case.text, {})
    else:
        inputs = answers_to_prompts(explainer, case.text, case.completion, {})
    return inputs.answers[0]


def _masks_not_asked(unit_answers: UnitAnswers) -> Booleans:
    """Return masks that no surrogate has asked for, (N, M)."""
    masks = np.unique(random_subsets(len(unit_answers.contributions), DRAWN_MASKS, SEED), axis=0)
    absent = [np.flatnonzero(~mask).tolist() for mask in masks]
    sets = [tokens_of(unit_answers.removable.parts, units) for units in absent]
    is_new = np.array([tokens not in unit_answers.removed_sets for tokens in sets], bool)
    may_be_asked = masks.any(1) | unit_answers.may_be_empty  # the empty mask only where it has an answer
    rows = np.random.default_rng(SEED).permutation(np.flatnonzero(is_new & may_be_asked))
    return masks[rows[:MOST_MASKS]]


def _r2(values: Floats, predicted: Floats) -> float:
    """Return R² of predicted values, (N,)."""
    return float(1 - np.square(values - predicted).sum() / np.square(values - values.mean()).sum())


def table(measured: Sequence[OfInput]) -> str:
    """Return a Markdown table with 95% bootstrap intervals over the inputs, of differences paired by input.

    Args:
        measured: The results of each input.
    """
    shares: dict[tuple[str, int], list[float]] = {}  # R² by surrogate and budget, of each input
    differences: dict[tuple[str, int], list[float]] = {}  # that of pairs less this, likewise
    kept_aside: dict[int, list[float]] = {}  # R² that pairs themselves report, by budget
    for of_input in measured:
        of_pairs = {result.budget: result.r2 for result in of_input if result.surrogate == PAIRS}
        for result in of_input:
            shares.setdefault((result.surrogate, result.budget), []).append(result.r2)
            difference = of_pairs[result.budget] - result.r2
            differences.setdefault((result.surrogate, result.budget), []).append(difference)
            if result.kept_aside is not None:
                kept_aside.setdefault(result.budget, []).append(result.kept_aside)
    rows = []
    for (name, budget), r2_of_inputs in shares.items():
        # Pairs less themselves would be 0.
        difference_text = "" if name == PAIRS else interval_text(mean_interval(differences[name, budget]))
        rows.append([name, str(budget), interval_text(mean_interval(r2_of_inputs)), difference_text])
    rows += [[f"{PAIRS}, as results say", str(budget), f"{np.mean(r2):.3f}", ""] for budget, r2 in kept_aside.items()]
    header = ["surrogate", "passes", f"R² on other masks of {len(measured)} inputs ↑", "pairs less this"]
    return markdown_table(header, rows)
