"""Each token's contribution to the logits of a frozen pass, from backward passes through it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from ..copies.non_finite import mean_logit
from .backward import NotedInputs, frozen_backward
from .entry_points import PARTS, WORDS
from .frozen_pass import FrozenPass
from .readout import Readout

AT_ONCE = 8
"""Quantities that are backpropagated from together: each holds gradients of its own."""


@dataclass(frozen=True)
class Contributions:
    """The contributions from backward passes through a frozen pass.

    Attributes:
        answer: The explained quantities, (B, K).
        values: By place, what each token contributes there, (B, K, T).
        sink: By place, what attention sinks contribute from there on, (B, K).
        sinks: Which tokens are attention sinks at any place, (B, T), those of a source first; None where none is.
    """

    answer: Tensor
    values: dict[int, Tensor]
    sink: dict[int, Tensor]
    sinks: Tensor | None


def contributions(
    answer: Tensor, frozen: FrozenPass, places: Sequence[int], read: Tensor | None = None
) -> Contributions:
    """Backpropagate once from each of K quantities of a frozen pass, several at a time.

    Attention sinks are detached where they leave a layer. One that is the only token from which a quantity is read is
    not: all of the answer passes through it.

    Args:
        answer: The quantities with their graph, (B, K).
        frozen: The pass; it can be backpropagated through once, unless the caller ran it.
        places: Where contributions are read.
        read: The token that each quantity is read from, (B, K), negative for several; None where it is not known.
    """
    sums, every = answer.sum(0), frozen.readouts  # (K,)
    with ExitStack() as stack:
        stack.enter_context(frozen_backward(sums, frozen.entries))
        sides = [[every[place] for place in every if place != PARTS and (place < WORDS) == source] for source in (1, 0)]
        sinks = [_sinks(side) for side in sides if side]  # (B, S) of a source, (B, T) of the text
        if read is None and bool(sinks[-1].any()):
            read = _read_from(sums, frozen)  # (B, K)
        groups = list(_groups(len(sums), read, sinks[-1]))
        readouts = {place: r for place, r in every.items() if place in places or _has_sinks(r)}
        for readout in readouts.values():
            stack.enter_context(readout.holding())
        leaves = [readout.leaf for readout in readouts.values()]
        each: dict[int, list[Tensor]] = {place: [] for place in readouts}  # (k, B, T) of each group
        sink: dict[int, list[Tensor]] = {place: [] for place in readouts}  # (k, B)
        for number, (group, unheld) in enumerate(groups):
            for place, readout in readouts.items():
                is_source = place < WORDS  # which the head does not read
                readout.detached = readout.sinks if readout.sinks is None or is_source else readout.sinks & ~unheld
            gradients = _gradients(sums[group], leaves, retain=number < len(groups) - 1 or frozen.lease is None)
            for (place, readout), gradient in zip(readouts.items(), gradients, strict=True):
                values = readout.contributions(gradient)  # (k, B, T)
                held = torch.zeros_like(values, dtype=torch.bool) if readout.detached is None else readout.detached
                each[place].append(values.masked_fill(held, 0.0))
                sink[place].append((values * held).sum(-1))
    order = torch.tensor([k for group, _ in groups for k in group], device=answer.device).argsort()  # of the request
    total = {place: torch.cat(parts)[order].T for place, parts in sink.items()}  # (B, K) each
    sinks[-1] = sinks[-1] & ~torch.stack([unheld for _, unheld in groups]).all(0)  # (B, T), those that are held at all
    tokens = torch.cat(sinks, -1)
    return Contributions(
        answer.detach(),
        {place: torch.cat(each[place])[order].transpose(0, 1) for place in places},
        {place: sum((total[o] for o in total if o >= place), torch.zeros_like(total[place])) for place in places},
        tokens if bool(tokens.any()) else None,
    )


def _gradients(sums: Tensor, leaves: Sequence[Tensor], *, retain: bool) -> list[Tensor]:
    """Return the gradients of k sums by each leaf, (k, ...) each; zeros where nothing flows."""
    each = torch.eye(len(sums), dtype=sums.dtype, device=sums.device)  # (k, k)
    if len(sums) == 1:
        one = torch.autograd.grad(sums[0], leaves, retain_graph=retain, allow_unused=True)
        gradients = [None if gradient is None else gradient[None] for gradient in one]
    else:
        gradients = list(
            torch.autograd.grad(sums, leaves, each, retain_graph=retain, allow_unused=True, is_grads_batched=True)
        )
    shapes = [(len(sums), *leaf.shape) for leaf in leaves]
    return [
        leaf.new_zeros(shape) if gradient is None else gradient
        for leaf, shape, gradient in zip(leaves, shapes, gradients, strict=True)
    ]


def _groups(count: int, read: Tensor | None, sinks: Tensor) -> Iterator[tuple[list[int], Tensor]]:
    """Yield groups of quantities that are backpropagated from together, and the sinks that are not held, (B, T)."""
    alone: dict[int, Tensor] = {}
    if read is not None:
        reads_sink = (read >= 0) & sinks.gather(1, read.clamp(min=0).to(sinks.device)).to(read.device)  # (B, K)
        for k in reads_sink.any(0).nonzero()[:, 0].tolist():
            alone[k] = torch.zeros_like(sinks)  # (B, T)
            texts = reads_sink[:, k].nonzero()[:, 0]
            alone[k][texts.to(sinks.device), read[texts, k].to(sinks.device)] = True
    others = [k for k in range(count) if k not in alone]
    for start in range(0, len(others), AT_ONCE):
        yield others[start : start + AT_ONCE], torch.zeros_like(sinks)
    for k, unheld in alone.items():
        yield [k], unheld


def logits_read(
    head: Callable[[Tensor], Tensor], states: Tensor, ids: Tensor, contrast: Tensor | None = None
) -> Tensor:
    """Return the logit of an entry at each place, minus the contrast's or the mean over the vocabulary, (N,).

    Each depends on its own state alone, so the head's gradients are taken here, for few places at a time. No logits are
    kept for the backward pass: N times the vocabulary, and as many again for each quantity that is explained.

    Args:
        head: Returns the logits, (n, V), of states, (n, H).
        states: What the head reads, (N, H), with their graph or without one.
        ids: The vocabulary entries, (N,).
        contrast: The entries whose logits are subtracted, (N,).
    """
    values, slopes = [], []
    for part in torch.arange(len(states), device=states.device).split(AT_ONCE):
        leaf = states[part].detach().requires_grad_(states.requires_grad)
        with torch.set_grad_enabled(states.requires_grad), NotedInputs():
            logits = head(leaf).float()  # (n, V)
        other = mean_logit(logits)[:, 0] if contrast is None else logits.gather(-1, contrast[part, None])[:, 0]
        value = logits.gather(-1, ids[part, None])[:, 0] - other  # (n,)
        values.append(value.detach())
        if states.requires_grad:
            total = value.sum()
            with frozen_backward(total, [leaf]):
                slopes.append(torch.autograd.grad(total, leaf)[0])
    answer = torch.cat(values)
    return answer + ((states - states.detach()) * torch.cat(slopes)).sum(-1) if slopes else answer


def read_once(read: Tensor, weights: Tensor) -> Tensor:
    """Return the token that each weighted sum is read from, (B, K), negative where it is read from several.

    Args:
        read: The token that each of G quantities is read from, (B, G), negative for none.
        weights: Of the K sums, (B, K, G).
    """
    counted = (weights.to(read.device) != 0) & (read >= 0)[:, None]  # (B, K, G)
    each = read[:, None].expand_as(counted)  # (B, K, G)
    last = each.masked_fill(~counted, -1).amax(-1)  # (B, K)
    first = each.masked_fill(~counted, torch.iinfo(read.dtype).max).amin(-1)  # (B, K)
    return last.masked_fill(first != last, -1)


def _sinks(readouts: Sequence[Readout]) -> Tensor:
    """Return the tokens that are attention sinks at any of several places, (B, T)."""
    masks = [readout.sinks for readout in readouts if readout.sinks is not None]
    first = readouts[0]
    return torch.stack(masks).any(0) if masks else torch.zeros_like(first.contributions(first.leaf), dtype=torch.bool)


def _has_sinks(readout: Readout) -> bool:
    return readout.sinks is not None and bool(readout.sinks.any())


def _read_from(sums: Tensor, frozen: FrozenPass) -> Tensor:
    """Return the one token of the last layer that each quantity is read from, (B, K), or -1 for several."""
    last = frozen.readouts[max(frozen.readouts)]
    read = []
    for part in sums.split(AT_ONCE):
        gradient = last.contributions(_gradients(part, [last.leaf], retain=True)[0])  # (k, B, T)
        several = (gradient != 0).sum(-1) != 1  # (k, B)
        read.append(gradient.abs().argmax(-1).masked_fill(several, -1))
    return torch.cat(read).T  # (B, K)
