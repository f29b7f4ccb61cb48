"""Telling a lack of memory from every other error."""

import torch

__all__ = ["out_of_memory", "refuse_to_hide"]


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
