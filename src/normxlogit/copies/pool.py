"""A pool of copies of a model, each for one pass at a time.

Some models change their own state in a forward pass: rotary embeddings grow with the longest text so far, or attention
switches its implementation after a short one. That would change the answer to the next text, in this thread or another.
So each pass has a copy of its own, and a copy that was changed is not used again.

It is for one forward pass, not for a method's whole call: a backward pass needs the graph, not the copy. Layers that
run again in it do so on a copy that is no pool's.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from .clone import clone
from .snapshot import Snapshot

MAX_PRIVATE_ELEMENTS = 1_000_000
"""Most elements of a buffer that a private clone copies; larger ones are quantised weights, and shared."""

MAX_IDLE_COPIES = 8
"""Most idle copies."""

MAX_CLEAN_KINDS = 4096
"""Most kinds of passes that are remembered as leaving the copy clean."""

Model = TypeVar("Model", bound=nn.Module)


class PooledCopy(Generic[Model]):
    """A copy that passes use one after the other, and what shows whether one of them has changed it."""

    def __init__(self, copy: Model, model: Model) -> None:
        self.copy = copy
        buffers = zip(copy.buffers(), model.buffers(), strict=True)
        # As `.data`, so that only changes by passes are counted.
        self._private_buffers = [(copied.data, original) for copied, original in buffers if copied is not original]
        parameters = zip(copy.parameters(), model.parameters(), strict=True)
        self._private_weights = [(copied, original) for copied, original in parameters if copied is not original]
        self._snapshot = Snapshot(copy, configs=False)
        self._buffers = list(copy.buffers())
        self._first_counts = self._change_counts()

    def refresh(self) -> None:
        """Update the copy to the owner's values, as training changes buffers and the data of weights."""
        for copied, original in self._private_buffers:
            copied.copy_(original)
        for copied, original in self._private_weights:
            if copied.data_ptr() != original.data_ptr():
                copied.data = original.data

    @property
    def clean(self) -> bool:
        """Whether no pass has changed an attribute or a buffer of the copy."""
        return self._change_counts() == self._first_counts and self._snapshot.unchanged()

    def _change_counts(self) -> list[int]:
        """Return the in-place change counter of each buffer."""
        return [0 if buffer.is_inference() else buffer._version for buffer in self._buffers]


class Pool(Generic[Model]):
    """Private clones of a model, each for one pass at a time; new ones are made if all are in use.

    Args:
        model: The model that is cloned.
        prepare: Is called with each new clone, to change it; None for clones as they are.
    """

    def __init__(self, model: Model, prepare: Callable[[Model], object] | None = None) -> None:
        self.model = model
        self._prepare = prepare
        self._idle: list[PooledCopy[Model]] = []
        self._clean_kinds: set[Hashable] = set()

    @contextmanager
    def lease(self, kind: Hashable = None) -> Iterator[Model]:
        """Use a copy for one pass in a `with` block; it is discarded afterwards if the pass has changed it.

        Args:
            kind: What a pass may change depends on, such as the shapes of its inputs. Once a pass of a kind has changed
                nothing, further passes of this kind are not checked. None for a pass that is checked each time, as it
                is after an exception.
        """
        try:
            pooled = self._idle.pop()
        except IndexError:
            copy = private_clone(self.model)
            if self._prepare is not None:
                self._prepare(copy)
            pooled = PooledCopy(copy, self.model)
        else:
            pooled.refresh()
        try:
            yield pooled.copy
        except BaseException:
            kind = None
            raise
        finally:
            if len(self._idle) < MAX_IDLE_COPIES and (kind in self._clean_kinds or pooled.clean):
                if kind is not None and len(self._clean_kinds) < MAX_CLEAN_KINDS:
                    self._clean_kinds.add(kind)
                self._idle.append(pooled)


def kind_of(inputs: Mapping[str, Any], *details: Hashable) -> Hashable:
    """Return the kind of a pass, see `Pool.lease`: the shapes of its inputs, and further details."""
    shapes = ((name, value.shape[1:] if isinstance(value, Tensor) else value) for name, value in inputs.items())
    return (*shapes, *details)


def private_clone(model: Model) -> Model:
    """Return a clone with buffers of its own, except large ones, so that one pass does not leak into others."""
    copied = clone(model)
    with torch.inference_mode(False), torch.no_grad():  # tensors made in inference mode do not count their changes
        private: dict[int, Tensor] = {}
        for module in copied.modules():
            table = module.__dict__["_buffers"]
            for name, value in table.items():
                if value is not None and not value.is_meta and value.numel() <= MAX_PRIVATE_ELEMENTS:
                    table[name] = private.setdefault(id(value), value.clone())
    return cast(Model, copied)
