"""Forward passes that leave nothing behind, neither on the copy nor on the caller's model."""

from typing import Any

from torch import Tensor, nn

from .autocast import without_autocast
from .pool import WriteWatch, private_clone

__all__ = ["Isolated"]

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
