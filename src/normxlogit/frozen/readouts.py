"""Readouts: where the contributions of tokens are read in a frozen pass, and which tokens are attention sinks there.

At a hidden state h that is on every path from the input to the answer, token i contributes <g_i, h_i>, g the gradient
that arrives there; with the bias of what follows these sum to the answer. A readout is an edge of the graph with its
value, in a pass of the library's own as in one that the caller ran.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..copies.run import Replace, tensor_of, with_tensor
from ..copies.trace import Axes
from ..parts.layer_outputs import LayerOutput


class Side(IntEnum):
    """A part of the input, in the order in which models read them."""

    MEDIA = 0
    """Pictures and sounds beside a text."""
    SOURCE = 1
    """What the encoder of an encoder-decoder model reads."""
    TEXT = 2
    """A text, or whatever else the layers with the answer read; of encoder-decoder models the decoder's."""


class Place(NamedTuple):
    """Where contributions are read: the output of a layer, or where the input enters; ordered as they are computed.

    Attributes:
        side: Whose contributions.
        layer: l for the output of layer l, 0 for the embedding layer's, -1 for the word embeddings of a text.
    """

    side: Side
    layer: int

    @classmethod
    def of_text(cls, layers: Iterable[int]) -> "tuple[Place, ...]":
        """Return the places of a text's layers."""
        return tuple(cls(Side.TEXT, layer) for layer in layers)


WORDS = Place(Side.TEXT, -1)
"""The word embeddings of a text."""

SOURCE = Place(Side.SOURCE, 0)
"""The entry of what an encoder reads: its word embeddings, or its first module with weights."""

MEDIA = Place(Side.MEDIA, 0)
"""The entry of pictures and sounds: the output of their patch embedding or first convolution."""

BATCH_FIRST: Axes = (0, 1, 2)
"""The axes of a state of shape (B, T, H)."""


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
                products = (gradient.float() * vector.float()).sum(
                    [axis - vector.ndim for axis in self.axes[1 + self.positions :]]
                )  # (k, B, T), or (k, T, B)
                tokens = products.transpose(-2, -1) if self._time_first else products.flatten(-self.positions)
                total = total + tokens[..., : self.length]
        return total

    @property
    def empty(self) -> Tensor:
        """Zeros for each token, (1, B, T)."""
        sizes = [self.vectors[0].shape[axis] for axis in self.axes[: 1 + self.positions]]
        count = torch.Size(sizes[1:]).numel()
        return torch.zeros(1, sizes[0], count, device=self.vectors[0].device)[..., : self.length]

    @property
    def _time_first(self) -> bool:
        """Whether the module's states have positions before texts."""
        return self.axes[0] > self.axes[1]

    @contextmanager
    def detaching(self) -> Iterator[None]:
        """Let no gradient pass the detached tokens in backward passes inside the block."""
        edge, handle = self.edges[0], None

        def detach(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
            gradient = gradients[edge.output_nr]
            if gradient is None or self.detached is None:
                return gradients
            mask = torch.nn.functional.pad(self.detached, (0, self.vectors[0].shape[self.axes[1]] - mask_length))
            mask = mask.T if self._time_first else mask
            for axis in sorted(self.axes[2:]):
                mask = mask.unsqueeze(axis)
            before, after = gradients[: edge.output_nr], gradients[edge.output_nr + 1 :]
            return *before, gradient.masked_fill(mask, 0.0), *after

        mask_length = 0 if self.sinks is None else self.sinks.shape[1]
        if self.sinks is not None and hasattr(edge.node, "register_prehook"):
            handle = edge.node.register_prehook(detach)  # it runs after the gradient of the state itself was taken
        try:
            yield
        finally:
            if handle is not None:
                handle.remove()


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
            readout.sinks = readout.detached = at_layer.to(readout.vectors[0].device)


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
            length = masks[place.side].shape[1]
            with torch._C.DisableTorchFunction():
                readout = readouts[place] = Readout(output.axes, length, output.positions)
                # No sinks among embeddings, where a bright patch among dark ones would be one.
                if find_sinks and place.layer:
                    tokens = state.permute(output.axes)[:, :length]  # (B, T, H), or with streams
                    readout.norms = token_norms(tokens) if tokens.shape[:2] == masks[place.side].shape else None
                return with_tensor(returned, readout.read(state, enters=place in entries))

        return read_layer

    return {path: reader(outputs_by_call) for path, outputs_by_call in by_path.items()}
