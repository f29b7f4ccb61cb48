"""Forward simulation: does the explanation of a text tell what the model answers when one of its words is deleted?

No person takes part. A linear model stands for the reader: it is fitted on some texts and reads, of another text, the
model's answer and the scores; from these it says for each word whether the prediction changes when the word is deleted,
and what the probability is then. How well it does is what the scores are worth to somebody who asks "what if".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from normxlogit.errors import DataError, UnsupportedModelError
from normxlogit.evaluation.frontier import TIMED, frontier_methods, measure_cost
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import Interval, bootstrap_interval, interval_text
from normxlogit.explainer import Explainer
from normxlogit.inputs.encoding import Encoding
from normxlogit.leave_out.picking import removable_for_task
from normxlogit.leave_out.removal import TextRemoval
from normxlogit.leave_out.text_answers import TextAnswers
from normxlogit.methods import Method, method_named
from normxlogit.results.attribution import Attribution

Array = npt.NDArray[np.float64]

PREDICTION = "the prediction alone"
"""The baseline: a reader who sees the answer and the number of words, and no score."""

FOLDS = 5
"""Parts of the texts: each is simulated by what was fitted on the others."""

SURE = 1e-6
"""Probabilities are at least this far from 0 and 1."""


class Deletions(NamedTuple):
    """The W words of N texts, each deleted alone.

    Attributes:
        text: The text of each, (W,).
        tokens: The tokens of each.
        whole: The log odds of the prediction of its text, (W,).
        without: The log odds of the same label without the word, (W,).
        flips: Whether another label is predicted without it, (W,).
    """

    text: npt.NDArray[np.int64]
    tokens: list[tuple[int, ...]]
    whole: Array
    without: Array
    flips: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Simulated:
    """How well a reader of a method's scores simulates the model, with 95% bootstrap intervals over the texts.

    Attributes:
        method: Its name, with settings that differ from the defaults.
        passes: Its cost in forward passes; None for the prediction alone.
        auroc: Of the words, does deleting it change the prediction.
        balanced: The mean of the next two.
        changed: The share of the words whose deletion changes the prediction that are told.
        unchanged: The same of other words.
        r2: Explained variance of the change of the probability.
    """

    method: str
    passes: float | None
    auroc: Interval
    balanced: Interval
    changed: Interval
    unchanged: Interval
    r2: Interval


def log_odds(probability: Array) -> Array:
    """Return the log odds of probabilities, (W,)."""
    p = np.clip(probability, SURE, 1 - SURE)  # (W,)
    odds: Array = np.log(p) - np.log1p(-p)  # (W,)
    return odds


def probability_of(odds: Array) -> Array:
    """Return the probabilities of log odds, (W,)."""
    p: Array = 1 / (1 + np.exp(-odds))  # (W,)
    return p


def delete_each_word(explainer: Explainer, encodings: list[Encoding]) -> Deletions:
    """Delete each word of each text, and ask the model.

    Raises:
        UnsupportedModelError: If the model does not predict one of several labels of a text.
    """
    model = explainer.task_model
    if model.task.outputs.outcomes != "exclusive" or not model.task.position.pooled:
        raise UnsupportedModelError(f"simulation is of classifiers of texts, and {model.name} is for {model.task.name}")
    predicted = explainer(encodings, method="random")
    words = [
        TextRemoval(text, part.tokens)
        for text, a in enumerate(predicted)
        for part in removable_for_task(model, a).parts
    ]
    answers = TextAnswers(model, encodings, predicted)
    whole = answers([TextRemoval(text, ()) for text in range(len(encodings))])
    without = answers(words)
    texts = np.array([word.text for word in words])  # (W,)
    flips = [answer.outcome != whole[word.text].outcome for word, answer in zip(words, without, strict=True)]
    return Deletions(
        text=texts,
        tokens=[word.tokens for word in words],
        whole=log_odds(np.array([answer.value for answer in whole]))[texts],
        without=log_odds(np.array([answer.value for answer in without])),
        flips=np.array(flips),
    )


def scores_of(explainer: Explainer, explained: Sequence[Attribution], words: Deletions) -> Array:
    """Return a method's score of each deleted word, (W,)."""
    parts = [removable_for_task(explainer.task_model, a).parts for a in explained]
    scores = {(text, part.tokens): float(part.score) for text, of_text in enumerate(parts) for part in of_text}
    return np.array([scores[key] for key in zip(words.text.tolist(), words.tokens, strict=True)])  # (W,)


