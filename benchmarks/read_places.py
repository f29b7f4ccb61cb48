"""Where a language model's frozen gradient is read, against leave-one-out: means over layers, and places by token.

Contributions at every layer come from one backward pass for each text; each place is a mean of them. Leave-one-out
takes a token out, closes the text up and measures the log-probability of the most likely next token again.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from normxlogit import ALL, Explainer
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.statistics import interval_text, mean_interval, rank_correlation

__all__ = ["PLACES", "Read", "load_subjects", "read", "subject_table", "table"]

Array = npt.NDArray[np.float64]

LEAST = 3
"""Tokens that a text must have."""


@dataclass(frozen=True)
class Read:
    """Contributions of the T tokens of a text to its next token.

    Attributes:
        layers: At the word embeddings and the layers 1 to L, attention sinks held, (L + 1, T).
        removed: What the next token's log-probability loses without each token, (T,).
        subject: Which tokens are of the text's subject, (T,).
    """

    layers: Array
    removed: Array
    subject: npt.NDArray[np.bool_]


def _mean(first: float, last: float) -> Callable[[Array], Array]:
    """Return the mean over layers, given as shares of their number; layer 0 is the word embeddings."""

    def place(layers: Array) -> Array:
        count = len(layers) - 1
        mean: Array = layers[int(first * count) : int(last * count) + 1].mean(0)
        return mean

    return place


def _all(layers: Array) -> Array:
    mean: Array = layers[1:-1].mean(0)
    return mean


def _falling(layers: Array) -> Array:
    weights = np.arange(len(layers) - 2, 0, -1)
    mean: Array = np.average(layers[1:-1], axis=0, weights=weights)
    return mean


def _rising(layers: Array) -> Array:
    mean: Array = np.average(layers[1:-1], axis=0, weights=np.arange(1, len(layers) - 1))
    return mean


def _split(text: Callable[[Array], Array], last: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a place for the tokens of a text and another for the last one, from which the answer is read."""
    return lambda layers: np.append(text(layers)[:-1], last(layers)[-1])


EMBEDDINGS, QUARTER, HALF = _mean(0, 0), _mean(0.04, 0.25), _mean(0.04, 0.5)

PLACES: dict[str, Callable[[Array], Array]] = {
    "all layers, the default": _all,
    "word embeddings": EMBEDDINGS,
    "first quarter": QUARTER,
    "first half": HALF,
    "second quarter": _mean(0.25, 0.5),
    "middle half": _mean(0.25, 0.75),
    "middle": _mean(0.5, 0.5),
    "all, falling weights": _falling,
    "all, rising weights": _rising,
    "all; last token at the embeddings": _split(_all, EMBEDDINGS),
    "all; last token in the first quarter": _split(_all, QUARTER),
    "all; last token in the first half": _split(_all, HALF),
    "middle half; last token in the first quarter": _split(_mean(0.25, 0.75), QUARTER),
    "position: the last token": lambda layers: np.arange(layers.shape[1], dtype=np.float64),
}
"""What is compared, each a function of the contributions at all layers."""


def load_subjects(path: Path) -> list[tuple[str, list[str]]]:
    """Read JSON lines with a "text" and the words of its "subject"."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["text"], row["subject"]) for row in rows]


def read(explainer: Explainer, texts: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Read]:
    """Explain the next token of each text at all layers, and leave out one token at a time.

    Args:
        explainer: A causal language model that adds no special tokens to a text.
        texts: Beginnings of texts with the words of their subjects.

    Yields:
        One for each text of three tokens and more.
    """
    module: Any = explainer._model.module
    for text, words in texts:
        (ids,) = (encoding.ids for encoding in explainer.encode([text]))
        if len(ids) < LEAST:
            continue
        embedded = explainer(text, method="frozen-gradient:read_at=0")
        layers = explainer(text, method="frozen-gradient", layers=ALL)
        without = torch.tensor([[*ids[:i], *ids[i + 1 :]] for i in range(len(ids))])  # (T, T - 1)
        with torch.inference_mode():
            whole = module(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)  # (V,)
            left = module(input_ids=without).logits[:, -1].log_softmax(-1)  # (T, V)
        target = layers.prediction.id
        spans = [(at, at + len(word)) for word in words for at in [text.index(word)]]
        inside = [any(a < end and b > start for start, end in spans) for a, b in layers.offsets or ()]
        yield Read(
            np.concatenate([embedded.scores[None], layers.scores]).astype(np.float64),
            (whole[target] - left[:, target]).double().numpy(),
            np.array(inside),
        )


def table(texts: Sequence[Read]) -> str:
    """Return how each place agrees with leave-one-out, among all tokens and among those before the last."""
    columns = ["read at", "first token as leave-one-out's ↑", "its nats ↑", "Spearman ↑"]
    columns += ["before the last: first ↑", "its nats ↑", "Spearman ↑", "share of the last token"]
    rows = []
    for name, place in PLACES.items():
        cells = []
        for end in (None, -1):
            pairs = [(place(text.layers)[:end], text.removed[:end]) for text in texts]
            agrees = mean_interval([float(scores.argmax() == removed.argmax()) for scores, removed in pairs])
            nats = sum(removed[scores.argmax()] for scores, removed in pairs) / sum(r.max() for _, r in pairs)
            rank = mean_interval([rank_correlation(scores, removed) for scores, removed in pairs])
            cells += [interval_text(agrees), f"{nats:.2f}", interval_text(rank)]
        last = np.mean([abs(scores[-1]) / np.abs(scores).sum() for scores in (place(text.layers) for text in texts)])
        rows.append([name, *cells, f"{last:.2f}"])
    return markdown_table(columns, rows)


def subject_table(texts: Sequence[Read]) -> str:
    """Return how often each place has a token of the subject among the two highest before the last token."""
    columns = ["read at", "subject among the two highest before the last ↑", "subject highest before the last ↑"]
    rows = []
    texts = [text for text in texts if text.subject[:-1].any()]
    compared = {"leave-one-out": [text.removed for text in texts]}
    compared |= {name: [place(text.layers) for text in texts] for name, place in PLACES.items()}
    for name, scores in compared.items():
        orders = [np.argsort(-each[:-1], kind="stable") for each in scores]
        both = zip(texts, orders, strict=True)
        hits = [(float(text.subject[order[:2]].any()), float(text.subject[order[0]])) for text, order in both]
        ranks = [rank_correlation(each, text.removed) for each, text in zip(scores, texts, strict=True)]
        intervals = [*(mean_interval(column) for column in zip(*hits, strict=True)), mean_interval(ranks)]
        rows.append([name, *map(interval_text, intervals)])
    return markdown_table([*columns, "Spearman with leave-one-out ↑"], rows)
