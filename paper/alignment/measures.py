"""Alignment of scores with linguistic evidence: are the evidence words scored highest? (NormXLogit, experiment 2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from normxlogit.errors import DataError
from normxlogit.evaluation.options import Protocol
from normxlogit.methods import Method, Request, check_finite, method_named, run_method
from normxlogit.model.batch_attempts import batch_attempts
from normxlogit.model.task_model import TaskModel
from normxlogit.tasks.targets import BatchTargets, index_of

from ..minimal_pairs import Item

__all__ = [
    "MEASURES",
    "METHODS",
    "METRICS",
    "Alignment",
    "Measure",
    "Normalisation",
    "Scale",
    "accuracy",
    "align",
    "average_precision",
    "dot_product",
    "normalisation_of",
    "title_of",
]

Normalisation = Literal["softmax", "sum"]
Metric = Literal["softmax", "sum", "average_precision"]
METRICS: tuple[Metric, ...] = get_args(Metric)
"""The dot product under both normalisations, and average precision."""

Measure = Literal["dot", "ap"]
MEASURES: dict[Measure, str] = {"dot": "Dot product", "ap": "Average precision"}

Scale = Literal["published", "softmax", "sum"]
"""Normalisation of the dot product: each method's as in the paper, or the same for all."""

METHODS = (
    "logat",
    "normxlogit",
    "input-norm",
    "globenc:rollout=false",
    "alti:rollout=false",
    "value-zeroing:rollout=false",
    "decompx",
    "random",
)
"""The paper's methods."""

SOFTMAX = ("logat", "normxlogit", "input-norm", "random")
"""Methods whose scores the paper normalises by a softmax; the scores of others it divides by their sum."""

LAST_LAYER = ("decompx",)
"""Methods measured at the last layer only, as in the paper."""

CHUNK = 256
"""Sentences between two steps of the progress bar."""

Array = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Alignment:
    """Alignment of one series of scores with the evidence.

    Attributes:
        title: The method and the logit that it explains, such as "logat(target)".
        method: The method's name.
        layers: The layers measured; 0 is the embeddings.
        figures: For "all" and each group, and each metric: means over the sentences, one for each layer.
        errors: Their standard errors.
        count: Number of sentences, for "all" and each group.
    """

    title: str
    method: str
    layers: tuple[int, ...]
    figures: Mapping[str, Mapping[str, tuple[float, ...]]]
    errors: Mapping[str, Mapping[str, tuple[float, ...]]]
    count: Mapping[str, int]

    def values(self, measure: Measure, *, group: str = "all", scale: Scale = "published") -> tuple[float, ...]:
        """Return one figure for each layer; none where the measure is missing."""
        metric: str = "average_precision"
        if measure == "dot":
            metric = normalisation_of(self.method) if scale == "published" else scale
        return tuple(self.figures.get(group, {}).get(metric, ()))


def dot_product(scores: Array, evidence: Mask, normalisation: Normalisation = "softmax") -> float:
    """Return the evidence tokens' share of the total score.

    Args:
        scores: One for each token, (T,).
        evidence: True at the evidence, (T,).
        normalisation: "softmax" over the tokens, or division by the "sum", before which negative scores count as
            zero. Where nothing is left to divide, all tokens count the same.

    Raises:
        ValueError: If there is no such normalisation.
    """
    values = np.asarray(scores, dtype=np.float64)  # (T,)
    if normalisation == "softmax":
        shares = np.exp(values - values.max())  # (T,)
    elif normalisation == "sum":
        shares = values.clip(0.0)  # (T,)
    else:
        raise ValueError(f"normalisation must be 'softmax' or 'sum', not {normalisation!r}")
    total = shares.sum()
    return float(shares[evidence].sum() / total) if total > 0 else float(np.mean(evidence))


