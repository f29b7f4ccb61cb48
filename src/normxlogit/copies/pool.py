"""Private clones of a model, of which each pass leases one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .clone import clone
from .snapshot import Snapshot

MAX_PRIVATE_ELEMENTS = 1_000_000
"""Elements of the largest buffer that a private clone copies; larger ones are quantised weights."""

MAX_IDLE_COPIES = 8
"""Most copies of a model that are kept for later passes."""

Model = TypeVar("Model", bound=nn.Module)


class PooledCopy(Generic[Model]):
    """A copy that passes use one after the other, and what shows whether one of them has changed it.

    Args:
        copy: The copy, a `constant_clone` of the model.
        model: The model, whose weights and buffers have the values that the copy should have.
    """

    def __init__(self, copy: Model, model: Model) -> None:
        self.copy = copy
        buffers = zip(copy.buffers(), model.buffers(), strict=True)
        # As `.data`, on which `refresh` may write without the counter of changes that belongs to the buffer.
        self._private_buffers = [(copied.data, original) for copied, original in buffers if copied is not original]
        weights = zip(copy.parameters(), model.parameters(), strict=True)
        self._constant_weights = [(copied, original) for copied, original in weights if copied is not original]
        # What a pass writes on a configuration is not looked at: the copy is kept with it.
        self._snapshot = Snapshot(copy, configs=False)
        self._buffers = list(copy.buffers())
        self._counts_before_passes = self._change_counts()

    def refresh(self) -> None:
        """Update the copy to the model's values, as training changes buffers and the data of weights."""
        for copied, original in self._private_buffers:
            copied.copy_(original)
        for copied, original in self._constant_weights:
            # An assignment to a weight's `.data` gives it other storage, which the copy does not see.
            if copied.data_ptr() != original.data_ptr():
                copied.data = original.data

    @property
    def clean(self) -> bool:
        """Whether no pass has changed an attribute or a buffer of the copy."""
        return self._change_counts() == self._counts_before_passes and self._snapshot.unchanged()

    def _change_counts(self) -> list[int]:
        """Return how often each buffer was written on; tensors of inference mode count nothing."""
        return [0 if buffer.is_inference() else buffer._version for buffer in self._buffers]


class Pool(Generic[Model]):
    """Private clones of a model, each for one pass at a time; new ones are made if all are in use.

    Args:
        model: The model.
        around: Returns the context in which a clone is leased.
    """

    def __init__(self, model: Model, around: Callable[[Model], AbstractContextManager[Any]] = nullcontext) -> None:
        self.model = model
        self.around = around
        self._idle: list[PooledCopy[Model]] = []

    @contextmanager
    def lease(self) -> Iterator[Model]:
        """Use a copy for one pass in a `with` block; it is discarded afterwards if the pass has changed it."""
        # Not asked first whether there is one: another thread may take the last one meanwhile.
        try:
            pooled = self._idle.pop()
        except IndexError:
            pooled = PooledCopy(constant_clone(self.model), self.model)
        else:
            pooled.refresh()
        try:
            with self.around(pooled.copy):
                yield pooled.copy
        finally:
            if len(self._idle) < MAX_IDLE_COPIES and pooled.clean:
                self._idle.append(pooled)


ModelPool = Pool[PreTrainedModel]
"""Clones of a model of transformers, or of a module that was given the form of one."""


def constant_clone(model: Model) -> Model:
    """Return a private clone whose weights, on the model's own storage, are constants: no graph is built for them."""
    copied = private_clone(model)
    constants = dict[int, nn.Parameter]()
    for module in copied.modules():
        weights = module.__dict__["_parameters"]
        for name, weight in weights.items():
            # A subclass, such as a quantised weight, would not be one any more.
            if weight is not None and weight.requires_grad and type(weight) is nn.Parameter:
                weights[name] = constants.setdefault(id(weight), nn.Parameter(weight.detach(), requires_grad=False))
    return copied


def private_clone(model: Model) -> Model:
    """Return a clone with buffers of its own, except large ones, so that one pass does not leak into others."""
    copied = clone(model)
    with torch.inference_mode(False), torch.no_grad():  # tensors made in inference mode do not count their changes
        private: dict[int, Tensor] = {}  # by the id of the buffer, as several modules may share it
        for module in copied.modules():
            table = module.__dict__["_buffers"]
            for name, value in table.items():
                if value is not None and not value.is_meta and value.numel() <= MAX_PRIVATE_ELEMENTS:
                    table[name] = private.setdefault(id(value), value.clone())
    return cast(Model, copied)
