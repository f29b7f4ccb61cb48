"""Answers of a causal language model after subsets of a prompt's documents; common beginnings are read once.

Prompts with different subsets of documents begin alike, so they are read as a tree: a document is read once for all
subsets that agree on the documents before it, with the keys and values of these from the model's cache.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import DynamicCache

Booleans = npt.NDArray[np.bool_]
Array = npt.NDArray[np.float64]


class PromptPieces(NamedTuple):
    """The token ids of a prompt with its answer, cut where documents begin and end.

    Attributes:
        start: What stands before the documents.
        documents: Each document with its name.
        end: What stands behind them, with the answer.
        answer_tokens: How many of the last tokens are the answer.
    """

    start: list[int]
    documents: list[list[int]]
    end: list[int]
    answer_tokens: int


class AnswerLoss(NamedTuple):
    """An answer after a subset of the documents.

    Attributes:
        nats: Its log-probability.
        divergence: The Jensen-Shannon divergence of its tokens' distributions from those with all documents, summed
            over its tokens, in nats (ARC-JSD; Li et al., 2025, arXiv 2505.16415); 0 where that was not asked for.
    """

    nats: float
    divergence: float = 0.0


@torch.inference_mode()
def answers_after(model: Any, pieces: PromptPieces, present: Booleans) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the log-probabilities of the answer's tokens over the vocabulary, (G, V), after subsets of documents.

    Args:
        model: A causal language model of transformers, with a cache that can be cut.
        pieces: The prompt with its answer.
        present: Which of D documents each subset holds, (N, D).

    Yields:
        The rows of `present` that are this subset, and the log-probabilities.
    """
    cache = DynamicCache()
    _read(model, cache, pieces.start)
    yield from _branches(model, cache, pieces, present, 0, np.arange(len(present)))


def _branches(
    model: Any, cache: DynamicCache, pieces: PromptPieces, present: Booleans, depth: int, rows: npt.NDArray[np.int_]
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield what `answers_after` does for the subsets of some rows, whose first documents the cache holds."""
    length = cache.get_seq_length()
    if depth == len(pieces.documents):
        logits = _read(model, cache, pieces.end, pieces.answer_tokens + 1)[:-1]  # (G, V)
        yield rows.tolist(), logits.float().log_softmax(-1)
    else:
        is_kept = present[rows, depth]
        if not is_kept.all():
            yield from _branches(model, cache, pieces, present, depth + 1, rows[~is_kept])
        if is_kept.any():
            _read(model, cache, pieces.documents[depth])
            yield from _branches(model, cache, pieces, present, depth + 1, rows[is_kept])
    if added := cache.get_seq_length() - length:
        cache.crop(-added)  # the caller's beginning stays


def _read(model: Any, cache: DynamicCache, ids: Sequence[int], count: int = 1) -> Tensor:
    """Read tokens behind those of a cache, and return the logits at the last `count` of them, (count, V)."""
    if not ids:
        return torch.zeros(0)
    tokens = torch.tensor([list(ids)], device=model.device)
    logits: Tensor = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=count).logits[0]
    return logits


def measured_losses(model: Any, pieces: PromptPieces, present: Booleans) -> list[AnswerLoss]:
    """Return the answer after each subset of the documents, (N, D).

    Args:
        model: As for `answers_after`.
        pieces: The prompt with its answer.
        present: The subsets; divergences are measured where the first of them holds all documents.
    """
    answer_ids = _answer_ids(model, pieces)
    nats = np.zeros(len(present))
    logs_of_row: dict[int, Tensor] = {}  # (G, V) each; for divergences alone, as they take much memory
    for rows, logs in answers_after(model, pieces, present):
        nats[rows] = float(logs.gather(1, answer_ids).double().sum())
        if present[0].all():
            logs_of_row |= dict.fromkeys(rows, logs)
    if not logs_of_row:
        return [AnswerLoss(value) for value in nats.tolist()]
    return [
        AnswerLoss(value, jensen_shannon(logs_of_row[0], logs_of_row[row])) for row, value in enumerate(nats.tolist())
    ]


def token_nats(model: Any, pieces: PromptPieces, present: Booleans) -> Array:
    """Return the log-probability of each token of the answer after each subset of the documents, (N, G).

    Args:
        model: As for `answers_after`.
        pieces: The prompt with its answer.
        present: The subsets, (N, D).
    """
    answer_ids, nats = _answer_ids(model, pieces), np.zeros((len(present), pieces.answer_tokens))
    for rows, logs in answers_after(model, pieces, present):
        nats[rows] = logs.gather(1, answer_ids)[:, 0].double().cpu().numpy()
    return nats


def _answer_ids(model: Any, pieces: PromptPieces) -> Tensor:
    """Return the token ids of the answer, (G, 1)."""
    return torch.tensor(pieces.end[-pieces.answer_tokens :], device=model.device)[:, None]


def jensen_shannon(first: Tensor, second: Tensor) -> float:
    """Return the Jensen-Shannon divergence of distributions, summed over tokens, in nats.

    Args:
        first: Log-probabilities, (G, V).
        second: The same of other distributions.
    """
    mean = torch.logaddexp(first, second) - np.log(2)  # (G, V)
    return sum(float((logs.exp() * (logs - mean)).sum()) for logs in (first, second)) / 2


def one_left_out(documents: int) -> Booleans:
    """Return all documents, and the subsets without one of them, (D + 1, D)."""
    return np.concatenate([np.ones((1, documents), bool), ~np.eye(documents, dtype=bool)])
