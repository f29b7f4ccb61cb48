"""Readouts: what a frozen pass notes at a place, and the contributions of tokens there by the gradients that arrive."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..copies.trace import BATCH_FIRST, Axes
from .places import Place, Side


@dataclass
class Readout:
    """The contributions read at one place."""

    axes: Axes = BATCH_FIRST  # how the module holds what is (B, T, H), or (B, T, ...) of several streams
    length: int | None = None  # how many positions are the text's, T, where the module pads it; None for all
    positions: int = 1  # how many axes are positions, which are read as one, row by row
    edges: list[GradientEdge] = field(default_factory=list)  # where gradients arrive, several of tables of a place
    vectors: list[Tensor] = field(default_factory=list)  # what they are multiplied by: states, or differences
    sinks: Tensor | None = None  # which tokens are attention sinks there, (B, T); None without any

    def read(self, state: Tensor, vector: Tensor | None = None, *, enters: bool = False) -> Tensor:
        """Note where the gradient of a state arrives and what it is multiplied by; return the state for the model.

        Args:
            state: What a module returned.
            vector: What gradients are multiplied by, in the state's shape; None for the state.
            enters: Whether the input enters the graph here: the state becomes a leaf, where backpropagation ends.

        Returns:
            An equal tensor, on which the model may write.
        """
        is_leaf = enters or not state.requires_grad
        with_graph = state.detach().requires_grad_() if is_leaf else state.clone()
        self.edges.append(get_gradient_edge(with_graph))
        self.vectors.append(state.detach() if vector is None else vector)
        return with_graph.clone() if is_leaf else with_graph  # autograd lets nobody write on a leaf

    @property
    def tokens(self) -> Tensor:
        """The first vector of each token, (B, T, H), or with an axis of streams."""
        return self.by_token(self.vectors[0])

    def contributions(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """Return what each token contributes, (..., B, T), by each edge's gradients, one or stacked, or None."""
        total: Tensor | None = None
        for vector, gradient in zip(self.vectors, gradients, strict=True):
            if gradient is not None:
                tokens = self.by_token(vector).float()  # (B, T, ...)
                products = self.by_token(gradient).float() * tokens  # (..., B, T, H), or with an axis of streams
                values = products.sum(tuple(range(2 - tokens.ndim, 0)))  # (..., B, T)
                total = values if total is None else total + values
        return torch.zeros_like(self.tokens.flatten(2)[..., 0], dtype=torch.float32) if total is None else total

    def by_token(self, states: Tensor) -> Tensor:
        """Return states in the module's order of axes as (..., B, T, H), without the positions of padding.

        Args:
            states: A tensor in the shape of the module's output, or several stacked in axes before it.
        """
        tokens = states.ndim - len(self.axes) + 1  # the axis of tokens
        if self.axes != BATCH_FIRST:
            states = states.permute(*range(tokens - 1), *(tokens - 1 + axis for axis in self.axes))
        if self.positions > 1:
            states = states.flatten(tokens, tokens + self.positions - 1)
        if self.length is None or states.shape[tokens] == self.length:
            return states
        return states.narrow(tokens, 0, self.length)

    def held(self, side: Side, exempt: Tensor | None) -> Tensor | None:
        """Return the sinks that are held, (..., B, T), where some tokens of the text are exempt, (..., B, T).

        Args:
            side: Whose place it is.
            exempt: Tokens that are the only ones through which the answer passes; None for none.
        """
        if self.sinks is None or exempt is None or side is not Side.TEXT:
            return self.sinks
        return self.sinks & ~exempt if exempt.shape[-1] == self.sinks.shape[-1] else self.sinks


Readouts = dict[Place, Readout]
"""The readouts of a pass, by place."""

ByPlace = dict[Place, Tensor]
"""What was read, by place."""
