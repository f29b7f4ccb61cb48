"""Readouts: where the contributions of tokens are read in a frozen pass, and which tokens are attention sinks there.

At a hidden state h that is on every path from the input to the answer, token i contributes <g_i, h_i>, g the gradient
that arrives there; with the bias of what follows these sum to the answer. A readout is an edge of the graph with its
value, in a pass of the library's own as in one that the caller ran.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..copies.run import Replace, tensor_of, with_tensor
from ..copies.trace import Axes
from ..parts.layer_outputs import LayerOutput
from .places import BATCH_FIRST, Place, Side


@dataclass
class Readout:
    """The contributions read at one place.

    Attributes:
        axes: How the module holds what is (B, T, H), or (B, T, ...) where layers pass several streams on.
        length: How many positions are the text's, T, where the module pads it; None for all.
        positions: How many axes are positions, which are read as one, row by row.
        edges: Where the gradients arrive. Several for tables that share a place.
        vectors: What the gradients are multiplied by: the state, or its difference from a baseline.
        norms: The norm of each token's state, (B, T), by which attention sinks are found; None to look for none.
        sinks: Which tokens are attention sinks there, (B, T); None without any.
        detached: Which of them no gradient passes in the backward passes from now on, (B, T).
    """

    axes: Axes = BATCH_FIRST
    length: int | None = None
    positions: int = 1
    edges: list[GradientEdge] = field(default_factory=list)
    vectors: list[Tensor] = field(default_factory=list)
    norms: Tensor | None = None
    sinks: Tensor | None = None
    detached: Tensor | None = None

    def read(self, state: Tensor, vector: Tensor | None = None, *, enters: bool = False) -> Tensor:
        """Read a state, and return an equal one to go on with, which a model may write on.

        Args:
            state: The state.
            vector: As in `vectors`; the state if not given.
            enters: Whether the input enters the graph here, so that nothing flows further back.
        """
        leaf = enters or not state.requires_grad
        flowing = state.detach().requires_grad_() if leaf else state.clone()
        self.edges.append(get_gradient_edge(flowing))
        self.vectors.append(state.detach() if vector is None else vector)
        return flowing.clone() if leaf else flowing

    def contributions(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """Return what each token contributes, (k, B, T), for k gradients of each edge stacked, None for no path."""
        total = self.empty
        for vector, gradient in zip(self.vectors, gradients, strict=True):
            if gradient is not None:
                further_axes = [axis - vector.ndim for axis in self.axes[1 + self.positions :]]
                products = (gradient.float() * vector.float()).sum(further_axes)  # (k, B, T), or (k, T, B)
                tokens = products.transpose(-2, -1) if self._time_first else products.flatten(-self.positions)
                total = total + tokens[..., : self.length]
        return total

    @property
    def empty(self) -> Tensor:
        """Zeros for each token, (1, B, T)."""
        texts, *tokens = (self.vectors[0].shape[axis] for axis in self.axes[: 1 + self.positions])
        return torch.zeros(1, texts, torch.Size(tokens).numel(), device=self.vectors[0].device)[..., : self.length]

    @property
    def _time_first(self) -> bool:
        """Whether the module's states have positions before texts."""
        return self.axes[0] > self.axes[1]

    def detach_sinks(self, stack: ExitStack) -> None:
        """Let no gradient pass the detached tokens in backward passes until an exit stack is closed."""
        edge = self.edges[0]

        def detach(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
            gradient = gradients[edge.output_nr]
            if gradient is None or self.detached is None:
                return gradients
            padding = self.vectors[0].shape[self.axes[1]] - self.detached.shape[1]
            mask = torch.nn.functional.pad(self.detached, (0, padding))
            mask = mask.T if self._time_first else mask
            for axis in sorted(self.axes[2:]):
                mask = mask.unsqueeze(axis)
            before, after = gradients[: edge.output_nr], gradients[edge.output_nr + 1 :]
            return *before, gradient.masked_fill(mask, 0.0), *after

        if hasattr(edge.node, "register_prehook"):  # it runs after the gradient of the state itself was taken
            stack.callback(edge.node.register_prehook(detach).remove)


def token_norms(state: Tensor) -> Tensor:
    """Return the norm of each token's state, (B, T), for states (B, T, H), or with an axis of streams."""
    norms: Tensor = torch.linalg.vector_norm(state.detach().float().flatten(2), dim=-1)
    return norms


def hold_sinks(readouts: Iterable[Readout], mask: Tensor, threshold: float) -> None:
    """Hold the tokens whose hidden state is many times larger than their text's median (Sun et al., 2024).

    Args:
        readouts: Readouts at layers of the text, or of a source.
        mask: The real tokens of the text, or of the source, (B, T).
        threshold: How many times the median.
    """
    measured = [(readout, readout.norms.to(mask.device)) for readout in readouts if readout.norms is not None]
    if not measured:
        return
    norms = torch.stack([norms for _, norms in measured])  # (L, B, T)
    medians = norms.masked_fill(~mask, torch.nan).nanmedian(-1, keepdim=True).values  # (L, B, 1)
    sinks = (norms > threshold * medians) & mask  # (L, B, T)
    for (readout, _), at_layer, any_there in zip(measured, sinks, sinks.flatten(1).any(1).tolist(), strict=True):
        if any_there:
            readout.sinks = at_layer.to(readout.vectors[0].device)


def layer_readers(
    outputs: Mapping[Place, LayerOutput],
    masks: Mapping[Side, Tensor],
    readouts: dict[Place, Readout],
    entries: Collection[Place],
    *,
    find_sinks: bool,
) -> dict[str, Replace]:
    """Return the functions that read contributions at layers' outputs, for the `replace` of `copies.run`.

    Args:
        outputs: Which module returns the output of each layer.
        masks: The real tokens of each side, (B, T).
        readouts: The readouts by place; the pass adds to them.
        entries: The places at which the input enters the graph.
        find_sinks: Whether attention sinks are looked for.
    """
    by_path: dict[str, dict[int, tuple[Place, LayerOutput]]] = {}
    for place, output in outputs.items():
        by_path.setdefault(output.path, {})[output.call] = place, output

    def reader(outputs_by_call: Mapping[int, tuple[Place, LayerOutput]]) -> Replace:
        """Return the function for one module, which returns the output of another layer at each of its calls."""
        calls = itertools.count(1)

        def read_layer(returned: Any, _: Any, __: Any) -> Any:
            call, state = next(calls), tensor_of(returned)
            if call not in outputs_by_call or state is None:
                return None
            place, output = outputs_by_call[call]
            mask = masks[place.side]
            with torch._C.DisableTorchFunction():
                readout = readouts[place] = Readout(output.axes, mask.shape[1], output.positions)
                tokens = state.permute(output.axes)[:, : mask.shape[1]]  # (B, T, H), or with streams
                # No sinks among embeddings, where a bright patch among dark ones would be one.
                if find_sinks and place.layer and tokens.shape[:2] == mask.shape:
                    readout.norms = token_norms(tokens)
                return with_tensor(returned, readout.read(state, enters=place in entries))

        return read_layer

    return {path: reader(outputs_by_call) for path, outputs_by_call in by_path.items()}
