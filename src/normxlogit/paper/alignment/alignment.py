"""Metrics of the alignment of scores with linguistic evidence (NormXLogit, EMNLP 2025, experiment 2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from ...errors import DataError
from ...evaluation.faithfulness import Protocol
from ...methods import Method, Request, check_finite, method_named, run_method
from ...models.map_batches import map_batches
from ...models.targets import Target, index_of
from ...models.task_model import TaskModel
from ..sentence_pairs import Item

__all__ = [
    "METHODS",
    "METRICS",
    "Alignment",
    "Normalisation",
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
"""Methods whose scores the paper normalises by a softmax; the others' it divides by their sum."""

LAST_LAYER = ("decompx",)
"""Methods measured for the model's answer only, although they could give layers."""

CHUNK = 256
"""Sentences read at once, for the progress to move."""

Array = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Alignment:
    """Alignment of one series of scores with the evidence.

    Attributes:
        title: What was scored, such as "logat(target)".
        method: The method's name.
        layers: The layers measured; 0 is the embeddings.
        figures: For "all" and each paradigm, and each metric: means over the sentences, one for each layer.
        errors: Their standard errors.
        count: Sentences, for "all" and each paradigm.
    """

    title: str
    method: str
    layers: tuple[int, ...]
    figures: Mapping[str, Mapping[str, tuple[float, ...]]]
    errors: Mapping[str, Mapping[str, tuple[float, ...]]]
    count: Mapping[str, int]


def dot_product(scores: Array, evidence: Mask, normalisation: Normalisation = "softmax") -> float:
    """Return the share of the total score that lies on the evidence.

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
    """Return the area under the steps of precision over recall: sum over k of (R_k - R_{k-1}) P_k.

    Without ties it is scikit-learn's `average_precision_score`. Tied tokens stand in no order, so the figure is the
    mean over all their orders; for constant scores that is what shuffled ranks give on average. (scikit-learn takes a
    group of ties as one step, which counts constant scores as the share of the evidence.)

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
    ranked, found, result = 0, 0.0, 0.0
    for size, here in zip(sizes.tolist(), relevant.tolist(), strict=True):
        if here:
            places = np.arange(size)  # (size,), how many of the group stand before
            # Where evidence stands at a place, each of those before it is evidence with chance (here-1) / (size-1).
            before = places * ((here - 1) / max(size - 1, 1))  # (size,)
            result += here / size * float(((found + 1 + before) / (ranked + 1 + places)).sum())
        ranked += size
        found += here
    return result / total


def normalisation_of(method: str) -> Normalisation:
    """Return how the paper normalises a method's scores."""
    return "softmax" if method in SOFTMAX else "sum"