def features(words: Deletions, scores: Array | None) -> Array:
    """Return what the reader sees of each word, (W, F): the answer, and of scores their size, share and rank."""
    counts = np.bincount(words.text)  # (N,), and every text has a word
    columns = [words.whole, words.whole**2, 1 / counts[words.text]]
    if scores is not None:
        sums = np.bincount(words.text, np.abs(scores))[words.text]  # (W,)
        share = scores / np.where(sums > 0, sums, 1)  # (W,)
        order = np.lexsort((-scores, words.text))  # (W,), text by text, the highest first
        higher = np.empty_like(scores)  # how many words of its text are ranked before each, (W,)
        higher[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        columns += [scores, share, share * words.whole, higher / counts[words.text], (higher == 0).astype(np.float64)]
    return np.stack(columns, 1)


def simulate(words: Deletions, scores: Array | None) -> tuple[Array, Array]:
    """Return how likely the reader takes each word to change the prediction, and the probability without it, (W,)."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seen = features(words, scores)  # (W, F)
    split: dict[str, Any] = {"groups": words.text, "cv": GroupKFold(FOLDS)}
    classifier = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=2000))
    changes = cross_val_predict(classifier, seen, words.flips, method="predict_proba", **split)[:, 1]  # (W,)
    regression = make_pipeline(StandardScaler(), LinearRegression())
    lost = cross_val_predict(regression, seen, words.whole - words.without, **split)  # (W,)
    return changes, probability_of(words.whole - lost)


def judge(name: str, passes: float | None, words: Deletions, scores: Array | None, seed: int = 0) -> Simulated:
    """Return how well a reader of scores simulates the model, with intervals over texts with all of their words.

    Args:
        name: The method's name.
        passes: Its cost in forward passes; None for the prediction alone.
        words: The deleted words.
        scores: The method's score of each, (W,); None for the prediction alone.
        seed: Of the bootstrap.
    """
    changes, probability = simulate(words, scores)
    lost = probability_of(words.whole) - probability_of(words.without)  # (W,)
    error = probability_of(words.without) - probability  # (W,)
    texts = words.text.max() + 1
    is_told = (changes > 0.5) == words.flips  # (W,)
    # Pairs of a word that changes the prediction and one that does not, by their texts, (N, N): those in which the
    # reader takes the first for the likelier one, and those in which not; of ties a half each.
    right, wrong = np.zeros((texts, texts)), np.zeros((texts, texts))
    others = words.text[~words.flips]  # (W',), the texts of words that do not change it
    for text, changing in zip(words.text[words.flips], changes[words.flips], strict=True):
        order = np.sign(changing - changes[~words.flips])  # (W',): 1, 0 or -1
        right[text] += np.bincount(others, (order + 1) / 2, texts)
        wrong[text] += np.bincount(others, (1 - order) / 2, texts)

    # In what follows, w is how often each of the N texts is in each of R samples, (R, N).

    def drawn(sample: Any) -> Array:
        """Return w for the texts of samples; in a sample without a change of the prediction, each text once."""
        counts = np.stack([np.bincount(row, minlength=texts) for row in np.atleast_2d(sample)]).astype(np.float64)
        counts[counts @ np.bincount(words.text, words.flips, texts) == 0] = 1
        return counts

    def share_told(changes_prediction: bool) -> Callable[[Array], Array]:
        """Return the share of the words that are told, of those that change the prediction or the others, (R,)."""
        chosen = words.flips == changes_prediction
        told = np.bincount(words.text[chosen], is_told[chosen].astype(np.float64), texts)  # (N,)
        counts = np.bincount(words.text[chosen], minlength=texts).astype(np.float64)  # (N,)
        return lambda w: (w @ told) / (w @ counts)

    def auroc(w: Array) -> Array:
        """Return the share of pairs that are right, (R,)."""
        good, bad = (((w @ pairs) * w).sum(-1) for pairs in (right, wrong))  # (R,) each
        area: Array = good / (good + bad)
        return area

    def r2(w: Array) -> Array:
        """Return the explained variance of the change of the probability, (R,)."""
        count, total, squares, residual = (
            w @ np.bincount(words.text, values, texts) for values in (lost**0, lost, lost**2, error**2)
        )
        return 1 - residual / (squares - total**2 / count)

    changed, unchanged = share_told(True), share_told(False)

    def interval(measure: Callable[[Array], Array]) -> Interval:
        """Return what a measure of w is, with its bootstrap interval."""

        def of_sample(sample: Any, axis: int = -1) -> Array:
            return np.squeeze(measure(drawn(sample)))

        return bootstrap_interval(of_sample, [np.arange(texts)], seed)

    return Simulated(
        name,
        passes,
        auroc=interval(auroc),
        balanced=interval(lambda w: (changed(w) + unchanged(w)) / 2),
        changed=interval(changed),
        unchanged=interval(unchanged),
        r2=interval(r2),
    )


def evaluate_simulation(
    explainer: Explainer,
    texts: Sequence[Any],
    methods: Sequence[str | Method] = (),
    *,
    seed: int = 0,
    rounds: int = 3,
    on_progress: OnProgress | None = None,
) -> tuple[list[Simulated], Deletions]:
    """Simulate the model without each word of texts, by a reader of each method's scores.

    Args:
        explainer: A classifier of texts.
        texts: The texts.
        methods: The methods; by default those of `evaluate frontier`. The prediction alone is added.
        seed: Of the bootstrap.
        rounds: Of the timing.
        on_progress: Called with "methods", how many are done and how many there are.

    Returns:
        A result for each method that works on the model, and what was simulated.

    Raises:
        DataError: If there are too few texts, or no word changes a prediction.
    """
    encodings = explainer.encode(texts)
    words = delete_each_word(explainer, encodings)
    changing = len(np.unique(words.text[words.flips]))
    if changing < FOLDS:
        raise DataError(
            f"the prediction changes without a word of {changing} of {len(texts)} texts; {FOLDS} are needed"
        )
    results = [judge(PREDICTION, None, words, None, seed)]
    method_list = list(map(method_named, methods)) or frontier_methods(explainer)
    for _, method in with_progress("methods", method_list, on_progress):
        try:
            explained = explainer(encodings, method=method)
        except UnsupportedModelError:
            continue
        cost = measure_cost(explainer, encodings[:TIMED], method, rounds=rounds)
        results.append(judge(method.spec, cost.passes, words, scores_of(explainer, explained, words), seed))
    return results, words


def table(results: Sequence[Simulated]) -> str:
    """Return a Markdown table, the best first."""
    columns = ["method", "passes", "AUROC ↑", "balanced accuracy ↑", "told where it changes ↑", "where it does not ↑"]
    rows = []
    for r in sorted(results, key=lambda r: -r.auroc[0]):
        figures = (r.auroc, r.balanced, r.changed, r.unchanged, r.r2)
        rows.append([r.method, "" if r.passes is None else f"{r.passes:.3g}", *map(interval_text, figures)])
    return markdown_table([*columns, "R² of the probability ↑"], rows)
