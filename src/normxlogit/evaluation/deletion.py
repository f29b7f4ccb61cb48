"""Deletion curve of one explanation: the model's answer as its words are deleted, highest scores first."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from ..errors import DataError, UnsupportedModelError
from ..explainer import Explainer
from ..inputs.encoding import Encoding
from ..methods.perturbation import Floats, PerturbedAnswers
from ..models.masking import masks, moved_position, remove_tokens
from ..results.attribution import Attribution

__all__ = ["DeletionCurve", "deletion_curve"]


@dataclass(frozen=True)
class DeletionCurve:
    """A model's answers for the target as more and more of a text is deleted.

    Attributes:
        quantity: What the values are: the target's probability, or the value of a regression model.
        units: What was deleted, the highest scored first: words, or tokens where words are not known.
        shares: The deleted share of them, from 0 to 1, (P,).
        highest_first: The values when the highest scored ones are deleted first, (P,).
        lowest_first: The values when the lowest scored ones are deleted first, (P,).
        masked: Whether they are replaced by the mask token instead of deleted.
    """

    target: str
    quantity: Literal["probability", "value"]
    units: tuple[str, ...]
    shares: tuple[float, ...]
    highest_first: tuple[float, ...]
    lowest_first: tuple[float, ...]
    masked: bool

    @property
    def gap(self) -> float:
        """The area between the two curves: 0 for a random order, larger for a more faithful one, 1 at most."""
        difference = np.subtract(self.lowest_first, self.highest_first)
        widths = np.diff(self.shares)
        return float((widths * (difference[1:] + difference[:-1]) / 2).sum())


def deletion_curve(explainer: Explainer, attribution: Attribution, *, points: int = 20) -> DeletionCurve:
    """Delete the words of a text in the order of their scores, and record the model's answer after each step.

    Of a result with several labels or layers, choose one with `select` first.

    Args:
        explainer: The model that the result is of.
        attribution: The result: one score for each token.
        points: Most points of the curve after the full text; in a longer text several words are deleted at a time.

    Raises:
        DataError: If there is no text, several scores for each token, or these are not this model's tokens.
        UnsupportedModelError: If the model neither classifies nor predicts a token.
    """
    a, model = attribution, explainer._model
    if a.text is None or a.scores.ndim != 1:
        raise DataError("a deletion curve needs the text and one score for each token; choose with select(...)")
    if not (model.task.head_reads_tokens and model.task.reads_tokens):
        raise UnsupportedModelError(f"deletion curves are of classifiers and language models, not of {model.task.name}")
    (encoding,) = explainer.encode([a.text if a.text_pair is None else (a.text, a.text_pair)])
    if tuple(encoding.ids) != a.token_ids:
        raise DataError("the tokens of the result are not those that this model reads in its text")
    units = _units(a)
    if not units:
        raise DataError("the text has only special tokens, and nothing to delete")
    order = sorted(units, key=lambda unit: -unit[2])  # stable: ties go to the earlier one
    counts = np.unique(np.linspace(0, len(order), min(points, len(order)) + 1).round().astype(int)).tolist()
    removed = [
        tuple(sorted(i for _, tokens, _ in ranked[:n] for i in tokens))
        for ranked in (order, order[::-1])
        for n in counts
    ]
    values = [float(value) for value in _perturbed(explainer, a, encoding)(removed)]
    (label,) = a.target.labels
    return DeletionCurve(
        target=label,
        quantity="value" if a.target.kind == "value" else "probability",
        units=tuple(name for name, _, _ in order),
        shares=tuple(n / len(order) for n in counts),
        highest_first=tuple(values[: len(counts)]),
        lowest_first=tuple(values[len(counts) :]),
        masked=masks(model),
    )


def _units(a: Attribution) -> list[tuple[str, tuple[int, ...], float]]:
    """Return the name, tokens and score of each unit that can be deleted: not the mask whose token is explained."""
    explained = a.target.position if a.target.kind == "token" else None
    if a.has_words:
        units = [(word.text, word.tokens, float(word.score)) for word in a.words()]
    else:
        visible = [i for i, special in enumerate(a.special_tokens_mask) if not special]
        units = [(a.tokens[i], (i,), float(a.scores[i])) for i in visible]
    return [unit for unit in units if explained not in unit[1] or len(units) == 1]


def _perturbed(explainer: Explainer, a: Attribution, encoding: Encoding) -> PerturbedAnswers[tuple[int, ...]]:
    """Return the target's probability (or value) as a function of the tokens that are removed from the text."""
    model, (target,), position = explainer._model, a.target.ids, a.target.position

    def read(encodings: list[Encoding], removed: list[tuple[int, ...]]) -> Floats:
        batch = model.batch(encodings, list(range(len(encodings))))
        model.prepare(batch)
        positions = None
        if position is not None:
            places = [moved_position(model, position, tokens) for tokens in removed]
            positions = torch.tensor(places, device=batch.mask.device)  # (B,)
        logits = model.answer(batch.inputs, positions)  # (B, C)
        chances = model.task.probabilities(logits)  # (B, C)
        probabilities: Floats = (logits if chances is None else chances)[:, target].double().cpu().numpy()  # (B,)
        return probabilities

    return PerturbedAnswers(model, lambda removed: remove_tokens(model, encoding, removed), read)
