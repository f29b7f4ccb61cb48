"""The verdicts of the test of citations on true sentences, and of false ones that rest on the same documents.

The verdict of `cite` is compared with thresholds of single signals and of their logistic regressions; these are chosen
on training sentences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, ResultCache, with_progress
from normxlogit.evaluation.statistics import Interval, bootstrap_interval, interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.model.task_model import TaskModel
from normxlogit.pipeline.citations.cite import ask
from normxlogit.pipeline.completions.ablations import Ablations
from normxlogit.pipeline.completions.sources import sources_and_parts

from .swap_pairs import Pair

Array = npt.NDArray[np.float64]

KEPT = 0.9
"""Share of the true training sentences that a threshold keeps."""

MEASURED = ("share", "loss", "log_probability", "least")
"""The signals that need no swap."""

SIGNALS = {
    "share": "the documents' share",
    "loss": "nats lost without the documents",
    "log_probability": "log-probability, mean of the tokens",
    "least": "log-probability of the least likely token",
    "margin": "swap margin",
}
"""What the signals are called."""

REGRESSIONS = {
    "logistic regression of the first four": MEASURED,
    "logistic regression of all five": tuple(SIGNALS),
}
"""The signals that a logistic regression is given."""


@dataclass(frozen=True)
class Measured:
    """What was measured of a sentence; of an answer that is several, the least of each.

    Attributes:
        share: The documents' share.
        loss: Nats that it loses without the documents.
        log_probability: Mean of its tokens.
        least: The least of its tokens.
        margin: The least swap margin, in nats; 0 where no value has another of its kind in the documents.
        tested: Whether some value has.
        rests: Whether `cite` says that it rests on the documents.
        contradicted: Whether `cite` says that it contradicts them.
    """

    share: float
    loss: float
    log_probability: float
    least: float
    margin: float
    tested: bool
    rests: bool
    contradicted: bool

    @property
    def passes(self) -> bool:
        """Whether the sentence is shown as one that rests on the documents."""
        return self.rests and not self.contradicted


class Outcome(NamedTuple):
    """A pair with what was measured of both sentences."""

    pair: Pair
    true: Measured
    false: Measured


def measure(
    explainer: Explainer, pairs: Sequence[Pair], folder: Path | None = None, on_progress: OnProgress | None = None
) -> list[Outcome]:
    """Cite the documents for the two sentences of each pair.

    Args:
        explainer: Of a language model.
        pairs: The pairs.
        folder: Keeps what was measured, so that a stopped run continues.
        on_progress: Called with what is done, pairs done and pairs in all.
    """
    model = explainer._language_model
    cache = ResultCache[Measured](folder, model, [], Measured)
    outcomes = []
    for _, pair in with_progress("pairs", pairs, on_progress):
        both = [
            cache.cached(
                partial(_measured, explainer, model, pair, text), "sentence", pair.question, pair.documents, text
            )
            for text in (pair.true, pair.false)
        ]
        outcomes.append(Outcome(pair, *both))
    return outcomes


def _measured(explainer: Explainer, model: TaskModel, pair: Pair, sentence: str) -> Measured:
    answer = explainer.cite(pair.question, pair.documents, answer=sentence, verify=1)  # as many change no verdict
    completed = ask(model, pair.question, pair.documents, answer=sentence)
    sources, _ = sources_and_parts(completed, completed.named_sources, None)
    (log_probabilities,) = Ablations(model, completed, sources)(np.ones((1, len(sources)), bool))  # (G,)
    swaps = () if answer.verified is None else answer.verified.swaps
    return Measured(
        share=min(s.share for s in answer.support),
        loss=min(s.loss or 0.0 for s in answer.support),
        log_probability=float(log_probabilities.mean()),
        least=float(log_probabilities.min()),
        margin=min((float(swap.margin) for swap in swaps), default=0.0),
        tested=bool(swaps),
        rests=all(s.rests for s in answer.support),
        contradicted=any(s.contradiction is not None for s in answer.support),
    )


def verdict_table(sets: Mapping[str, Sequence[Outcome]]) -> str:
    """Return the verdicts on true and false sentences, a row for each set and one for all of them."""
    columns = [
        "sentences",
        "pairs",
        "true: kept ↑",
        "false: contradicted ↑",
        "false: pass ↓",
        "without the swap test ↓",
    ]
    every = [outcome for outcomes in sets.values() for outcome in outcomes]
    named = {**sets, **({"all": every} if len(sets) > 1 else {})}
    return markdown_table(columns, [_verdicts(name, outcomes) for name, outcomes in named.items()])


def kinds_table(outcomes: Sequence[Outcome]) -> str:
    """Return the same for each kind of value."""
    columns = [
        "exchanged",
        "pairs",
        "true: kept ↑",
        "false: contradicted ↑",
        "false: pass ↓",
        "without the swap test ↓",
    ]
    by_kind: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_kind.setdefault(outcome.pair.kind, []).append(outcome)
    ordered = sorted(by_kind.items(), key=lambda item: -len(item[1]))
    return markdown_table(columns, [_verdicts(kind, of_kind) for kind, of_kind in ordered])


def _verdicts(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    columns = [
        [o.true.passes for o in outcomes],
        [o.false.contradicted for o in outcomes],
        [o.false.passes for o in outcomes],
        [o.false.rests for o in outcomes],
    ]
    return [name, str(len(outcomes)), *(interval_text(mean_interval(np.array(c, float))) for c in columns)]


def signals_table(outcomes: Sequence[Outcome], training: Sequence[Outcome]) -> str:
    """Return how well each signal tells true sentences from false ones, at a threshold of the training sentences."""
    columns = ["signal", "AUROC ↑", "true above false in its pair ↑", "true: kept ↑", "false: pass ↓"]
    measured = {name: (_values(training, (name,))[..., 0], _values(outcomes, (name,))[..., 0]) for name in SIGNALS}
    values = {SIGNALS[name]: both for name, both in measured.items()}
    values |= {name: _regression(training, outcomes, signals) for name, signals in REGRESSIONS.items()}
    rows = []
    for name, (chosen, held_out) in values.items():
        true, false = held_out.T  # (N,) each
        threshold = float(np.quantile(chosen[:, 0], 1 - KEPT, method="lower"))
        above = (true > false) + 0.5 * (true == false)
        shares = (above, (true >= threshold).astype(float), (false >= threshold).astype(float))
        rows.append([name, interval_text(_auroc(held_out)), *(interval_text(mean_interval(s)) for s in shares)])
    return markdown_table(columns, rows)


def _values(outcomes: Sequence[Outcome], signals: Sequence[str]) -> Array:
    """Return signals of the true and the false sentences, (N, 2, S)."""
    return np.array([[[getattr(m, s) for s in signals] for m in (o.true, o.false)] for o in outcomes], np.float64)


def _regression(
    training: Sequence[Outcome], outcomes: Sequence[Outcome], signals: Sequence[str]
) -> tuple[Array, Array]:
    """Return what a regression fitted to training sentences gives these, and others, (N, 2) each."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted, others = _values(training, signals), _values(outcomes, signals)  # (N, 2, S)
    labels = np.tile([True, False], len(fitted))
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(fitted.reshape(-1, len(signals)), labels)
    each = (classifier.decision_function(v.reshape(-1, len(signals))).reshape(-1, 2) for v in (fitted, others))
    first, second = each
    return first, second


def _auroc(values: Array) -> Interval:
    """Return the area under the ROC curve of (N, 2) values with its interval; pairs are drawn anew."""

    def area(true: Array, false: Array, axis: int = -1) -> Array:
        above = (true[..., :, None] > false[..., None, :]) + 0.5 * (true[..., :, None] == false[..., None, :])
        mean: Array = above.mean((-2, -1))
        return mean

    return bootstrap_interval(area, (values[:, 0], values[:, 1]), 0, paired=True, batch=50)