def title_of(method: str, probe: str = "") -> str:
    """Return the title of a series: the method as it is written, and whose logit it reads."""
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
    """Measure one method on sentences with known evidence, at every layer where it gives layers.

    The masked position is left out before anything is normalised or ranked; special tokens stay. For causal models
    every token of the prefix is scored.

    Args:
        model: A language model.
        items: What it reads, with evidence.
        method: The method, or its name with settings. LogAt is measured for the target, the foil, and each word;
            others for the target.
        words: Further vocabulary entries whose LogAt is measured.
        protocol: "default" counts all tokens of an evidence word, and takes for "random" the mean over all orders;
            "published" counts the first token of each word, and shuffles.
        seed: Of the shuffles.
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
        raise DataError("alignment is measured on sentences with evidence, and there are some without")
    scorer = method_named(method)
    name = scorer.info.name
    probes = ["target", "foil", *words] if name == "logat" else ["target"]
    shuffle = np.random.default_rng(seed) if protocol == "published" else None
    layers: tuple[int, ...] = ()
    measured: dict[int, Array] = {}
    for place, scores, found in _scored(model, items, scorer, words, on_progress):  # (K, L, T)
        layers, item = found, items[place]
        keep = np.arange(scores.shape[-1])
        if item.encoding.position is not None:
            keep = np.delete(keep, item.position)
        evidence = np.zeros(scores.shape[-1], dtype=bool)
        evidence[[i for word in item.evidence for i in (word[:1] if protocol == "published" else word)]] = True
        measured[place] = np.stack([_figures(row, evidence, keep, name, shuffle) for row in scores])  # (K, L, 3)
    table = np.stack([measured[place] for place in range(len(items))])  # (N, K, L, 3)
    shorts = np.array([item.paradigm.short for item in items])
    titles = [title_of(scorer.spec, probe if name == "logat" else "") for probe in probes]
    return [_summary(title, scorer.spec, layers, table[:, k], shorts) for k, title in enumerate(titles)]


def accuracy(model: TaskModel, items: Sequence[Item]) -> dict[str, tuple[float, ...]]:
    """Measure how often the target's logit is above the foil's at the answer, when the head reads each layer.

    Returns:
        For "all" and each paradigm one share for each layer; the last is the model's own accuracy.
    """
    right: dict[int, Array] = {}
    for place, scores, _ in _scored(model, items, method_named("logat"), (), None):  # (2, L, T)
        at = scores[:2, :, items[place].position]  # (2, L)
        right[place] = (at[0] > at[1]).astype(np.float64)  # (L,)
    table = np.stack([right[place] for place in range(len(items))])  # (N, L)
    shorts = np.array([item.paradigm.short for item in items])
    return {group: tuple(table[rows].mean(0).tolist()) for group, rows in _groups(shorts)}


def _scored(
    model: TaskModel,
    items: Sequence[Item],
    method: Method,
    words: Sequence[str],
    on_progress: Callable[[str, int, int], None] | None,
) -> Iterator[tuple[int, Array, tuple[int, ...]]]:
    """Yield each item's index, its scores, (K, L, T), and the layers; K is target, foil and words, for LogAt only."""
    info = method.info
    fixed = [index_of(model, word, model.vocabulary_size) for word in words] if info.name == "logat" else []
    each = info.per_layer and info.name not in LAST_LAYER

    def work(chunk: Sequence[Item], places: list[int]) -> list[tuple[Array, tuple[int, ...]]]:
        batch = model.batch([chunk[i].encoding for i in places], places)
        model.prepare(batch)
        layers = tuple(range(1, model.layer_count() + 1)) if each else ()
        with torch.inference_mode():
            run = model.run(batch, layers=each)
        asked = [[chunk[i].target] + ([chunk[i].foil, *fixed] if info.name == "logat" else []) for i in places]
        ids = torch.tensor(asked, device=run.logits.device)  # (B, K)
        target = Target(ids, None, run.positions, True, model.task)
        request = Request(model, run, target, layers)
        scores = run_method(method, request).values.detach().float().cpu().numpy()  # (B, K, L, T)
        real = batch.mask.cpu().numpy()  # (B, T)
        check_finite(method, request, scores.transpose(0, 3, 2, 1)[real])  # (N, L, K)
        shown = layers or ((0,) if info.name in ("input-norm", "random") else (model.layer_count(),))
        return [(own[..., there], shown) for own, there in zip(scores, real, strict=True)]  # (K, L, T) each

    for start in range(0, len(items), CHUNK):
        chunk = items[start : start + CHUNK]
        found = map_batches(model, [item.encoding for item in chunk], partial(work, chunk))
        for place, (scores, layers) in enumerate(found, start):
            yield place, scores, layers
        if on_progress is not None:
            on_progress(method.spec, min(start + CHUNK, len(items)), len(items))


def _figures(
    scores: Array, evidence: Mask, keep: npt.NDArray[np.integer[Any]], method: str, shuffle: np.random.Generator | None
) -> Array:
    """Return the metrics of one sentence, (L, 3), for scores (L, T)."""
    known = evidence[keep]
    rows = []
    for layer in scores[:, keep]:
        own = np.zeros_like(layer) if method == "random" else layer
        ranked = shuffle.random(len(own)) if method == "random" and shuffle is not None else own
        rows.append(
            (dot_product(own, known, "softmax"), dot_product(own, known, "sum"), average_precision(ranked, known))
        )
    return np.array(rows)


def _summary(title: str, method: str, layers: tuple[int, ...], table: Array, shorts: npt.NDArray[np.str_]) -> Alignment:
    figures: dict[str, dict[str, tuple[float, ...]]] = {}
    errors: dict[str, dict[str, tuple[float, ...]]] = {}
    count = {}
    for group, rows in _groups(shorts):
        own = table[rows]  # (n, L, 3)
        spread = own.std(0, ddof=1) / np.sqrt(len(own)) if len(own) > 1 else np.zeros(own.shape[1:])  # (L, 3)
        figures[group] = {name: tuple(own.mean(0)[:, i].tolist()) for i, name in enumerate(METRICS)}
        errors[group] = {name: tuple(spread[:, i].tolist()) for i, name in enumerate(METRICS)}
        count[group] = len(own)
    return Alignment(title, method, layers, figures, errors, count)


def _groups(shorts: npt.NDArray[np.str_]) -> Iterator[tuple[str, Mask]]:
    """Yield all sentences, then those of each paradigm."""
    yield "all", np.ones(len(shorts), dtype=bool)
    for short in dict.fromkeys(shorts.tolist()):
        yield short, shorts == short
