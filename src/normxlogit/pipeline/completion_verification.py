"""Verify completions: what a completion loses without the words of its prompt that have the highest scores."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..models.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.spans import Piece
from ..results.verification import Unit
from .ablations import Ablations
from .completed import Completed
from .options import Verify
from .verification import SHOWN, Answer, Measured, Part, Tokens, run_searches


def with_completion_verifications(
    model: TaskModel, completed: Sequence[Completed], results: Sequence[Attribution], verify: Verify
) -> list[Attribution]:
    """Return results with the log-probability of each completion without words of its prompt.

    Args:
        model: The language model.
        completed: The prompts with their completions.
        results: Their explanations.
        verify: How many words are removed; None for no verification.
    """
    if verify is None:
        return list(results)
    return [_verified(model, one, result, verify) for one, result in zip(completed, results, strict=True)]


def _verified(model: TaskModel, completed: Completed, g: Attribution, verify: Verify) -> Attribution:
    parts = _parts(g) if g.text_units == len(completed.joined().encoding) else []
    if len(parts) < 2 or verify is None:
        return replace(g, notes=(*g.notes, "not verified: the prompt has no two words that could be removed"))
    count = min(SHOWN if verify == "auto" else verify, len(parts) - 1)  # a completion of nothing is none
    pieces = [Piece(part.text, 0, 0, part.tokens) for part in parts]
    ablations = Ablations(model, completed, pieces)

    def answers(keys: list[tuple[int, Tokens]]) -> Iterable[Answer]:
        removed = [set(tokens) for _, tokens in keys]
        present = np.array([[not tokens.issuperset(piece.tokens) for piece in pieces] for tokens in removed])  # (N, W)
        return [Answer(None, float(nats), None) for nats in ablations(present).sum(1)]

    unit: Unit = "word" if g.has_words else "token"
    measured = Measured("the completion", "log-probability", unit, "deleted")
    (verification,) = run_searches([(parts, measured)], count, answers)
    return replace(g, verified=verification)


def _parts(g: Attribution) -> list[Part]:
    """Return the words of the prompt with their scores, summed over the completion; of several layers the last."""
    g = g if g.layers is None else g.layer(g.layers[-1])
    prompt_tokens = g.prompt_tokens or 0
    totals = g.scores.sum(0)  # (T,)
    if g.has_words:
        units = [(word.text, tuple(i for i in word.tokens if i < prompt_tokens)) for word in g.words()]
    else:
        units = [(g.tokens[i], (i,)) for i in range(prompt_tokens) if not g.special_tokens_mask[i]]
    media = {token for medium in g.media for token in medium.tokens}
    return [
        Part(text, tokens, float(totals[list(tokens)].sum()))
        for text, tokens in units
        if tokens and text.strip() and media.isdisjoint(tokens)
    ]