def average_precision(scores: Array, evidence: Mask) -> float:
    """Return the average precision of a ranking: sum over k of (R_k - R_{k-1}) P_k.

    Without ties it equals scikit-learn's `average_precision_score`. Tied tokens have no order, so the result is the
    mean over all their orders; for constant scores that is the expectation of shuffled ranks. (scikit-learn takes a
    group of ties as one step, which gives constant scores the share of the evidence.)

    Args:
        scores: One for each token, (T,).
        evidence: True at the evidence, (T,); at least one token.

    Raises:
        ValueError: If there is no evidence.
    """
    total = int(evidence.sum())
    if not total:
        raise ValueError("there is no evidence to rank")
    _, groups, sizes = np.unique(-np.asarray(scores, dtype=np.float64), return_inverse=True, return_counts=True)
    relevant = np.bincount(groups, weights=evidence, minlength=len(sizes))  # (G,), evidence in each group of ties
    ranked, hits, result = 0, 0.0, 0.0
    for size, relevant_ties in zip(sizes.tolist(), relevant.tolist(), strict=True):
        if relevant_ties:
            ranks = np.arange(size)  # (size,), tokens of the group that precede
            # If a rank holds evidence, each preceding rank holds evidence with probability (relevant-1) / (size-1).
            before = ranks * ((relevant_ties - 1) / max(size - 1, 1))  # (size,)
            result += relevant_ties / size * float(((hits + 1 + before) / (ranked + 1 + ranks)).sum())
        ranked += size
        hits += relevant_ties
    return result / total


def normalisation_of(method: str) -> Normalisation:
    """Return how the paper normalises a method's scores."""
    return "softmax" if method in SOFTMAX else "sum"


def title_of(method: str, probe: str = "") -> str:
    """Return the title of a series: the method, and the logit that it explains."""
    return f"{method}({probe})" if probe else method


