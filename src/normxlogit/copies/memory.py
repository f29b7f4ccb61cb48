"""Out-of-memory errors, which must not be taken for others; free memory, and how many tokens fit into it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from ..errors import InputError

Result = TypeVar("Result")

PHRASES = ("DefaultCPUAllocator", "can't allocate memory")
"""What torch's errors for too little memory say that have no class of their own."""

GRAPH_MEMORY = 4
"""How many times the memory of a plain pass one takes whose graph is kept for a backward pass."""

MOST_TOKENS = 8192
"""Most tokens of a plain pass by default on a CPU, where more are not faster."""

MOST_TOKENS_ON_ACCELERATORS = 65_536
"""Most tokens on other devices: the more tokens, the fewer kernels are launched for each."""

FEWEST_TOKENS = 1024
"""Fewest tokens: the estimate is a rough one, and too large a batch is split."""

SHARE_OF_MEMORY = 0.5
"""Share of the free memory for the states of a pass, by the estimate."""

KEPT_OF_LAYER = 1.5
"""What a graph keeps for a token, in widths of all linear maps: BERT and Llama keep 1.4 of them."""


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error means that the device or the machine had too little memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in PHRASES)


def reraise_out_of_memory(error: BaseException) -> None:
    """Raise an error again if it means too little memory, for use in an `except Exception`."""
    if out_of_memory(error):
        raise error


@contextmanager
def attempted() -> Iterator[None]:
    """End the block at an error of any kind, unless it means too little memory: a model may be of any form."""
    try:
        yield
    except Exception as error:
        reraise_out_of_memory(error)


def empty_cache() -> None:
    """Release the device memory that torch has cached."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_memory(device: torch.device) -> int | None:
    """Return how many bytes are free on a device, of a host as Linux and its container tell; None if unknown."""
    if device.type == "cuda":
        unused, _ = torch.cuda.mem_get_info(device)
        # What torch has reserved and nobody uses is free, too.
        return unused + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if device.type != "cpu":
        return None
    free = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")))
    with suppress(OSError, ValueError):  # the limit is "max" where there is none
        limit, used = (int(Path("/sys/fs/cgroup", f"memory.{name}").read_text()) for name in ("max", "current"))
        free.append(max(0, limit - used))
    return min(free, default=None)


def result_or_none(work: Callable[[], Result]) -> Result | None:
    """Return the result of a call, None if memory ran out; then the device's cache is emptied."""
    try:
        return work()
    except Exception as error:
        if not out_of_memory(error):
            raise
    empty_cache()
    return None


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


# --- how many tokens a forward pass can have ------------------------------------------------------------------------


def tokens_that_fit(module: nn.Module, device: torch.device, vocabulary: int) -> int:
    """Return how many tokens a plain pass can have in the free memory.

    Args:
        module: The model.
        device: Where it runs.
        vocabulary: How many logits a language model has; 0 for others.
    """
    free = free_memory(device)
    if free is None:
        return MOST_TOKENS
    most = MOST_TOKENS if device.type == "cpu" else MOST_TOKENS_ON_ACCELERATORS
    tokens_kept = int(SHARE_OF_MEMORY * free / _bytes_kept(module, vocabulary))  # of a pass whose graph is kept
    return min(most, max(FEWEST_TOKENS, tokens_kept * GRAPH_MEMORY))


def _bytes_kept(module: nn.Module, vocabulary: int) -> float:
    """Estimate the bytes that the graph of a pass keeps for each token, from the widths of the linear maps."""
    widths = 0  # of all linear maps, the wider side of each; not of a vocabulary: its logits are not kept
    for part in module.modules():
        if not isinstance(part, nn.Embedding):
            shapes = [weight.shape[-2:] for weight in part.parameters(recurse=False) if weight.ndim > 1]
            if isinstance(part, nn.Linear):  # where the weight is quantised, it has another shape than the map
                shapes = [torch.Size((part.in_features, part.out_features))]
            widths += sum(max(shape) for shape in shapes if vocabulary not in shape)
    # Where all weights are quantised, states are taken for float32, 4 bytes.
    bytes_per_number = next((weight.element_size() for weight in module.parameters() if weight.is_floating_point()), 4)
    # At least 1, as a module without linear maps would fit without end.
    return max(1.0, KEPT_OF_LAYER * widths * bytes_per_number)
