"""Where a picture or a sound enters a model: the first module with weights that is given no token ids."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from .headpiece import answer_of
from .layer_outputs import LayerOutput
from .proofs import nothing_bypasses
from .readout import Readout, read_out
from .run import Replace, run

__all__ = ["SignalEntry", "find_signal_entry", "patch_embedding"]

ENTRIES = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


@dataclass(frozen=True)
class SignalEntry:
    """The patch embedding of a picture, or the first convolution of a sound.

    Attributes:
        path: Where the module is.
        given: The shape of what it is given.
        returned: The shape of what it returns.
        channels: The axis of its output that counts channels, not places.
    """

    path: str
    given: tuple[int, ...]
    returned: tuple[int, ...]
    channels: int

    def parts(self, output: Tensor) -> Tensor:
        """Return what the module returned as a row of N parts, (1, N, H)."""
        wide = output.movedim(self.channels, -1)
        return wide.reshape(1, -1, wide.shape[-1])

    def held(self, parts: Tensor) -> Tensor:
        """Return a row of N parts, (1, N, H), as the module returns it."""
        shape = list(self.returned)
        width = shape.pop(self.channels)
        return parts.reshape(*shape, width).movedim(-1, self.channels)

    def replaced(self, change: Callable[[Tensor], Tensor]) -> dict[str, Replace]:
        """Return what `run` is to replace so that other parts, (1, N, H), flow on."""

        def swap(output: Any, _: Any, __: Any) -> Tensor:
            with torch._C.DisableTorchFunction():
                return self.held(change(self.parts(output)))

        return {self.path: swap}

    def reading(self, readouts: dict[int, Readout], place: int) -> dict[str, Replace]:
        """Return what `run` is to replace for the contribution of every part to be read.

        Args:
            readouts: By place, what was read; filled by the pass.
            place: What this place is called.
        """

        def read(parts: Tensor) -> Tensor:
            flowing, readouts[place] = read_out(parts)
            return flowing

        return self.replaced(read)


def find_signal_entry(model: nn.Module, inputs: Mapping[str, Any]) -> SignalEntry | None:
    """Find where the numbers of a picture or a sound enter a model; None where nothing but token ids is read.

    Args:
        model: A copy.
        inputs: What it reads.
    """
    entries: list[SignalEntry] = []

    def noting(path: str, module: nn.Module) -> Replace:
        def note(output: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = args[0] if args else next(iter(kwargs.values()), None)
            if entries or not isinstance(given, Tensor) or not given.is_floating_point():
                return
            kept = given.ndim == output.ndim and not isinstance(module, nn.Linear)
            channels = output.ndim - 1 if isinstance(module, nn.Linear) else 1 if kept else 0
            entries.append(SignalEntry(path, tuple(given.shape), tuple(output.shape), channels))

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

    Raises:
        UnsupportedModelError: If there is none, as in a model that reads its pictures in several places.
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
