"""Where a picture or a sound enters a model: the first module with weights that is given no token ids."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.run import Replace, run
from ..errors import UnsupportedModelError
from .headpiece import answer_of
from .layer_outputs import LayerOutput
from .proofs import nothing_bypasses

ENTRIES = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


@dataclass(frozen=True)
class SignalEntry:
    """The patch embedding of a picture, or the first convolution of a sound.

    Attributes:
        given: The shape of what it is given.
        returned: The shape of what it returns.
        channels: The axis of its output that counts channels, not places.
        window: Kernel, stride and padding of a convolution; () of a linear layer.
    """

    path: str
    given: tuple[int, ...]
    returned: tuple[int, ...]
    channels: int
    window: tuple[tuple[int, ...], ...] = ()

    def parts(self, output: Tensor) -> Tensor:
        """Return what the module returned as a row of N parts, (1, N, H)."""
        wide = output.movedim(self.channels, -1)
        return wide.reshape(1, -1, wide.shape[-1])

    def held(self, parts: Tensor, shape: torch.Size) -> Tensor:
        """Return a row of N parts, (1, N, H), in the shape that the module returned."""
        axes = list(shape)
        width = axes.pop(self.channels)
        return parts.reshape(*axes, width).movedim(-1, self.channels)

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over what each part is made of, (N,), of values in the shape of what the module is given."""
        if not self.window:
            return values.mean(-1).flatten()
        pools: tuple[Any, ...] = (nn.functional.avg_pool1d, nn.functional.avg_pool2d, nn.functional.avg_pool3d)
        means: Tensor = pools[len(self.window[0]) - 1](values.mean(1, keepdim=True), *self.window)
        return means.flatten()

    def replaced(self, change: Callable[[Tensor], Tensor]) -> dict[str, Replace]:
        """Return what `run` is to replace so that other parts, (1, N, H), flow on."""

        def swap(output: Any, _: Any, __: Any) -> Tensor:
            with torch._C.DisableTorchFunction():
                return self.held(change(self.parts(output)), output.shape)

        return {self.path: swap}


def find_signal_entry(model: nn.Module, inputs: Mapping[str, Any]) -> SignalEntry | None:
    """Find where the numbers of a picture or a sound enter a model; None where nothing but token ids is read."""
    entries: list[SignalEntry] = []

    def noting(path: str, module: Any) -> Replace:
        def note(output: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            entry_input = args[0] if args else next(iter(kwargs.values()), None)
            if entries or not isinstance(entry_input, Tensor) or not entry_input.is_floating_point():
                return
            shapes = tuple(entry_input.shape), tuple(output.shape)
            if isinstance(module, nn.Linear):
                entries.append(SignalEntry(path, *shapes, output.ndim - 1))
            else:
                halves = {"valid": 0, "same": 1}.get(str(module.padding))  # of a kernel on each side
                sizes = module.kernel_size
                padding = module.padding if halves is None else tuple(halves * (size // 2) for size in sizes)
                window = (sizes, module.stride, padding)
                entries.append(SignalEntry(path, *shapes, 1, window))

        return note

    candidates = {path: noting(path, m) for path, m in model.named_modules() if isinstance(m, ENTRIES)}
    with torch.no_grad():
        run(model, inputs, replace=candidates)
    return entries[0] if entries else None


def patch_embedding(model: nn.Module, inputs: Mapping[str, Any], signal: str) -> LayerOutput:
    """Return the output of the entry of a signal, proved to be all that the answer depends on of it.

    Args:
        model: A private copy of the model.
        inputs: A batch.
        signal: The input that is a picture or a sound.
    """
    entry = find_signal_entry(model, inputs)
    if entry is not None and len(entry.returned) > 2 and entry.returned[0] == len(inputs[signal]):
        positions = [axis for axis in range(1, len(entry.returned)) if axis != entry.channels]
        if nothing_bypasses(_slope_beside(model, inputs, signal, entry)):
            return LayerOutput(entry.path, 1, (0, *positions, entry.channels), len(positions))
    raise UnsupportedModelError(
        f"{type(model).__name__} does not read its {signal} through one patch embedding or first convolution, whose "
        "parts could be scored"
    )


def _slope_beside(model: nn.Module, inputs: Mapping[str, Any], signal: str, entry: SignalEntry) -> Tensor | None:
    """Return the gradient of the answer by a signal whose entry is detached; None where no path is left."""
    with torch.inference_mode(False), torch.enable_grad():
        values = inputs[signal].detach().clone().requires_grad_()
        done = run(model, {**inputs, signal: values}, replace=entry.replaced(Tensor.detach))
        answer = answer_of(done.output)
        if answer is None or not answer.requires_grad:
            return None
        (slope,) = torch.autograd.grad(answer.float().sum(), values, allow_unused=True)
        return slope  # type: ignore[no-any-return]
