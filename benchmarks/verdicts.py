"""Fit what turns the reader's features of a sentence into a verdict: `src/normxlogit/results/verdicts.json`.

The sentences are those that `normxlogit evaluate grounding --output` measures. Thresholds come from predictions for
training domains that the regression was not fitted to.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import normxlogit
from normxlogit.evaluation.grounding.evaluation import MeasuredSentence
from normxlogit.results.reading import AGREED, COVERED
from normxlogit.results.storage.schema import check

Array = npt.NDArray[np.float64]

FITTED = Path(normxlogit.__file__).with_name("results") / "verdicts.json"
"""The coefficients in the package."""

FOLDS = 8
"""Parts of the training domains; each is predicted by the others."""

WEIGHT_MADE = 0.5
"""What a sentence that was made by a rule counts, against one that was written by hand."""

ACCUSED = 0.1
"""Most true training sentences that are said to be invented or to contradict; half of them to be invented."""

INVENTED = 0.02
"""Most inventions whose probability to be covered reaches that of sentences that rest on the sources."""

TRUE = 0.8
"""Least share of true sentences, as many true as false ones, among those that rest on the sources."""


TRAINED = {
    "command": "normxlogit evaluate grounding --data benchmarks/grounding_pairs.jsonl --data PAIRS --output OUT; "
    "python -m benchmarks verdicts OUT/grounding.json",
    "data": "the training pairs of benchmarks/grounding_pairs.jsonl, and PAIRS of `python -m benchmarks pairs PAIRS "
    "--training QNLI/train.jsonl`",
    "reader": "SmolLM2-135M-Instruct",
}
"""How the coefficients of the package are trained."""


def measured(report: Mapping[str, Any]) -> list[MeasuredSentence]:
    """Return the sentences of a report of `normxlogit evaluate grounding`."""
    read = check(MeasuredSentence)
    return [read(row) for row in report["sentences"]]


def fit(measured: Sequence[MeasuredSentence], seed: int = 0) -> dict[str, Any]:
    """Fit the two regressions and the thresholds to training sentences, and return what the file holds."""
    training = [m for m in measured if m.split == "train" and m.features]
    weights = np.array([1.0 if m.origin == "written" else WEIGHT_MADE for m in training])  # (n,)
    true = np.array([m.true for m in training])  # (n,)
    invented = np.array([m.kind == "invented" and not m.true for m in training])
    domains = sorted({m.domain for m in training})
    order = np.random.default_rng(seed).permutation(domains).tolist()
    fold_of = {domain: place % FOLDS for place, domain in enumerate(order)}
    folds = np.array([fold_of[m.domain] for m in training])
    state: dict[str, Any] = {"trained": {**TRAINED, "seed": seed, "sentences": len(training)}}
    held_out: dict[str, Array] = {}
    for question, names, taken in (("covered", COVERED, true | invented), ("agreed", AGREED, ~invented)):
        table = np.array([[m.features[name] for name in names] for m in training])  # (n, f)
        held_out[question] = np.zeros(len(training))
        for fold in range(FOLDS):
            others = taken & (folds != fold)
            slopes, intercept = _regression(table[others], true[others], weights[others])
            held_out[question][folds == fold] = _probabilities(table[folds == fold], slopes, intercept)
        slopes, intercept = _regression(table[taken], true[taken], weights[taken])
        rounded = dict(zip(names, [round(float(value), 4) for value in slopes], strict=True))
        state[question] = {"intercept": round(intercept, 4), "weights": rounded}
    state["thresholds"] = thresholds(held_out["covered"], held_out["agreed"], true, invented, weights)
    return state


def thresholds(covered: Array, agreed: Array, true: Array, invented: Array, weights: Array) -> dict[str, Any]:
    """Return the thresholds of the verdicts.

    Args:
        covered: Probabilities that the sources say the sentences, (n,).
        agreed: Probabilities that they do not rather say something else, (n,).
        true: Whether the sentences are true, (n,).
        invented: Whether they are inventions, (n,).
        weights: What each counts, (n,).
    """
    levels = np.round(np.arange(0.01, 1.0, 0.01), 2)

    def part(chosen: Array, of: Array) -> float:
        return float(weights[chosen & of].sum() / weights[of].sum())

    not_in = max(level for level in levels if part(covered < level, true) <= ACCUSED / 2)
    contradicts = max(level for level in levels if part((covered < not_in) | (agreed < level), true) <= ACCUSED)
    least_covered = min(level for level in levels if part(covered >= level, invented) <= INVENTED)

    def share_of_true(level: float) -> float:
        rests = (covered >= least_covered) & (agreed >= level)
        of_true, of_false = part(rests, true), part(rests, ~true)
        return of_true / (of_true + of_false) if of_true else 0.0

    agreeing = [level for level in levels if level >= contradicts and share_of_true(level) >= TRUE]
    least_agreed = min(agreeing, default=1.0)
    rests = {"covered": float(least_covered), "agreed": float(least_agreed)}
    return {"not in the sources": float(not_in), "contradicts": float(contradicts), "rests": rests}


def _regression(table: Array, true: Array, weights: Array) -> tuple[Array, float]:
    """Return slopes and intercept of a logistic regression, for features as they are."""
    from sklearn.linear_model import LogisticRegression

    mean, scale = table.mean(0), table.std(0)
    fitted = LogisticRegression(max_iter=1000).fit((table - mean) / scale, true, weights)
    slopes = fitted.coef_[0] / scale
    return slopes, float(fitted.intercept_[0] - slopes @ mean)


def _probabilities(table: Array, slopes: Array, intercept: float) -> Array:
    probabilities: Array = 1 / (1 + np.exp(-(table @ slopes + intercept)))
    return probabilities
