"""Perturbed texts: what a model answers without the tokens of the highest scores, and with these alone."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..errors import DataError
from ..inputs.encoding import Encoding
from ..leave_out.removal import TextRemoval
from ..leave_out.text_answers import TextAnswers
from ..results.attribution import Attribution
from .options import Protocol
from .statistics import Array

LEVELS = tuple(tenths / 10 for tenths in range(1, 10))
"""Shares of the tokens that are perturbed; figures are means over these levels."""


class Perturbed(NamedTuple):
    """What a model answers to N texts at the 9 `LEVELS`; drops are those of the label that it predicts of a text."""

    drops: Array  # (N, 9), without the tokens of the highest scores
    kept_drops: Array  # (N, 9), with these tokens alone
    outputs: Array  # (9, N): the predicted class, or the value, without the tokens of the highest scores
    whole_outputs: Array  # (N,): the same of the whole texts


def perturb(answers: TextAnswers, attributions: Sequence[Attribution], protocol: Protocol) -> Perturbed:
    """Take tokens out of texts, at each level those of the highest scores, and then all others instead.

    Args:
        answers: The model's answers to the texts without some of their tokens.
        attributions: The scores of the tokens of each text, N of them.
        protocol: As in `faithfulness.evaluate`.

    Raises:
        DataError: If there are not as many scores as tokens.
    """
    regression = answers.model.task.outputs.kind == "value"
    whole = _values_without(answers, [[] for _ in attributions])  # (N, C)
    drops = []  # of each level, (N,)
    kept_drops = []  # of each level, (N,)
    outputs = []  # of each level, (N,)
    for level in LEVELS:
        tokens_of_texts = [
            split(encoding, attribution.scores, level, protocol)
            for encoding, attribution in zip(answers.encodings, attributions, strict=True)
        ]
        without_top = _values_without(answers, [tokens.top for tokens in tokens_of_texts])  # (N, C)
        top_alone = _values_without(answers, [tokens.rest for tokens in tokens_of_texts])  # (N, C)
        drops.append(_drop_to(without_top, whole, regression=regression))
        kept_drops.append(_drop_to(top_alone, whole, regression=regression))
        outputs.append(_outputs_of(without_top, regression=regression))
    return Perturbed(
        drops=np.stack(drops, 1),
        kept_drops=np.stack(kept_drops, 1),
        outputs=np.stack(outputs),
        whole_outputs=_outputs_of(whole, regression=regression),
    )


class SplitTokens(NamedTuple):
    """The tokens of a text that may be perturbed, by their positions."""

    top: list[int]  # those of the highest scores
    rest: list[int]


def split(encoding: Encoding, scores: npt.NDArray[np.floating[Any]], level: float, protocol: Protocol) -> SplitTokens:
    """Return the positions of the highest scored tokens at a level, and of the other tokens that may be perturbed.

    Args:
        encoding: The text.
        scores: Of its tokens, (T,).
        level: The share of tokens, from 0 to 1.
        protocol: As in `faithfulness.evaluate`.

    Raises:
        DataError: If there are not as many scores as tokens.
    """
    if len(scores) != len(encoding):
        raise DataError(f"{len(scores)} scores for {len(encoding)} tokens")
    if protocol == "published":
        candidates = np.arange(1, len(encoding))  # all but the first token, [CLS]
        count = int(len(encoding) * level)
    else:
        candidates = np.flatnonzero(~np.asarray(encoding.special))
        count = round(level * len(candidates))
    ranked = candidates[np.argsort(-np.asarray(scores)[candidates], kind="stable")].tolist()
    return SplitTokens(ranked[:count], ranked[count:])


def _values_without(answers: TextAnswers, removed: Iterable[list[int]]) -> Array:
    """Return the probabilities, or the output of a regression model, without some tokens of each text, (N, C).

    Args:
        answers: The model's answers to the texts without some of their tokens.
        removed: The positions of the tokens that are taken out of each text, in any order.
    """
    removals = [TextRemoval(text, tuple(sorted(tokens))) for text, tokens in enumerate(removed)]
    # Every answer of a classifier, or regression, has logits: the condition is for the type checker.
    logits = torch.stack([answer.logits for answer in answers(removals) if answer.logits is not None])
    probabilities = answers.model.task.outputs.probabilities(logits)  # (N, C)
    return (logits if probabilities is None else probabilities).double().numpy()  # (N, C)


def _outputs_of(values: Array, *, regression: bool) -> Array:
    """Return the predicted class, or the output of a regression model, (N,), of values, (N, C)."""
    return values.ravel() if regression else values.argmax(1).astype(np.float64)


def _drop_to(values: Array, whole: Array, *, regression: bool) -> Array:
    """Return the drop of the probability of the label that is predicted of each whole text, (N,).

    Args:
        values: The probabilities for the perturbed texts, (N, C), or the outputs of a regression model, (N, 1).
        whole: The same for the whole texts.
        regression: Whether they are outputs of a regression model: then the size of their change is returned.
    """
    rows, predicted = np.arange(len(whole)), whole.argmax(1)  # (N,) each
    drop: Array = whole[rows, predicted] - values[rows, predicted]  # (N,)
    return np.abs(drop) if regression else drop


def hits(outputs: Array, gold: Array) -> Array:
    """Return 1 for each predicted class that is right and 0 for others, (N,).

    Args:
        outputs: The predicted classes, (N,).
        gold: The right classes, (N,); for labels that do not exclude each other a 1 or a 0 for each, (N, C).
    """
    if gold.ndim == 1:
        return (gold == outputs) * 1.0
    is_right: Array = gold[np.arange(len(outputs)), outputs.astype(int)]  # (N,)
    return is_right


def quality(outputs: Array, gold: Array, *, regression: bool) -> float:
    """Return the accuracy of predicted classes, or Pearson's correlation of values with the right ones.

    Args:
        outputs: The predicted classes, or values, (N,).
        gold: The right ones, (N,); for labels that do not exclude each other a 1 or a 0 for each, (N, C).
        regression: Whether they are values.
    """
    if not regression:
        return float(hits(outputs, gold).mean())
    from scipy.stats import pearsonr

    # Texts that are masked to the same text have one value, and a constant has no correlation.
    varied = np.ptp(outputs) and np.ptp(gold)
    return float(pearsonr(outputs, gold).statistic) if varied else 0.0  # pyright: ignore[reportAttributeAccessIssue]
