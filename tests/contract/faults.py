"""Faults at a chosen moment of a call."""

import contextlib
import os
import resource
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import normxlogit

PACKAGE = os.path.dirname(normxlogit.__file__)


class AtOperation(TorchDispatchMode):
    """Runs out of memory at the n-th operation on tensors, or at every one of so many elements; 0 counts them."""

    def __init__(self, number=0, *, largest=None):
        super().__init__()
        self.number, self.largest, self.seen = number, largest, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen += 1
        if self.seen == self.number:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        found = function(*args, **(kwargs or {}))
        if self.largest is not None and isinstance(found, torch.Tensor) and found.numel() > self.largest:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return found


class AtLine:
    """Presses Ctrl-C at the n-th line of the package that runs; 0 counts them."""

    def __init__(self, number=0):
        self.number, self.seen, self.before = number, 0, None

    def __enter__(self):
        self.before = sys.gettrace()  # a debugger's, or what measures coverage
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self.number:
                sys.settrace(self.before)
                raise KeyboardInterrupt
        return self._trace


def moments(total, count):
    """So many moments of a call with so many steps: the first, the last and others between."""
    return sorted({round(1 + (total - 1) * i / (count - 1)) for i in range(count)})


@contextlib.contextmanager
def full_disk(size=64):
    """Let no file grow beyond so many bytes, as on a disk without room for more."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
