"""The most memory that is held while something runs: of the process, or on a CUDA device of torch's allocator."""

import resource
import sys
from pathlib import Path

import torch

__all__ = ["Peak"]


class Peak:
    """The peak of what is held while this is entered.

    Where the system cannot begin a new peak the old one stands, and small work looks smaller than it is.

    Args:
        on_cuda: Ask torch's allocator instead of the system.

    Attributes:
        before: Bytes held on entering.
        added: Bytes by which the peak passed that, known on leaving.
    """

    def __init__(self, on_cuda: bool = False) -> None:
        self._on_cuda = on_cuda
        self.before = self.added = 0

    def __enter__(self) -> "Peak":
        self.before = _held(self._on_cuda)
        _forget_peak(self._on_cuda)
        return self

    def __exit__(self, *_: object) -> None:
        self.added = max(0, _peak(self._on_cuda) - self.before)


def _status(name: str) -> int | None:
    """Read a line of Linux's account of this process, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":")), None)


def _held(on_cuda: bool) -> int:
    if on_cuda:
        return torch.cuda.memory_allocated()
    return _status("VmRSS") or _peak(on_cuda)


def _peak(on_cuda: bool) -> int:
    if on_cuda:
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _forget_peak(on_cuda: bool) -> None:
    """Begin a new peak; where the system cannot, the old one stands and small jobs look smaller than they are."""
    if on_cuda:
        torch.cuda.reset_peak_memory_stats()
        return
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return
