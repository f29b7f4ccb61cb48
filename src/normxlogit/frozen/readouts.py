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
    """What a frozen pass notes at one place: the states of the tokens, and where their gradients arrive.

    Attributes:
        axes: The order in which the axes of the module's output are read as (B, T, H), or as (B, T, ..., H) where it
            returns several streams of states.
        length: How many positions are the text's, T, where the module pads it; None for all.
        positions: How many axes are positions, as the rows and columns of a picture, which are read as one axis.
        edges: Where gradients arrive; several where several tables of embeddings are read at one place.
        vectors: What the gradient at each edge is multiplied by: the states, or their differences from a baseline.
        is_sink: Which tokens are attention sinks there, (B, T); None without any.
    """

    axes: Axes = BATCH_FIRST
    length: int | None = None
    positions: int = 1
    edges: list[GradientEdge] = field(default_factory=list)
    vectors: list[Tensor] = field(default_factory=list)
    is_sink: Tensor | None = None

    def read(self, state: Tensor, vector: Tensor | None = None, *, enters: bool = False) -> Tensor:
        """Note where the gradient of a state arrives and what it is multiplied by; return the state for the model.

        Args:
            state: What a module returned.
            vector: What gradients are multiplied by, in the state's shape; None for the state.
            enters: Whether the input enters the graph here: the state becomes a leaf, where backpropagation ends.

        Returns:
            An equal tensor, on which the model may write.
        """
        is_leaf = enters or not state.requires_grad  # without a graph, nothing of the input is below
        # What the model gets is a copy: it may write on it, and `vectors` has what the state was.
        with_graph = state.detach().requires_grad_() if is_leaf else state.clone()
        self.edges.append(get_gradient_edge(with_graph))
        self.vectors.append(state.detach() if vector is None else vector)
        return with_graph.clone() if is_leaf else with_graph  # autograd lets nobody write on a leaf

    @property
    def tokens(self) -> Tensor:
        """The first vector of each token, (B, T, H), or with an axis of streams."""
        return self.by_token(self.vectors[0])

    def contributions(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """Return what each token contributes: the sum of its gradients times its vectors.

        Args:
            gradients: The gradient at each edge, in the shape of the module's output, or several stacked in an axis
                before it; None where none arrived.

        Returns:
            (B, T), or (K, B, T) for K stacked gradients.
        """
        total: Tensor | None = None
        for vector, gradient in zip(self.vectors, gradients, strict=True):
            if gradient is not None:
                tokens = self.by_token(vector).float()  # (B, T, H), or with an axis of streams
                products = self.by_token(gradient).float() * tokens  # (..., B, T, H)
                axes_of_states = tuple(range(2 - tokens.ndim, 0))  # all behind those of texts and tokens
                values = products.sum(axes_of_states)  # (..., B, T)
                total = values if total is None else total + values
        # Where no gradient arrived, (B, T) zeros.
        return torch.zeros_like(self.tokens.flatten(2)[..., 0], dtype=torch.float32) if total is None else total

    def by_token(self, states: Tensor) -> Tensor:
        """Return states in the module's order of axes as (..., B, T, H), without the positions of padding.

        Args:
            states: A tensor in the shape of the module's output, or several stacked in axes before it.
        """
        stacked_axes = states.ndim - len(self.axes)
        if self.axes != BATCH_FIRST:
            states = states.permute(*range(stacked_axes), *(stacked_axes + axis for axis in self.axes))
        token_axis = stacked_axes + 1
        if self.positions > 1:
            states = states.flatten(token_axis, token_axis + self.positions - 1)
        if self.length is None or states.shape[token_axis] == self.length:
            return states
        return states.narrow(token_axis, 0, self.length)

    def held_sinks(self, side: Side, exempt: Tensor | None) -> Tensor | None:
        """Return which sinks are held, so that no gradient passes them, (..., B, T); None without sinks.

        Args:
            side: Whose place it is.
            exempt: Tokens of the text whose sinks are not held: those that are the only ones through which the answer
                passes, (..., B, T); None for none.
        """
        if self.is_sink is None or exempt is None or side is not Side.TEXT:
            return self.is_sink
        has_same_tokens = exempt.shape[-1] == self.is_sink.shape[-1]  # not where a later layer merged tokens
        return self.is_sink & ~exempt if has_same_tokens else self.is_sink


Readouts = dict[Place, Readout]
"""The readouts of a pass, by place."""

ByPlace = dict[Place, Tensor]
"""What was read, by place."""
