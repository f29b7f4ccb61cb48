"""Transfers of tensors from a device to the host."""

from typing import Any

import torch
from torch import Tensor


def to_host(*tensors: Tensor | None) -> list[Any]:
    """Bring tensors from the device to the host, in one transfer.

    Args:
        *tensors: Tensors of any shape and type; None for one that there is not.

    Returns:
        An array of float32 for each tensor, of the same shape, and None for None. Indices are exact below 2^24.
    """
    present = [tensor.float() for tensor in tensors if tensor is not None]
    # An iterator, so that each tensor below takes the next array, and None takes none.
    on_host = iter(present if all(tensor.is_cpu for tensor in present) else _in_one_transfer(present))
    return [None if tensor is None else next(on_host).numpy() for tensor in tensors]


def _in_one_transfer(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors, of which at least one is on a device, on the host, which waits for each transfer."""
    device = next(tensor.device for tensor in tensors if not tensor.is_cpu)
    joined = torch.cat([tensor.to(device).flatten() for tensor in tensors]).cpu()
    parts = joined.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
