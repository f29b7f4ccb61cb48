"""The quantities of a language model's answer, of which no logits of the vocabulary are kept."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ..tasks.targets import BatchTargets
from .backward import frozen_backward
from .recording import Recording

BACKPROPAGATED_AT_ONCE = 8
"""Quantities that are backpropagated together; each needs memory for its own gradients."""

HeadCall = Callable[[Tensor], Tensor]
"""The head of a language model, a function of states, (N, H), that returns logits, (N, V)."""


def vocabulary_quantities(
    head: HeadCall, states: Tensor, target: BatchTargets, positions: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return a language model's quantities, with the gradients that its frozen head passes to the states.

    Args:
        head: The head.
        states: What it reads, (B, T, H).
        target: What is explained, K for each text, or one at each of G positions.
        positions: Where the answer is read, (B,) for K targets at one position, (B, G) for one at each; negative where
            a text has fewer than G.
        weights: Of sums of the G quantities, which are returned instead of each, (B, K, G).

    Returns:
        (B, K), (B, G), or sums, (B, K).
    """
    positions, ids = positions.cpu(), target.ids.to(states.device)  # on a GPU, `nonzero` would wait for the device
    if positions.ndim == 1:
        positions, ids = positions[:, None], ids[:, None]  # (B, 1), (B, 1, K)
    else:
        ids = ids[:, :, None]  # (B, G, 1)
    texts_and_columns = (positions >= 0).nonzero()  # (N, 2), of N answers the text and the column of `positions`
    tokens_read = positions[texts_and_columns[:, 0], texts_and_columns[:, 1], None]  # (N, 1), at which they are read
    indices = torch.cat([texts_and_columns, tokens_read], 1)  # (N, 3), in one transfer
    texts, columns, tokens = indices.to(states.device).T  # (N,) each
    contrast = None if target.contrast is None else target.contrast.to(states.device)[texts]  # (N,)
    targets_of_answers = replace(target, ids=ids[texts, columns], contrast=contrast)
    values = _quantities(head, states[texts, tokens], targets_of_answers)  # (N, K) or (N, 1)
    by_position = values.new_zeros(*positions.shape, values.shape[1])  # (B, G, K or 1)
    answer = by_position.index_put((texts, columns), values).flatten(1)  # (B, K) or (B, G)
    return answer if weights is None else torch.einsum("bkg,bg->bk", weights.to(answer), answer)  # (B, K)


def _quantities(head: HeadCall, states: Tensor, target: BatchTargets) -> Tensor:
    """Return the quantities (N, K) of states (N, H), by the targets of each; no logits are kept.

    The frozen head, and each quantity of its logits, is affine in the state. So its gradients are taken here, for few
    states at a time, and the result is a function of the states by these gradients alone.
    """
    values = []
    gradients = []
    for rows in torch.arange(len(states), device=states.device).split(BACKPROPAGATED_AT_ONCE):
        leaf = states[rows].detach().requires_grad_()
        with torch.enable_grad(), Recording():
            logits = head(leaf).float()  # (n, V)
        value = target.quantity(logits, rows)  # (n, K), by the targets of these rows
        values.append(value.detach())
        if states.requires_grad:
            totals = value.sum(0)  # (K,)
            with frozen_backward(totals, [leaf]):
                by_target = [torch.autograd.grad(total, leaf, retain_graph=True)[0] for total in totals]  # (n, H)
            gradients.append(torch.stack(by_target, 1))
    answer = torch.cat(values)  # (N, K)
    if not gradients:  # nothing of the input is below the states: the values alone
        return answer
    zeros = states - states.detach()  # (N, H): they change no value, and have a gradient
    return answer + (zeros[:, None] * torch.cat(gradients)).sum(-1)
