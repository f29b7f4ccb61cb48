"""A pool of copies of a model, each leased to one pass at a time.

Some models change their own state in a forward pass: rotary embeddings grow with the longest text so far, or attention
switches its implementation after a short one. That would change the answer to the next text, in this thread or another.
So each pass leases a copy of its own, and a copy that was changed is not leased again.

A lease lasts for one forward pass, not for a method's whole call: a backward pass needs the graph, not the copy. Layers
that run again in it do so on a copy that is no pool's.
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


class Lease(Generic[Model]):
    """A copy that is leased to one pass until it is released.

    If a lease is dropped without being released, its copy is discarded.

    Attributes:
        leased: The copy.
        active: Whether it was not released yet.
    """

    def __init__(self, copy: Model, model: Model) -> None:
        self.leased = copy
        buffers = zip(copy.buffers(), model.buffers(), strict=True)
        # As `.data`, so that only changes by passes are counted.
        self._private_buffers = [(copied.data, original) for copied, original in buffers if copied is not original]
        parameters = zip(copy.parameters(), model.parameters(), strict=True)
        self._private_weights = [(copied, original) for copied, original in parameters if copied is not original]
        self._snapshot = Snapshot(copy, configs=False)
        self._buffers = list(copy.buffers())
        self._first_counts = self._change_counts()
        self.active = True

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
    """Leases private clones of a model, and makes new ones if all are leased.

    Args:
        model: The model that is cloned.
        prepare: Is called with each new clone, to change it; None to lend clones as they are.
    """

    def __init__(self, model: Model, prepare: Callable[[Model], object] | None = None) -> None:
        self.model = model
        self._prepare = prepare
        self._idle: list[Lease[Model]] = []
        self._clean_kinds: set[Hashable] = set()

    def take(self) -> Lease[Model]:
        """Lease a copy; an idle one gets the values that the model's buffers have now."""
        try:
            lease = self._idle.pop()
        except IndexError:
            copy = private_clone(self.model)
            if self._prepare is not None:
                self._prepare(copy)
            lease = Lease(copy, self.model)
        else:
            lease.refresh()
            lease.active = True
        return lease

    def release(self, lease: Lease[Model], kind: Hashable = None) -> None:
        """Return a copy to the pool, once; it is discarded if it was changed.

        Args:
            lease: The lease.
            kind: What a pass may change depends on, such as the shapes of its inputs. Once a pass of a kind has changed
                nothing, further passes of this kind are not checked. None for a pass that is checked each time.
        """
        if not lease.active or len(self._idle) >= MAX_IDLE_COPIES:
            return
        if kind in self._clean_kinds or lease.clean:
            if kind is not None and len(self._clean_kinds) < MAX_CLEAN_KINDS:
                self._clean_kinds.add(kind)
            lease.active = False
            self._idle.append(lease)

    @contextmanager
    def lease(self, kind: Hashable = None) -> Iterator[Model]:
        """Lease a copy for one pass in a `with` block.

        Args:
            kind: What kind of pass it is, see `release`; after an exception the copy is always checked.
        """
        lease = self.take()
        try:
            yield lease.leased
        except BaseException:
            self.release(lease)
            raise
        self.release(lease, kind)


def kind_of(inputs: Mapping[str, Any], *details: Hashable) -> Hashable:
    """Return the kind of a pass, see `Pool.release`: the shapes of its inputs, and further details."""
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
