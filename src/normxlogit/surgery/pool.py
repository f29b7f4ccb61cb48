"""Copies of a model that are lent, each to one pass at a time.

Some models write on themselves in a forward pass: rotary embeddings that grow with the longest text so far, attention
that switches its kind after a short one. What they wrote would be part of the next text's answer, in this thread or
another. So a pass leases a copy for itself, and a copy on which something was written is not lent again.

A lease is for a pass, not for a method's call: the head is called while a frozen pass waits for its gradients.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from .clone import clone
from .snapshot import Snapshot

__all__ = ["Lease", "Pool", "WriteWatch", "kind_of", "model_pool", "private_clone"]

SMALL = 1_000_000
"""Elements of a buffer up to which a private clone has its own: larger ones are quantised weights."""

IDLE = 8
"""Most copies that wait for their next lease."""

SETTLED = 4096
"""Most kinds of passes that are remembered to write nothing."""

Model = TypeVar("Model", bound=nn.Module)
Lent = TypeVar("Lent")


class WriteWatch:
    """Tells whether passes write on the modules of a model or into their buffers.

    Args:
        model: A clone that only these passes write on.
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


class Lease(Generic[Lent]):
    """A copy that one pass has for itself until it is released.

    A lease that is dropped without being released takes its copy with it.

    Args:
        lent: What is lent.
        copy: The modules in it.
        model: What the copy was made of.

    Attributes:
        lent: What is lent.
        held: Whether it was not released yet.
    """

    def __init__(self, lent: Lent, copy: nn.Module, model: nn.Module) -> None:
        self.lent = lent
        pairs = zip(copy.buffers(), model.buffers(), strict=True)
        self._buffers = [(private, owners) for private, owners in pairs if private is not owners]
        self._watch = WriteWatch(copy)
        self.held = True

    def refresh(self) -> None:
        """Bring the owner's values into the private buffers: training changes those of batch norms in place."""
        for private, owners in self._buffers:
            private.data.copy_(owners)  # as data, so that the watch counts only what passes write

    @property
    def clean(self) -> bool:
        """Whether no pass wrote on the copy."""
        return not self._watch.written()


class Pool(Generic[Lent]):
    """Lends private clones of a model, and makes new ones when all are lent.

    Args:
        model: A structural clone of the model.
        make: Makes what is lent out of a private clone.
    """

    def __init__(self, model: nn.Module, make: Callable[[nn.Module], Lent]) -> None:
        self.model = model
        self._make = make
        self._idle: list[Lease[Lent]] = []
        self._settled: set[Hashable] = set()

    def take(self) -> Lease[Lent]:
        """Lease a copy whose buffers have the owner's values."""
        try:
            lease = self._idle.pop()
        except IndexError:
            copy = private_clone(self.model)
            lease = Lease(self._make(copy), copy, self.model)
        else:
            lease.refresh()
            lease.held = True
        return lease

    def release(self, lease: Lease[Lent], kind: Hashable = None) -> None:
        """Take a copy back, once; it is dropped if it was written on.

        Args:
            lease: The lease.
            kind: What kind of pass it was. A pass of a kind that wrote nothing before is not looked at again, for what
                models write depends on the shape of what they read; None for one that is looked at each time.
        """
        if not lease.held or len(self._idle) >= IDLE:
            return
        if kind in self._settled or lease.clean:
            if kind is not None and len(self._settled) < SETTLED:
                self._settled.add(kind)
            lease.held = False
            self._idle.append(lease)

    @contextmanager
    def lease(self, kind: Hashable = None) -> Iterator[Lent]:
        """Lease a copy for one pass; `kind` is as for `release`."""
        lease = self.take()
        try:
            yield lease.lent
        except BaseException:
            self.release(lease)
            raise
        self.release(lease, kind)


def model_pool(model: Model) -> Pool[Model]:
    """Return a pool that lends private clones of a model as they are."""
    return Pool(model, lambda copy: cast(Model, copy))


def kind_of(inputs: Mapping[str, Any], *more: Hashable) -> Hashable:
    """Return the kind of a pass over inputs, see `Pool.release`: their shapes, and what else is done in it."""
    shapes = ((name, v.shape[1:] if isinstance(v, Tensor) else v) for name, v in inputs.items())
    return (*shapes, *more)


def private_clone(model: Model) -> Model:
    """Clone a model with its buffers, but for large ones, so that what a pass writes into them reaches no other."""
    copied = clone(model)
    with torch.inference_mode(False), torch.no_grad():  # tensors made in inference mode do not count their changes
        private: dict[int, Tensor] = {}
        for module in copied.modules():
            table = module.__dict__["_buffers"]
            for name, value in table.items():
                if value is not None and not value.is_meta and value.numel() <= SMALL:
                    table[name] = private.setdefault(id(value), value.clone())
    return cast(Model, copied)
