"""The entry of a picture or a sound into a model: the first module with weights that reads it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.module_io import CallArguments, Inputs
from ..copies.run import Replacements, Site, run
from ..errors import UnsupportedModelError
from .headpiece import answer_of
from .layer_outputs import LayerOutput
from .proofs import proof

Shape = tuple[int, ...]
"""The size of a tensor along each of its axes."""

Window = tuple[Shape, ...]
"""The kernel, the stride and the padding of a convolution; () of a linear layer."""


@dataclass(frozen=True)
class SignalEntry:
    """The patch embedding of a picture, or the first convolution of a sound."""

    path: str  # the module
    input_shape: Shape
    output_shape: Shape
    channels: int  # the axis of its output that counts channels, not places
    window: Window = ()

    @property
    def place_axes(self) -> list[int]:
        """The axes of its output that count places: all but those of the batch and of channels."""
        return [axis for axis in range(1, len(self.output_shape)) if axis != self.channels]

    @property
    def places(self) -> int:
        """How many patches or frames it makes of each picture or sound, the first axis of its output."""
        return math.prod(self.output_shape[1:]) // self.output_shape[self.channels]

    def flatten(self, output: Tensor) -> Tensor:
        """Return the module's output as a row of N patches, (1, N, H)."""
        channels_last = output.movedim(self.channels, -1)
        return channels_last.reshape(1, -1, channels_last.shape[-1])

    def unflatten(self, patches: Tensor, shape: torch.Size) -> Tensor:
        """Return a row of N patches, (1, N, H), in the shape of the module's output.

        Args:
            patches: The patches, (1, N, H).
            shape: The shape of the module's output.
        """
        axes = list(shape)
        width = axes.pop(self.channels)
        return patches.reshape(*axes, width).movedim(-1, self.channels)

    def patch_means(self, values: Tensor) -> Tensor:
        """Return the mean of values, in the shape of the module's input, over each patch's receptive field, (N,)."""
        if not self.window:  # a linear layer, of which each row of its input is a patch
            return values.mean(-1).flatten()
        kernel, stride, padding = self.window
        pools: tuple[Any, ...] = (nn.functional.avg_pool1d, nn.functional.avg_pool2d, nn.functional.avg_pool3d)
        means: Tensor = pools[len(kernel) - 1](values.mean(1, keepdim=True), kernel, stride, padding)  # of channels
        return means.flatten()

    def replaced(self, change: Callable[[Tensor], Tensor]) -> Replacements:
        """Return the `replace=` of `run` that changes the patches, (1, N, H)."""

        def replace_output(output: Any, _: Any) -> Tensor:
            with torch._C.DisableTorchFunction():  # a `Recording` would note operations of the model
                return self.unflatten(change(self.flatten(output)), output.shape)

        return {Site(self.path, call=0): replace_output}


def find_signal_entry(model: nn.Module, inputs: Inputs) -> SignalEntry | None:
    """Find the module at which a picture or a sound enters a model; None if the inputs are token ids alone.

    Args:
        model: A copy of the model, which is run once.
        inputs: The inputs of a forward pass.
    """
    entries: list[SignalEntry] = []

    def record_entry(path: str, module: Any, output: Any, arguments: CallArguments) -> None:
        """Record the first module that is given numbers, and not ids; it changes nothing, as a `Replace` may."""
        entry_input = arguments.main_input
        if entries or not isinstance(entry_input, Tensor) or not entry_input.is_floating_point():
            return  # None: the output stays
        is_linear = isinstance(module, nn.Linear)
        entry = SignalEntry(
            path,
            input_shape=tuple(entry_input.shape),
            output_shape=tuple(output.shape),
            channels=output.ndim - 1 if is_linear else 1,  # a convolution has them after the batch
            window=() if is_linear else _window_of(module),
        )
        entries.append(entry)

    candidates = {
        Site(path, call=0): partial(record_entry, path, module)
        for path, module in model.named_modules()
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear))
    }
    with torch.no_grad():
        run(model, inputs, replace=candidates)
    return entries[0] if entries else None


def _window_of(convolution: Any) -> Window:
    """Return the kernel, the stride and the padding of a convolution."""
    sizes, padding = convolution.kernel_size, convolution.padding
    if isinstance(padding, str):  # "same", half of the kernel on each side, or "valid", none
        padding = tuple(size // 2 if padding == "same" else 0 for size in sizes)
    return sizes, convolution.stride, padding


def embedding_of_signal(model: nn.Module, inputs: Inputs, signal: str) -> LayerOutput:
    """Return the patch embeddings of a signal, after proving that it affects the output through them alone.

    Args:
        model: A copy of the model.
        inputs: The inputs of a forward pass, by name.
        signal: The name of the picture, the sound or the series among them.

    Raises:
        UnsupportedModelError: If it affects the output in another way, too.
    """
    entry = find_signal_entry(model, inputs)
    # The entry returns a map of places, (B, ...), one for each signal; two axes would have no place.
    if entry is not None and len(entry.output_shape) > 2 and entry.output_shape[0] == len(inputs[signal]):
        positions = entry.place_axes
        if nothing_bypasses(model, inputs, signal, entry):
            axes = (0, *positions, entry.channels)
            return LayerOutput(entry.path, call=1, axes=axes, positions=len(positions))
    raise UnsupportedModelError(
        f"{type(model).__name__} does not read its {signal} through one patch embedding or first convolution, whose "
        "parts could be scored"
    )


@proof(
    compares="the gradient of the answer by a picture or sound whose map of vectors is detached, with none",
    tolerance="no path at all",
    why="what reached the answer past the patches would be counted as bias",
    when="first call of classifiers of pictures and sounds without a state for each patch; a pass there and back",
)
def nothing_bypasses(model: nn.Module, inputs: Inputs, signal: str, entry: SignalEntry) -> bool:
    """Return whether a signal affects the output only through its entry: no gradient arrives where that is detached."""
    with torch.inference_mode(False), torch.enable_grad():
        values = inputs[signal].detach().clone().requires_grad_()
        result = run(model, {**inputs, signal: values}, replace=entry.replaced(Tensor.detach))
        answer = answer_of(result.output)
        if answer is None or not answer.requires_grad:  # no path at all is left past the entry
            return True
        (gradient,) = torch.autograd.grad(answer.float().sum(), values, allow_unused=True)
        return gradient is None
