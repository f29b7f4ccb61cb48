"""Readouts: each token's contribution at a hidden state of a frozen pass, with attention sinks held.

A hidden state h flows on beside a leaf with one number for each token, whose gradient is <g, h>, the token's
contribution, summed over the width: no gradient as wide as a state is kept, whatever the number of layers.
"""

# torch declares backward(ctx, *grad_outputs), for any number of outputs; the function here has one.
# pyright: reportIncompatibleMethodOverride=false

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from ..copies.run import Replace, tensor_of, with_tensor
from ..copies.trace import Axes
from ..parts.layer_outputs import LayerOutput

BackwardSettings = tuple[Tensor | None, Tensor | None]
"""A factor of the gradient instead of the state, and a mask of where gradients stop; None for either default."""

BATCH_FIRST: Axes = (0, 1, 2)
"""The axes of a state of shape (B, T, H)."""


@dataclass
class Readout:
    """The contributions read at one hidden state.

    Attributes:
        leaf: Its gradient is the contribution of each token, (B, T), or (T, B) where the module holds time first. T
            may be longer than the text, where the model pads it.
        axes: How the module holds what is (B, T, H), or (B, T, ...) where layers pass several streams on.
        norms: The norm of each token's state, (B, T), by which attention sinks are found; None to look for none.
        sinks: Which tokens are attention sinks there, (B, T); None without any.
        detached: Which of them no gradient passes in the backward passes from now on, (B, T).
        direction: A factor of the gradient instead of the state, in the state's shape; None for the state.
        length: How many positions are the text's, T; None for all.
        positions: How many axes of the leaf are positions, which are read as one, row by row.
    """

    leaf: Tensor
    axes: Axes
    norms: Tensor | None = None
    sinks: Tensor | None = None
    detached: Tensor | None = None
    direction: Tensor | None = None
    length: int | None = None
    positions: int = 1

    def contributions(self, gradient: Tensor) -> Tensor:
        """Return the leaf's gradient, or several stacked, in the order (..., B, T) of the text."""
        tokens = gradient.transpose(-2, -1) if self._time_first else gradient.flatten(-self.positions)
        return tokens[..., : self.length]

    @property
    def _time_first(self) -> bool:
        """Whether the module's states have positions before texts."""
        return self.axes[0] > self.axes[1]

    @contextmanager
    def detaching(self) -> Iterator[None]:
        """Detach tokens in backward passes inside the block; here the graph itself does it, by `settings`."""
        yield

    def settings(self) -> BackwardSettings:
        """Return the settings of the next backward pass, see `BackwardSettings`: the direction, and detached tokens.

        The mask of detached tokens gets the axes of the hidden state, and False at positions behind the text's.
        """
        if self.detached is None:
            return self.direction, None
        positions = self.leaf.shape[0 if self._time_first else 1]
        tokens = torch.nn.functional.pad(self.detached, (0, positions - self.detached.shape[1]))  # (B, positions)
        tokens = tokens.T if self._time_first else tokens
        for axis in sorted(self.axes[2:]):
            tokens = tokens.unsqueeze(axis)
        return self.direction, tokens


