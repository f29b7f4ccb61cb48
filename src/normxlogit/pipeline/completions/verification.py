"""Verify completions: what one loses without the words or sources of its prompt that have the highest scores."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray
from ...results.units.spans import NamedSpan
from ...results.units.words import UnitScore
from ...results.verification import Unit
from ..options import Verify
from ..removable import with_spaces_before
from ..verification import SHOWN, Answer, MeasuredQuantity, Tokens, run_searches
from .ablations import Ablations
from .completed import Completed


def with_completion_verifications(
    model: TaskModel, completed: Sequence[Completed], results: Sequence[Attribution], verify: Verify
) -> list[Attribution]:
    """Return results with the log-probability of each completion without words or sources of its prompt.

    Args:
        model: The language model.
        completed: The prompts with their completions.
        results: Their explanations.
        verify: How many of them are removed; None for no verification.
    """
    if verify is None:
        return list(results)
    return [_verified(model, prompt, result, verify) for prompt, result in zip(completed, results, strict=True)]


def _verified(model: TaskModel, completed: Completed, g: Attribution, verify: Verify) -> Attribution:
    unit: Unit = "word" if g.has_words else "token"
    if g.units.kind[0] != "token":
        unit, (parts, pieces) = "source", _sources(g, completed)
    else:
        parts = _words(g) if g.text_units == len(completed.joined().encoding) else []
        pieces = [NamedSpan(part.text, 0, 0, part.tokens) for part in parts]
    if len(parts) < 2 or verify is None:
        kind = "sources" if unit == "source" else "words"
        return replace(g, notes=(*g.notes, f"not verified: the prompt has no two {kind} that could be removed"))
    count = min(SHOWN if verify == "auto" else verify, len(parts) - 1)  # a completion of nothing is none
    ablations = Ablations(model, completed, pieces)

    def answers(keys: list[tuple[int, Tokens]]) -> Iterable[Answer]:
        removed = [set(units) for _, units in keys]
        present = np.array([[not units.issuperset(part.tokens) for part in parts] for units in removed])  # (N, W)
        return [Answer(None, float(nats), None) for nats in ablations(present).sum(1)]

    measured = MeasuredQuantity("the completion", "log-probability", unit, "deleted")
    (verification,) = run_searches([(parts, measured)], count, answers)
    return replace(g, verified=verification)


def _sources(g: Attribution, completed: Completed) -> tuple[list[UnitScore], list[NamedSpan]]:
    """Return the sources of the prompt that are text, by their places among the units, and where their tokens are."""
    sequence, totals = completed.sequenced(), _totals(g)
    parts, pieces = [], []
    for i in g.units.sources:
        start, end = (g.units.spans or ())[i]
        tokens = sequence.tokens_in(start, end, of_answer=False) if g.units.kind[i] not in ("medium", "region") else ()
        if tokens:
            parts.append(UnitScore(g.units.names[i], (i,), float(totals[i])))
            pieces.append(NamedSpan(parts[-1].text, start, end, tokens))
    return parts, pieces


def _words(g: Attribution) -> list[UnitScore]:
    """Return the words of the prompt with their scores."""
    prompt_tokens, totals = g.prompt_tokens or 0, _totals(g)
    if g.has_words:
        units = [(word.text, tuple(i for i in word.tokens if i < prompt_tokens)) for word in g.words()]
    else:
        units = [(g.tokens[i], (i,)) for i in range(prompt_tokens) if not g.special_tokens_mask[i]]
    media = {token for medium in g.media for token in medium.tokens}
    words = [
        UnitScore(text, tokens, float(totals[list(tokens)].sum()))
        for text, tokens in units
        if tokens and media.isdisjoint(tokens)
    ]
    return with_spaces_before(words)


def _totals(g: Attribution) -> FloatArray:
    """Return the scores summed over the completion, (U,); of several layers the last."""
    g = g if g.layers is None else g.layer(g.layers[-1])
    totals: FloatArray = g.scores.sum(0)
    return totals
