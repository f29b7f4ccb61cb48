"""Telling a lack of memory from every other error."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..errors import InputError

__all__ = ["enough_memory", "out_of_memory", "refuse_to_hide"]


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the device or the machine had too little memory."""
    text = str(error)
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "DefaultCPUAllocator" in text
        or "can't allocate memory" in text
    )


def refuse_to_hide(error: BaseException) -> None:
    """Raise an error again if it is a lack of memory: a wrong guess may fail in any way, but not in this one."""
    if out_of_memory(error):
        raise error


@contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Say of something that cannot be done in smaller batches that there was too little memory for it.

    Args:
        what: What was to be done, as a verb and its object.

    Raises:
        InputError: In the place of the device's own error, or the machine's.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise InputError(
            f"there is not enough memory to {what}: shorten it, or use a smaller dtype or another device"
        ) from error
