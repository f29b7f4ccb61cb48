"""Forward passes that leave nothing behind, neither on the copy nor on the caller's model.

Some models write on themselves while they read: rotary embeddings that grow with the longest text so far, attention
that switches its kind after a short one. What they wrote would be part of the next text's answer, in this thread or
another. So a pass of a shape that was never run is made on a copy of its own; if nothing was written there, later
passes of this shape share one copy.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .clone import clone
from .snapshot import Snapshot

__all__ = ["Isolated", "WriteWatch", "autocast_note", "private_clone", "without_autocast"]

SMALL = 1_000_000
"""Elements of a buffer up to which a private clone has its own: larger ones are quantised weights."""

SHAPES = 4096
"""Most shapes remembered."""


class Isolated:
    """A model that is called as it is, and whose passes leave nothing behind.

    Passes are made in the model's own precision: autocast is off.

    Args:
        model: A structural clone.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._settled: set[Any] = set()

    def __call__(self, **inputs: Any) -> Any:
        """Call the model."""
        shape = tuple((name, v.shape[1:] if isinstance(v, Tensor) else v) for name, v in inputs.items())
        with without_autocast(inputs):
            if shape in self._settled:
                return self.model(**inputs)
            private = private_clone(self.model)
            watch = WriteWatch(private)
            try:
                return private(**inputs)
            finally:
                if not watch.written() and len(self._settled) < SHAPES:
                    self._settled.add(shape)


class WriteWatch:
    """Tells whether a model's passes write on its modules or into their buffers.

    Args:
        model: A clone that nobody but these passes writes on.
    """

    def __init__(self, model: nn.Module) -> None:
        self._before = Snapshot(model, configs=False)
        self._buffers = list(model.buffers())
        self._versions = self._counted()

    def written(self) -> bool:
        """Return whether anything is not as it was when the watch began."""
        return self._counted() != self._versions or not self._before.unchanged()

    def _counted(self) -> list[int]:
        """Return how often each buffer was changed in place."""
        return [0 if b.is_inference() else b._version for b in self._buffers]


def private_clone(model: nn.Module) -> nn.Module:
    """Clone a model with its buffers, but for large ones, so that what a pass writes into them reaches nobody else."""
    copied = clone(model)
    with torch.inference_mode(False), torch.no_grad():  # tensors made in inference mode do not count their changes
        own: dict[int, Tensor] = {}
        for module in copied.modules():
            table = module.__dict__["_buffers"]
            for name, value in table.items():
                if value is not None and not value.is_meta and value.numel() <= SMALL:
                    table[name] = own.setdefault(id(value), value.clone())
    return copied


def without_autocast(inputs: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Switch autocast off where it is on, for the device that the inputs are on."""
    device = _device_of(inputs)
    if not torch.is_autocast_enabled(device):
        return contextlib.nullcontext()
    return torch.autocast(device, enabled=False)


def autocast_note(inputs: Mapping[str, Any], dtype: torch.dtype | None) -> tuple[str, ...]:
    """Return a note where the caller has autocast on, in which the model would answer otherwise.

    Args:
        inputs: What was read.
        dtype: The precision in which it was, if it is known.
    """
    if not torch.is_autocast_enabled(_device_of(inputs)):
        return ()
    own = "" if dtype is None else f", {str(dtype).removeprefix('torch.')}"
    return (f"explained in the model's own precision{own}; in autocast, which is on here, it answers otherwise",)


def _device_of(inputs: Mapping[str, Any]) -> str:
    return next((value.device.type for value in inputs.values() if isinstance(value, Tensor)), "cpu")