def align(
    model: TaskModel,
    items: Sequence[Item],
    method: str | Method,
    *,
    words: Sequence[str] = (),
    protocol: Protocol = "default",
    seed: int = 0,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[Alignment]:
    """Measure one method on sentences with known evidence, at every layer that the method supports.

    The masked position is left out of normalisation and ranking; special tokens are included. For causal models every
    token of the prefix is scored.

    Args:
        model: A language model.
        items: The encoded pairs, with evidence.
        method: The method, or its name with settings. LogAt is measured for the target, the foil, and each word;
            others for the target.
        words: Further vocabulary entries for which LogAt is measured.
        protocol: "default" counts all tokens of an evidence word, and takes for "random" the mean over all orders;
            "published" counts the first token of each word, and shuffles.
        seed: Seed of the shuffles.
        on_progress: Called with the title, sentences done and sentences in all.

    Returns:
        One result, for LogAt one for each of its logits.

    Raises:
        DataError: If an item has no evidence.
        MethodError: If the method does not exist.
        TargetError: If a word is not one token of the model.
        UnsupportedModelError: If the method does not work on the model.
    """
    if not items or not all(item.evidence for item in items):
        raise DataError("alignment needs evidence in every sentence, and some have none")
    scorer = method_named(method)
    name = scorer.info.name
    probes = ["target", "foil", *words] if name == "logat" else ["target"]
    shuffle = np.random.default_rng(seed) if protocol == "published" else None
    layers: tuple[int, ...] = ()
    rows: dict[int, Array] = {}
    for index, scores, layers in _scored(model, items, scorer, words, on_progress):  # noqa: B007  # (K, L, T)
        item = items[index]
        keep = np.arange(scores.shape[-1])
        if item.encoding.position is not None:
            keep = np.delete(keep, item.position)
        evidence = np.zeros(scores.shape[-1], dtype=bool)
        evidence[[i for word in item.evidence for i in (word[:1] if protocol == "published" else word)]] = True
        rows[index] = np.stack([_figures(row, evidence, keep, name, shuffle) for row in scores])  # (K, L, 3)
    table = np.stack([rows[index] for index in range(len(items))])  # (N, K, L, 3)
    groups = np.array([item.group for item in items])
    titles = [title_of(scorer.spec, probe if name == "logat" else "") for probe in probes]
    return [_summary(title, scorer.spec, layers, table[:, k], groups) for k, title in enumerate(titles)]


def accuracy(model: TaskModel, items: Sequence[Item]) -> dict[str, tuple[float, ...]]:
    """Measure how often the target's logit exceeds the foil's, when the head reads each layer.

    Returns:
        For "all" and each group one share for each layer; the last is the model's accuracy.
    """
    rows: dict[int, Array] = {}
    for index, scores, _ in _scored(model, items, method_named("logat"), (), None):  # (2, L, T)
        logits = scores[:2, :, items[index].position]  # (2, L)
        rows[index] = (logits[0] > logits[1]).astype(np.float64)  # (L,)
    table = np.stack([rows[index] for index in range(len(items))])  # (N, L)
    groups = np.array([item.group for item in items])
    return {group: tuple(table[members].mean(0).tolist()) for group, members in _groups(groups)}


def _scored(
    model: TaskModel,
    items: Sequence[Item],
    method: Method,
    words: Sequence[str],
    on_progress: Callable[[str, int, int], None] | None,
) -> Iterator[tuple[int, Array, tuple[int, ...]]]:
    """Yield each item's index, its scores, (K, L, T), and the layers; K is target, foil and words, for LogAt only."""
    info = method.info
    fixed = [index_of(model.task, word, model.vocabulary_size) for word in words] if info.name == "logat" else []
    each = info.per_layer and info.name not in LAST_LAYER

    def work(chunk: Sequence[Item], places: list[int]) -> list[tuple[Array, tuple[int, ...]]]:
        batch = model.batch([chunk[i].encoding for i in places], places)
        model.prepare(batch)
        layers = tuple(range(1, model.layer_count() + 1)) if each else ()
        with torch.inference_mode():
            run = model.run(batch, layers=each)
        rows = [[chunk[i].target] + ([chunk[i].foil, *fixed] if info.name == "logat" else []) for i in places]
        ids = torch.tensor(rows, device=run.logits.device)  # (B, K)
        target = BatchTargets(ids, None, run.positions, True, model.task)
        request = Request(model, run, target, layers)
        scores = run_method(method, request).values.detach().float().cpu().numpy()  # (B, K, L, T)
        real = batch.mask.cpu().numpy()  # (B, T)
        check_finite(method, request, scores.transpose(0, 3, 2, 1)[real])  # (N, L, K)
        shown = layers or ((0,) if info.name in ("input-norm", "random") else (model.layer_count(),))
        return [(values[..., mask], shown) for values, mask in zip(scores, real, strict=True)]  # (K, L, T) each

    for start in range(0, len(items), CHUNK):
        chunk = items[start : start + CHUNK]
        results: dict[int, tuple[Array, tuple[int, ...]]] = {}
        for attempt in batch_attempts(model, [item.encoding for item in chunk]):
            with attempt as places:
                results.update(zip(places, work(chunk, places), strict=True))
        for place in range(len(chunk)):
            yield start + place, *results[place]
        if on_progress is not None:
            on_progress(method.spec, min(start + CHUNK, len(items)), len(items))


def _figures(
    scores: Array, evidence: Mask, keep: npt.NDArray[np.integer[Any]], method: str, shuffle: np.random.Generator | None
) -> Array:
    """Return the metrics of one sentence, (L, 3), for scores (L, T)."""
    relevant = evidence[keep]
    rows = []
    for layer in scores[:, keep]:
        values = np.zeros_like(layer) if method == "random" else layer
        ranked = shuffle.random(len(values)) if method == "random" and shuffle is not None else values
        shares = (dot_product(values, relevant, "softmax"), dot_product(values, relevant, "sum"))
        rows.append((*shares, average_precision(ranked, relevant)))
    return np.array(rows)


def _summary(title: str, method: str, layers: tuple[int, ...], table: Array, groups: npt.NDArray[np.str_]) -> Alignment:
    figures: dict[str, dict[str, tuple[float, ...]]] = {}
    errors: dict[str, dict[str, tuple[float, ...]]] = {}
    count = {}
    for group, members in _groups(groups):
        rows = table[members]  # (n, L, 3)
        spread = rows.std(0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.zeros(rows.shape[1:])  # (L, 3)
        figures[group] = {name: tuple(rows.mean(0)[:, i].tolist()) for i, name in enumerate(METRICS)}
        errors[group] = {name: tuple(spread[:, i].tolist()) for i, name in enumerate(METRICS)}
        count[group] = len(rows)
    return Alignment(title, method, layers, figures, errors, count)


def _groups(groups: npt.NDArray[np.str_]) -> Iterator[tuple[str, Mask]]:
    """Yield all sentences, then those of each group."""
    yield "all", np.ones(len(groups), dtype=bool)
    for group in dict.fromkeys(groups.tolist()):
        yield group, groups == group
