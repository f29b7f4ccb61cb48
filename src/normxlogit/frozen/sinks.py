"""Attention sinks in a frozen pass: which tokens they are, and how no gradient passes them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from ..copies.arithmetic import l2_norms
from .places import Place, Side
from .readouts import Readout, Readouts


@contextmanager
def detached_sinks(readouts: Readouts) -> Iterator[None]:
    """Let no gradient pass attention sinks where they leave a layer, in the block.

    A sink still passes it on if all of the answer passes through this one token: without it nothing would be explained.
    Which token that is shows at the last readout, the first to which a gradient arrives.

    Args:
        readouts: The readouts of a frozen pass, by place.
    """
    last_place = max(readouts)
    exempt = None

    def detach(place: Place, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Set the gradients of sinks to zero before the node of a readout passes them on.

        A hook that autograd calls with the gradients of the node's outputs, one of which is the readout's state.
        """
        nonlocal exempt
        readout = readouts[place]
        state_output = readout.edges[0].output_nr  # a layer's readout has one edge
        gradient = gradients[state_output]
        if gradient is None:
            return gradients
        if place == last_place:  # backpropagation comes here first
            exempt = only_token(readout.contributions([gradient]))
        held = readout.held_sinks(place.side, exempt)
        if held is None:
            return gradients
        passed = gradient.clone()
        axes_of_states = len(readout.axes) - 2  # that of H, and of streams, to which the mask is broadcast
        mask = held[(..., *[None] * axes_of_states)]  # (B, T, 1), or with an axis of streams
        # `by_token` is a view of it: readouts with sinks have a single axis of positions.
        readout.by_token(passed).masked_fill_(mask, 0.0)
        return *gradients[:state_output], passed, *gradients[state_output + 1 :]

    # Without sinks no place is hooked: the last one is for the exemption of a sink alone.
    places_with_sinks = [place for place, readout in readouts.items() if readout.is_sink is not None]
    hooked_places = {last_place, *places_with_sinks} if places_with_sinks else set[Place]()
    handles = [  # a hook runs after the gradient of the state was taken
        readouts[place].edges[0].node.register_prehook(partial(detach, place)) for place in hooked_places
    ]
    try:
        yield
    finally:
        for handle in handles:  # a hook that stays keeps its graph: Python's collector sees no cycle through autograd
            handle.remove()


def only_token(contributions: Tensor) -> Tensor:
    """Return which token is the only one of its text that contributes, (..., B, T)."""
    contributes = contributions != 0
    return contributes & (contributes.sum(-1, keepdim=True) == 1)


def hold_sinks(readouts: Readouts, masks: Mapping[Side, Tensor], threshold: float) -> None:
    """Note at the readouts which tokens are attention sinks (Sun et al., 2024).

    A sink is a token whose state is `threshold` times larger than the median of its text in this layer.

    Args:
        readouts: The readouts of a pass, by place; `is_sink` is set there.
        masks: The real tokens of each side, (B, T); see `masks_of`.
        threshold: How many times the median of a layer the norm of a sink's state is.
    """
    for side, mask in masks.items():
        # Not among embeddings, where a bright patch among dark ones would be a sink.
        of_side = [readout for place, readout in readouts.items() if place.side is side and place.layer > 0]
        # Others have no state for each token, such as a layer that merges tokens.
        with_tokens = [each for each in of_side if each.positions == 1 and each.tokens.shape[:2] == mask.shape]
        if with_tokens:
            _mark_sinks(with_tokens, mask, threshold)


def _mark_sinks(readouts: Sequence[Readout], mask: Tensor, threshold: float) -> None:
    """Set which tokens are sinks at the readouts of L layers; `mask` says which are real, (B, T)."""
    sizes = torch.stack([l2_norms(readout.tokens.flatten(2)).to(mask.device) for readout in readouts])  # (L, B, T)
    medians = sizes.masked_fill(~mask, torch.nan).nanmedian(-1, keepdim=True).values  # (L, B, 1)
    sinks = (sizes > threshold * medians) & mask  # (L, B, T)
    has_sinks = sinks.flatten(1).any(1).tolist()  # one transfer
    for layer, readout in enumerate(readouts):
        if has_sinks[layer]:
            readout.is_sink = sinks[layer].to(readout.vectors[0].device)
