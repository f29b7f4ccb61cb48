"""Fit what turns the reader's features of a sentence into a verdict: `src/normxlogit/grounding/verdicts.json`.

The sentences are those that `normxlogit evaluate grounding --output` measures, packed into `grounding_measured.jsonl`.
Thresholds come from predictions for training domains that the regression was not fitted to.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import normxlogit
from normxlogit.evaluation.datasets import parsed_rows
from normxlogit.grounding.evaluation.evaluation import MeasuredSentence, Statement, listed, verdict_table
from normxlogit.grounding.verdicts import verdict_of
from normxlogit.results.storage.schema import check

Array = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

FITTED = Path(normxlogit.__file__).with_name("grounding") / "verdicts.json"
"""The coefficients in the package."""

MEASURED = Path(__file__).with_name("grounding_measured.jsonl")
"""The sentences that they are fitted to and tested by."""

COVERED = ("coefficient", "coverage")
"""The features for whether the sources say the sentence at all."""

AGREED = ("best edit", "own words", "values elsewhere")
"""The features for whether the sources rather say something else."""

NAMES = (*COVERED, *AGREED)
"""The features in a line of that file, in their order."""

FOLDS = 8
"""Parts of the training domains; each is predicted by the others."""

WEIGHT_MADE = 0.5
"""What a sentence that was made by a rule counts, against one that was written by hand."""

UNGAINED = 0.05
"""What a true sentence counts as an invention, too, that gains nothing from documents which have its words."""

ACCUSED = 0.05
"""Most true training sentences that are said to contradict."""

INVENTED = 0.02
"""Most true training sentences that are said to be invented, and most inventions that the sources are said to cover."""

TRUE = 0.8
"""Least share of true sentences, as many true as false ones, among those that rest on the sources."""

TRAINED = {
    "command": "python -m benchmarks verdicts",
    "data": "benchmarks/grounding_measured.jsonl: the training pairs of benchmarks/grounding_pairs.jsonl, and pairs of "
    "`python -m benchmarks pairs PAIRS --training QNLI/train.jsonl --corpus CORPUS --compound 4`",
    "features": "of log-probabilities and edits measured by `python -m benchmarks.grounding_features --dtype float32` "
    "of commit eb5edd83 on a GPU: up to 96 edits of a sentence, where `cite` measures fewer; the 8 with the largest "
    "gain are taken, none that leaves out two words; what a source has of a clause comes from their words. Compound "
    "sentences are measured by `normxlogit evaluate grounding`",
    "reader": "SmolLM2-135M-Instruct, SmolLM2-135M-Instruct.Q4_1.gguf",
}
"""How the coefficients of the package are trained."""


def pack(report: Mapping[str, Any]) -> str:
    """Return the sentences of a report of `normxlogit evaluate grounding` as lines, one for each domain.

    Sentences that were made of a data set are left out; their features stay.
    """
    read = check(MeasuredSentence)
    lines = []
    measured = [read(row) for row in report["sentences"]]
    for (split, domain, origin), of_domain in groupby(measured, key=lambda m: m.statement[:3]):
        sentences = [
            [
                m.statement.kind,
                m.statement.sentence if origin in ("written", "fixed", "compound") else "",
                m.statement.true,
                *(round(float(m.features[name]), 4) for name in NAMES),
            ]
            for m in of_domain
        ]
        line = {"split": split, "domain": domain, "origin": origin, "sentences": sentences}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines)


def measured_features(path: Path) -> list[tuple[Statement, dict[str, float]]]:
    """Return packed sentences with their features."""

    def of_domain(line: Mapping[str, Any]) -> list[tuple[Statement, dict[str, float]]]:
        about = str(line["split"]), str(line["domain"]), str(line["origin"])
        return [
            (Statement(*about, "", kind, sentence, true), dict(zip(NAMES, values, strict=True)))
            for kind, sentence, true, *values in line["sentences"]
        ]

    return [sentence for of_line in parsed_rows(path, of_domain, "not measured sentences") for sentence in of_line]


def measured_sentences(path: Path, fitted: Mapping[str, Any] | None = None) -> list[MeasuredSentence]:
    """Return packed sentences with their verdicts.

    Args:
        path: The file.
        fitted: Coefficients and thresholds; None for those of the package.
    """
    sentences = measured_features(path)
    return [MeasuredSentence(statement, features, verdict_of(features, fitted)) for statement, features in sentences]


def tables(measured: Sequence[MeasuredSentence]) -> dict[str, str]:
    """Return tables under their headings: test sentences, those written by hand, compound ones, and the fixed set."""
    fixed = [m for m in measured if m.statement.split == "fixed"]
    compound = [m for m in measured if m.statement.origin == "compound"]
    single = [m for m in measured if m.statement.split != "fixed" and m.statement.origin != "compound"]
    by_hand = [m for m in single if m.statement.split == "train" or m.statement.origin == "written"]
    return {
        "Test sentences": verdict_table(single),
        "Written by hand": verdict_table(by_hand),
        "Two things said": verdict_table(compound),
        "Fixed set": listed(fixed),
    }


def fit(measured: Sequence[tuple[Statement, Mapping[str, float]]], seed: int = 0) -> dict[str, Any]:
    """Fit the two regressions and the thresholds to training sentences, and return what the file holds."""
    training = [(statement, features) for statement, features in measured if statement.split == "train"]
    statements = [statement for statement, _ in training]
    weights = np.array([1.0 if s.origin == "written" else WEIGHT_MADE for s in statements])  # (n,)
    true = np.array([s.true for s in statements])  # (n,)
    invented = np.array([s.kind == "invented" and not s.true for s in statements])  # (n,)
    domains = sorted({s.domain for s in statements})
    order = np.random.default_rng(seed).permutation(domains).tolist()
    fold_of = {domain: place % FOLDS for place, domain in enumerate(order)}
    folds = np.array([fold_of[s.domain] for s in statements])  # (n,)
    state: dict[str, Any] = {"trained": {**TRAINED, "seed": seed, "sentences": len(training)}}
    held_out: dict[str, Array] = {}
    for question, names, taken in (("covered", COVERED, true | invented), ("agreed", AGREED, ~invented)):
        table = np.array([[features[name] for name in names] for _, features in training])  # (n, f)
        held_out[question] = np.zeros(len(training))
        for fold in range(FOLDS):
            slopes, intercept = _regression(table, true, weights, names, taken & (folds != fold))
            held_out[question][folds == fold] = _probabilities(table[folds == fold], slopes, intercept)
        slopes, intercept = _regression(table, true, weights, names, taken)
        rounded = dict(zip(names, [round(float(value), 4) for value in slopes], strict=True))
        state[question] = {"intercept": round(intercept, 4), "weights": rounded}
    state["thresholds"] = thresholds(held_out["covered"], held_out["agreed"], true, invented, weights)
    return state


def thresholds(covered: Array, agreed: Array, true: Booleans, invented: Booleans, weights: Array) -> dict[str, Any]:
    """Return the thresholds of the verdicts.

    Args:
        covered: Probabilities that the sources say the sentences, (n,).
        agreed: Probabilities that they do not rather say something else, (n,).
        true: Whether the sentences are true, (n,).
        invented: Whether they are inventions, (n,).
        weights: What each counts, (n,).
    """
    levels = np.round(np.arange(0.01, 1.0, 0.01), 2)

    def part(chosen: Booleans, of: Booleans) -> float:
        return float(weights[chosen & of].sum() / weights[of].sum())

    not_in = max(level for level in levels if part(covered < level, true) <= INVENTED)
    contradicts = max(level for level in levels if part((covered >= not_in) & (agreed < level), true) <= ACCUSED)
    least_covered = min(level for level in levels if part(covered >= level, invented) <= INVENTED)

    def share_of_true(level: float) -> float:
        rests = (covered >= least_covered) & (agreed >= level)
        of_true, of_false = part(rests, true), part(rests, ~true)
        return of_true / (of_true + of_false) if of_true else 0.0

    agreeing = [level for level in levels if level >= contradicts and share_of_true(level) >= TRUE]
    least_agreed = min(agreeing, default=1.0)
    rests = {"covered": float(least_covered), "agreed": float(least_agreed)}
    return {"not in the sources": float(not_in), "contradicts": float(contradicts), "rests": rests}


def _regression(
    table: Array, true: Booleans, weights: Array, names: Sequence[str], taken: Booleans
) -> tuple[Array, float]:
    """Return slopes and intercept of a logistic regression, for features as they are.

    Args:
        table: Features of sentences, (n, f).
        true: Whether the sentences are true, (n,).
        weights: What each counts, (n,).
        names: The names of the features.
        taken: The sentences to take, (n,).
    """
    from sklearn.linear_model import LogisticRegression

    if names == COVERED:  # few inventions have the documents' own words
        ungained = table[taken & true] * [name != "coefficient" for name in names]  # (m, f)
        added = UNGAINED * weights[taken & true]  # (m,)
        table, true = np.r_[table[taken], ungained], np.r_[true[taken], np.zeros(len(added), bool)]
        weights = np.r_[weights[taken], added]
    else:
        table, true, weights = table[taken], true[taken], weights[taken]
    mean, scale = table.mean(0), table.std(0)
    fitted = LogisticRegression(max_iter=1000).fit((table - mean) / scale, true, weights)
    slopes = fitted.coef_[0] / scale
    return slopes, float(fitted.intercept_[0] - slopes @ mean)


def _probabilities(table: Array, slopes: Array, intercept: float) -> Array:
    probabilities: Array = 1 / (1 + np.exp(-(table @ slopes + intercept)))
    return probabilities
