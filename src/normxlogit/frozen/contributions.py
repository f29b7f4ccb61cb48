"""Each token's contribution to the answers of a frozen pass, from backward passes through it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from ..copies.non_finite import mean_logit
from ..model.forward_pass import ForwardPass
from .backward import frozen_backward
from .forward import Recording
from .readouts import Place, Readout, Side

BACKPROPAGATED_AT_ONCE = 8
"""Quantities that are backpropagated together; each needs memory for its own gradients."""


HeadAnswer = tuple[Tensor, Tensor]
"""States, (n, H), and a vocabulary head's logits for them, (n, V), with the graph between them."""


@dataclass(frozen=True, kw_only=True)
class FrozenPass(ForwardPass):
    """A frozen forward pass with its graph, which ends when the pass does.

    Attributes:
        readouts: By place, where contributions can be read.
        entries: Those at which the input enters the graph.
        answer: What the model answers, (B, C) or (B, T, C); of a language model with a head what that reads, (B, T, H).
        predicted: The head's answers at the position of each text; None if they were not asked for.
    """

    readouts: dict[Place, Readout]
    entries: Sequence[Readout]
    answer: Tensor
    predicted: Sequence[HeadAnswer] | None = None


@dataclass(frozen=True)
class Contributions:
    """The contributions from backward passes through a frozen pass.

    Attributes:
        answer: The explained quantities, (B, K).
        values: By place, what each token contributes there, (B, K, T).
        sink: By place, what attention sinks contribute from there on, (B, K).
        sinks: Which tokens are attention sinks at any place, (B, T), those of a source first; None if none is.
    """

    answer: Tensor
    values: dict[Place, Tensor]
    sink: dict[Place, Tensor]
    sinks: Tensor | None


def contributions(
    answer: Tensor, run: FrozenPass, places: Sequence[Place], read_positions: Tensor | None = None
) -> Contributions:
    """Return each token's contributions to K quantities of a frozen pass, from a backward pass for each.

    Attention sinks are detached where they leave a layer. One that is the only token from which a quantity is read is
    not: all of the answer passes through it.

    Args:
        answer: The quantities with their graph, (B, K).
        run: The pass; it can be backpropagated through once, unless the caller ran it.
        places: Where contributions are read.
        read_positions: The token that each quantity is read from, (B, K), negative for several; None if not known.
    """
    sums, keep = answer.sum(0), run.outputs is not None  # (K,)
    by_side = {side: [r for place, r in run.readouts.items() if place.side is side] for side in Side}
    sinks = {side: _sinks_at_any(readouts) for side, readouts in by_side.items() if readouts}
    some_sinks = any(readout.sinks is not None for readout in run.readouts.values())
    read = {place: readout for place, readout in run.readouts.items() if place in places or readout.sinks is not None}
    with ExitStack() as stack:
        stack.enter_context(frozen_backward(sums, [edge for entry in run.entries for edge in entry.edges]))
        if read_positions is None and some_sinks:
            read_positions = _read_positions(sums, run)  # (B, K)
        groups = list(_groups(len(sums), read_positions, sinks[Side.TEXT] if some_sinks else None))
        for readout in read.values():
            stack.enter_context(readout.detaching())
        values = {place: list[Tensor]() for place in read}  # (k, B, T) of each group
        of_sinks = {place: list[Tensor]() for place in read}  # (k, B)
        for number, (group, exempt) in enumerate(groups):
            for place, readout in read.items():
                readout.detached = readout.sinks
                if readout.sinks is not None and exempt is not None and place.side is Side.TEXT:
                    readout.detached = readout.sinks & ~exempt
            found = _gradients(sums[group], list(read.values()), retain=keep or number < len(groups) - 1)
            for (place, readout), each in zip(read.items(), found, strict=True):
                held = readout.detached
                values[place].append(each if held is None else each.masked_fill(held, 0.0))
                of_sinks[place].append(each[..., 0] * 0 if held is None else (each * held).sum(-1))
    # The groups have another order than the quantities.
    order = torch.tensor([k for group, _ in groups for k in group], device=answer.device).argsort()
    totals = {place: torch.cat(parts)[order].T for place, parts in of_sinks.items()}  # (B, K) each
    return Contributions(
        answer.detach(),
        {place: torch.cat(values[place])[order].transpose(0, 1) for place in places},
        {place: sum((t for p, t in totals.items() if p >= place), torch.zeros_like(totals[place])) for place in places},
        _sinks_of_any_group(sinks, groups) if some_sinks else None,
    )


def _gradients(sums: Tensor, readouts: Sequence[Readout], *, retain: bool) -> list[Tensor]:
    """Return the contributions at each readout to k sums, (k, B, T) each."""
    edges = [edge for readout in readouts for edge in readout.edges]
    if len(sums) == 1:
        single = torch.autograd.grad(sums[0], edges, retain_graph=retain, allow_unused=True)
        gradients = iter([None if gradient is None else gradient[None] for gradient in single])
    else:
        eye = torch.eye(len(sums), dtype=sums.dtype, device=sums.device)  # (k, k)
        several = torch.autograd.grad(sums, edges, eye, retain_graph=retain, allow_unused=True, is_grads_batched=True)
        gradients = iter(several)
    found = [readout.contributions([next(gradients) for _ in readout.edges]) for readout in readouts]
    return [values.expand(len(sums), -1, -1) for values in found]


