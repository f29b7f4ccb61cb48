"""Each token's contribution to the logits of a frozen pass, from backward passes through it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from .backward import BACKPROPAGATED_AT_ONCE, frozen_backward
from .entry_points import MEDIA, is_of_source
from .readout import Readout
from .runner import FrozenPass


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
    values: dict[int, Tensor]
    sink: dict[int, Tensor]
    sinks: Tensor | None


def contributions(
    answer: Tensor, frozen: FrozenPass, places: Sequence[int], read_positions: Tensor | None = None
) -> Contributions:
    """Return each token's contributions to K quantities of a frozen pass, from a backward pass for each.

    Attention sinks are detached where they leave a layer. One that is the only token from which a quantity is read is
    not: all of the answer passes through it.

    Args:
        answer: The quantities with their graph, (B, K).
        frozen: The pass; it can be backpropagated through once, unless the caller ran it.
        places: Layers at which contributions are read, or `WORDS`, `MEDIA` and `SOURCE` + layer of `entry_points`.
        read_positions: The token that each quantity is read from, (B, K), negative for several; None if not known.
    """
    sums, by_place = answer.sum(0), frozen.readouts  # (K,)
    with ExitStack() as stack:
        stack.enter_context(frozen_backward(sums, frozen.entries))
        of_source = [readout for place, readout in by_place.items() if is_of_source(place)]
        of_text = [readout for place, readout in by_place.items() if not is_of_source(place) and place != MEDIA]
        source_sinks = [_sinks_at_any(of_source)] if of_source else []  # (B, S)
        text_sinks = _sinks_at_any(of_text)  # (B, T)
        if read_positions is None and bool(text_sinks.any()):
            read_positions = _read_positions(sums, frozen)  # (B, K)
        groups = list(_groups(len(sums), read_positions, text_sinks))
        readouts = {place: readout for place, readout in by_place.items() if place in places or _has_sinks(readout)}
        for readout in readouts.values():
            stack.enter_context(readout.detaching())
        leaves = [readout.leaf for readout in readouts.values()]
        token_values: dict[int, list[Tensor]] = {place: [] for place in readouts}  # (k, B, T) of each group
        sink_values: dict[int, list[Tensor]] = {place: [] for place in readouts}  # (k, B)
        for group_index, (group, exempt) in enumerate(groups):
            _choose_detached(readouts, exempt)
            gradients = _gradients(sums[group], leaves, retain=group_index < len(groups) - 1 or frozen.lease is None)
            for (place, readout), gradient in zip(readouts.items(), gradients, strict=True):
                values = readout.contributions(gradient)  # (k, B, T)
                detached = torch.zeros_like(values, dtype=torch.bool) if readout.detached is None else readout.detached
                token_values[place].append(values.masked_fill(detached, 0.0))
                sink_values[place].append((values * detached).sum(-1))
    # The groups have another order than the quantities.
    order = torch.tensor([k for group, _ in groups for k in group], device=answer.device).argsort()
    sink_totals = {place: torch.cat(parts)[order].T for place, parts in sink_values.items()}  # (B, K) each
    never_detached = torch.stack([exempt for _, exempt in groups]).all(0)  # (B, T)
    tokens = torch.cat([*source_sinks, text_sinks & ~never_detached], -1)
    return Contributions(
        answer.detach(),
        {place: torch.cat(token_values[place])[order].transpose(0, 1) for place in places},
        {place: _sum_from(sink_totals, place) for place in places},
        tokens if bool(tokens.any()) else None,
    )


def _choose_detached(readouts: Mapping[int, Readout], exempt: Tensor) -> None:
    """Choose the tokens that the next backward pass detaches: attention sinks, except the exempt tokens of the text."""
    for place, readout in readouts.items():
        is_text = not is_of_source(place) and place != MEDIA
        readout.detached = readout.sinks & ~exempt if readout.sinks is not None and is_text else readout.sinks


def _sum_from(totals: dict[int, Tensor], place: int) -> Tensor:
    """Return the sum of the values at a place and after it, (B, K)."""
    return sum((total for later, total in totals.items() if later >= place), torch.zeros_like(totals[place]))


def _gradients(sums: Tensor, leaves: Sequence[Tensor], *, retain: bool) -> list[Tensor]:
    """Return the gradients of k sums by each leaf, (k, ...) each; zeros if there is no path."""
    one_hot = torch.eye(len(sums), dtype=sums.dtype, device=sums.device)  # (k, k)
    if len(sums) == 1:
        single = torch.autograd.grad(sums[0], leaves, retain_graph=retain, allow_unused=True)
        gradients = [None if gradient is None else gradient[None] for gradient in single]
    else:
        gradients = list(
            torch.autograd.grad(sums, leaves, one_hot, retain_graph=retain, allow_unused=True, is_grads_batched=True)
        )
    shapes = [(len(sums), *leaf.shape) for leaf in leaves]
    return [
        leaf.new_zeros(shape) if gradient is None else gradient
        for leaf, shape, gradient in zip(leaves, shapes, gradients, strict=True)
    ]


def _groups(count: int, read_positions: Tensor | None, sinks: Tensor) -> Iterator[tuple[list[int], Tensor]]:
    """Yield groups of quantities that are backpropagated together, and the sinks not to detach, (B, T).

    Args:
        count: K, the number of quantities.
        read_positions: The token that each is read from, (B, K), negative for several; None if it is not known.
        sinks: Which tokens are attention sinks, (B, T).
    """
    exempt_sinks: dict[int, Tensor] = {}
    if read_positions is not None:
        at_sink = sinks.gather(1, read_positions.clamp(min=0).to(sinks.device)).to(read_positions.device)  # (B, K)
        reads_sink = (read_positions >= 0) & at_sink  # (B, K)
        for k in reads_sink.any(0).nonzero()[:, 0].tolist():
            exempt_sinks[k] = torch.zeros_like(sinks)  # (B, T)
            texts = reads_sink[:, k].nonzero()[:, 0]
            exempt_sinks[k][texts.to(sinks.device), read_positions[texts, k].to(sinks.device)] = True
    remaining = [k for k in range(count) if k not in exempt_sinks]
    for start in range(0, len(remaining), BACKPROPAGATED_AT_ONCE):
        yield remaining[start : start + BACKPROPAGATED_AT_ONCE], torch.zeros_like(sinks)
    for k, exempt in exempt_sinks.items():
        yield [k], exempt


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


def _sinks_at_any(readouts: Sequence[Readout]) -> Tensor:
    """Return the tokens that are attention sinks at any of several places, (B, T)."""
    masks = [readout.sinks for readout in readouts if readout.sinks is not None]
    no_sinks = torch.zeros_like(readouts[0].contributions(readouts[0].leaf), dtype=torch.bool)  # (B, T)
    return torch.stack(masks).any(0) if masks else no_sinks


def _has_sinks(readout: Readout) -> bool:
    """Return whether a token is an attention sink at a place."""
    return readout.sinks is not None and bool(readout.sinks.any())


def _read_positions(sums: Tensor, frozen: FrozenPass) -> Tensor:
    """Return the one token of the last layer that each quantity is read from, (B, K), or -1 for several."""
    last_readout = frozen.readouts[max(frozen.readouts)]
    positions = []
    for part in sums.split(BACKPROPAGATED_AT_ONCE):
        gradient = last_readout.contributions(_gradients(part, [last_readout.leaf], retain=True)[0])  # (k, B, T)
        is_read_from_several = (gradient != 0).sum(-1) != 1  # (k, B)
        positions.append(gradient.abs().argmax(-1).masked_fill(is_read_from_several, -1))
    return torch.cat(positions).T  # (B, K)
