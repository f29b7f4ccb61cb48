"""The logits of a language model's head, with a graph to the states that it reads."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from ..copies.non_finite import mean_logit
from .backward import BACKPROPAGATED_AT_ONCE, RecordedInputs, frozen_backward

HeadAnswer = tuple[Tensor, Tensor]
"""States, (n, H), and the head's logits for them, (n, V), with the graph between them."""


def head_answers(head: Callable[[Tensor], Tensor], states: Tensor, *, gradients: bool = True) -> Iterator[HeadAnswer]:
    """Yield a head's logits for a few states at a time, with a graph that begins at these states.

    Args:
        head: Returns the logits, (n, V), of states, (n, H).
        states: The head's inputs, (N, H).
        gradients: Whether a graph is recorded.
    """
    for part in states.split(BACKPROPAGATED_AT_ONCE):
        leaf = part.detach().requires_grad_(gradients)
        with torch.set_grad_enabled(gradients), RecordedInputs():
            logits = head(leaf).float()
        yield leaf, logits


def contrasted_logits(
    answers: Iterable[HeadAnswer], states: Tensor, ids: Tensor, contrast: Tensor | None = None
) -> Tensor:
    """Return the logits of K entries for each state, minus the contrast's or the mean over the vocabulary, (N, K).

    Each depends on its own state alone, so the head's gradients are taken here, for few places at a time. Where the
    answers are computed as they are asked for, no logits are kept for the backward pass.

    Args:
        answers: The head's, to the states in their order.
        states: The head's inputs, (N, H), with or without a graph.
        ids: The vocabulary entries, (N, K).
        contrast: The entries whose logits are subtracted, (N,).
    """
    values, gradients, start = [], [], 0
    for leaf, logits in answers:
        rows = slice(start, start := start + len(leaf))
        subtracted = mean_logit(logits) if contrast is None else logits.gather(-1, contrast[rows, None])  # (n, 1)
        value = logits.gather(-1, ids[rows]) - subtracted  # (n, K)
        values.append(value.detach())
        if states.requires_grad:
            totals = value.sum(0)  # (K,)
            with frozen_backward(totals, [leaf]):
                by_target = [torch.autograd.grad(total, leaf, retain_graph=True)[0] for total in totals]  # (n, H) each
            gradients.append(torch.stack(by_target, 1))
    answer = torch.cat(values)
    if not gradients:
        return answer
    return answer + ((states - states.detach())[:, None] * torch.cat(gradients)).sum(-1)