Group = tuple[list[int], Tensor | None]
"""Quantities that are backpropagated together, and the sinks not to detach, (B, T)."""


def _groups(count: int, read_positions: Tensor | None, sinks: Tensor | None) -> Iterator[Group]:
    """Yield groups of quantities that are backpropagated together.

    Args:
        count: K, the number of quantities.
        read_positions: The token that each is read from, (B, K), negative for several; None if it is not known.
        sinks: Which tokens are attention sinks, (B, T); None if none is.
    """
    exempt: dict[int, Tensor] = {}
    if read_positions is not None and sinks is not None:
        positions = read_positions.to(sinks.device)
        reads_sink = (positions >= 0) & sinks.gather(1, positions.clamp(min=0))  # (B, K)
        for k in reads_sink.any(0).nonzero()[:, 0].tolist():
            exempt[k] = torch.zeros_like(sinks).scatter(1, positions[:, k : k + 1].clamp(min=0), reads_sink[:, k, None])
    remaining = [k for k in range(count) if k not in exempt]
    for start in range(0, len(remaining), BACKPROPAGATED_AT_ONCE):
        yield remaining[start : start + BACKPROPAGATED_AT_ONCE], None
    for k, tokens in exempt.items():
        yield [k], tokens


def _sinks_at_any(readouts: Sequence[Readout]) -> Tensor:
    """Return the tokens that are attention sinks at any of several places, (B, T)."""
    masks = [readout.sinks for readout in readouts if readout.sinks is not None]
    return torch.stack(masks).any(0) if masks else readouts[0].empty[0].bool()


def _sinks_of_any_group(sinks: dict[Side, Tensor], groups: Sequence[Group]) -> Tensor | None:
    """Return the tokens that were detached for any quantity, (B, T), those of a source first; None if none was."""
    text = sinks[Side.TEXT]
    exempt = [torch.zeros_like(text) if tokens is None else tokens for _, tokens in groups]
    text = text & ~torch.stack(exempt).all(0)  # (B, T)
    tokens = torch.cat([sinks[Side.SOURCE], text], -1) if Side.SOURCE in sinks else text
    return tokens if bool(tokens.any()) else None


def _read_positions(sums: Tensor, run: FrozenPass) -> Tensor:
    """Return the one token of the last layer that each quantity is read from, (B, K), or -1 for several."""
    last = [run.readouts[max(run.readouts)]]
    parts = [_gradients(part, last, retain=True)[0] for part in sums.split(BACKPROPAGATED_AT_ONCE)]
    values = torch.cat(parts)  # (K, B, T)
    return values.abs().argmax(-1).masked_fill((values != 0).sum(-1) != 1, -1).T


def single_read_position(read_positions: Tensor, weights: Tensor) -> Tensor:
    """Return the token that each weighted sum is read from, (B, K), negative for several tokens.

    Args:
        read_positions: The token that each of G quantities is read from, (B, G), negative for none.
        weights: The weights of the K sums, (B, K, G).
    """
    is_counted = (weights.to(read_positions.device) != 0) & (read_positions >= 0)[:, None]  # (B, K, G)
    positions = read_positions[:, None].expand_as(is_counted)  # (B, K, G)
    last = positions.masked_fill(~is_counted, -1).amax(-1)  # (B, K)
    first = positions.masked_fill(~is_counted, torch.iinfo(read_positions.dtype).max).amin(-1)  # (B, K)
    return last.masked_fill(first != last, -1)


def head_answers(head: Callable[[Tensor], Tensor], states: Tensor, *, gradients: bool = True) -> Iterator[HeadAnswer]:
    """Yield a head's logits, (n, V), for a few of N states, (N, H), at a time; with `gradients` with their graph."""
    for rows in states.split(BACKPROPAGATED_AT_ONCE):
        leaf = rows.detach().requires_grad_(gradients)
        with torch.set_grad_enabled(gradients), Recording():
            logits = head(leaf).float()
        yield leaf, logits


def contrasted_logits(
    answers: Iterable[HeadAnswer], states: Tensor, ids: Tensor, contrast: Tensor | None = None
) -> Tensor:
    """Return the logits of K entries for each state, minus the contrast's or the mean over the vocabulary, (N, K).

    Each depends on its own state alone, so the head's gradients are taken here, for few states at a time. Where the
    answers are computed as they are asked for, no logits are kept for the backward pass: the head of the frozen network
    is affine, value + <g, state>.

    Args:
        answers: The head's, for the states in their order.
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
    return answer + ((states - states.detach())[:, None] * torch.cat(gradients)).sum(-1) if gradients else answer
