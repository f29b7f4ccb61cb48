"""Free memory, and out-of-memory errors, which must not be taken for other errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import torch

from ..errors import InputError

Result = TypeVar("Result")

PHRASES = ("DefaultCPUAllocator", "can't allocate memory")
"""Phrases in torch's out-of-memory errors that have no class of their own."""


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error means that the device or the machine had too little memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in PHRASES)


def reraise_out_of_memory(error: BaseException) -> None:
    """Raise an error again if it means too little memory, for use in an `except Exception`."""
    if out_of_memory(error):
        raise error


def result_or_none(work: Callable[[], Result]) -> Result | None:
    """Return the result of a call, None if memory ran out; then the device's cache is emptied."""
    try:
        return work()
    except Exception as error:
        if not out_of_memory(error):
            raise
    empty_cache()
    return None


def empty_cache() -> None:
    """Release the device memory that torch has cached."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_memory(device: torch.device) -> int | None:
    """Return how many bytes of memory are free on a device; None if nothing cheap tells."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return _free_host_memory() if device.type == "cpu" else None


def _free_host_memory() -> int | None:
    """Return how many bytes of the host's memory are free, and within the limit of a container, as Linux tells."""
    free = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")))
    with suppress(OSError, ValueError):  # the limit is "max" where there is none
        limit, used = (int(Path("/sys/fs/cgroup", f"memory.{name}").read_text()) for name in ("max", "current"))
        free.append(max(0, limit - used))
    return min(free, default=None)


@contextmanager
def enough_memory(purpose: str) -> Iterator[None]:
    """Turn an out-of-memory error into an `InputError` that names the purpose."""
    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        raise InputError(
            f"there is not enough memory to {purpose}: shorten it, or use a smaller dtype or another device"
        ) from error