@dataclass
class GivenState(Readout):
    """The readout at a hidden state of the caller's pass; its leaf is the state itself, (B, T, H)."""

    def contributions(self, gradient: Tensor) -> Tensor:
        """Return the gradient of the state, or several stacked, times the state, (..., B, T)."""
        return (gradient.float() * self.leaf.detach().float()).sum(-1)

    @contextmanager
    def detaching(self) -> Iterator[None]:
        """Stop the gradients of detached tokens inside the block."""
        node: Any = self.leaf.grad_fn
        index = self.leaf.output_nr

        def detach_tokens(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
            gradient, detached = gradients[index], self.detached
            if gradient is None or detached is None:
                return gradients
            return (*gradients[:index], gradient.masked_fill(detached[..., None], 0.0), *gradients[index + 1 :])

        handle = node.register_prehook(detach_tokens)  # it runs after the gradient of the state itself was taken
        try:
            yield
        finally:
            handle.remove()


def read_out(
    state: Tensor,
    axes: Axes = BATCH_FIRST,
    norms: Tensor | None = None,
    leaf: Tensor | None = None,
    length: int | None = None,
    positions: int = 1,
) -> tuple[Tensor, Readout]:
    """Return an equal replacement of a hidden state, and the readout of its contributions in the backward pass.

    Args:
        state: The hidden state, with axes as in `axes`.
        axes: Where (B, T, H) are among its axes; the product is summed over all but texts and positions.
        norms: As in `Readout`.
        leaf: Of another readout, to which the contributions are added; a new one if not given.
        length: How many positions are the text's, T; None for all.
        positions: How many axes after the first are positions.

    Returns:
        The replacement of the state, and the readout.
    """
    if leaf is None:
        shape = [size for axis, size in enumerate(state.shape) if axis in axes[: 1 + positions]]
        leaf = torch.zeros(shape, dtype=torch.float32, device=state.device, requires_grad=True)
    readout = Readout(leaf, axes, norms, length=length, positions=positions)
    width = axes[1 + positions :]
    replacement: Tensor = _Measured.apply(state, leaf, width, readout.settings)  # type: ignore[no-untyped-call]
    return replacement, readout


class _Measured(Function):
    """Returns a state unchanged; in the backward pass, the leaf's gradient is <gradient, state>."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, leaf: Tensor, width: tuple[int, ...], get_settings: Callable[[], BackwardSettings]
    ) -> Tensor:
        ctx.save_for_backward(x.detach())
        ctx.width, ctx.get_settings = width, get_settings
        ctx.set_materialize_grads(False)
        return x.clone()  # some models work on it in place

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, Tensor | None, None, None]:
        if grad is None:
            return None, None, None, None
        (x,), (direction, detached) = ctx.saved_tensors, ctx.get_settings()
        contribution = (grad.float() * (x if direction is None else direction).float()).sum(ctx.width)
        if not ctx.needs_input_grad[0]:
            return None, contribution, None, None
        return grad if detached is None else grad.masked_fill(detached, 0.0), contribution, None, None


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
            readout.sinks = readout.detached = at_layer.to(readout.leaf.device)


def layer_readers(
    outputs: Mapping[int, LayerOutput],
    masks: Mapping[bool, Tensor],
    readouts: dict[int, Readout],
    entries: Collection[int] = (),
    *,
    find_sinks: bool,
) -> dict[str, Replace]:
    """Return the functions that read contributions at layers' outputs, for the `replace` of `copies.run`.

    Args:
        outputs: Which module returns the output of each layer, by place: the number of the layer, `SOURCE` + the number
            for an encoder's.
        masks: Real tokens, (B, T), by whether they are those of a source.
        readouts: The readouts by place; the pass adds to them.
        entries: The places at which the input enters the graph.
        find_sinks: Whether attention sinks are looked for.
    """
    by_path: dict[str, dict[int, tuple[int, LayerOutput]]] = {}
    for place, output in outputs.items():
        by_path.setdefault(output.path, {})[output.call] = place, output

    def reader(outputs_by_call: Mapping[int, tuple[int, LayerOutput]]) -> Replace:
        """Return the function for one module, which returns the output of another layer at each of its calls."""
        calls = itertools.count(1)

        def read_layer(returned: Any, _: Any, __: Any) -> Any:
            call, state = next(calls), tensor_of(returned)
            if call not in outputs_by_call or state is None:
                return None
            place, output = outputs_by_call[call]
            norms, mask = None, masks[place < 0]
            with torch._C.DisableTorchFunction():
                # No sinks among embeddings, where a bright patch among dark ones would be one.
                if find_sinks and place:
                    tokens = state.permute(output.axes)[:, : mask.shape[1]]  # (B, T, H), or with streams
                    norms = token_norms(tokens) if tokens.shape[:2] == mask.shape else None
                if place in entries:
                    state = state.detach()  # a hook of the owner's may have made it require a gradient
                flowing, readouts[place] = read_out(
                    state, output.axes, norms, length=mask.shape[1], positions=output.positions
                )
            return with_tensor(returned, flowing)

        return read_layer

    return {path: reader(outputs_by_call) for path, outputs_by_call in by_path.items()}
