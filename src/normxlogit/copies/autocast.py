"""Forward passes in the model's own precision, whatever autocast the caller has on."""

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def without_autocast(inputs: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Switch autocast off where it is on, for the device that the inputs are on."""
    device = _device_of(inputs)
    if not torch.is_autocast_enabled(device):
        return contextlib.nullcontext()
    return torch.autocast(device, enabled=False)


def autocast_note(inputs: Mapping[str, Any], dtype: torch.dtype | None) -> tuple[str, ...]:
    """Return a note where the caller has autocast on, in which the model would answer otherwise.

    Args:
        inputs: The model's inputs.
        dtype: The precision of the model's weights, if it is known.
    """
    if not torch.is_autocast_enabled(_device_of(inputs)):
        return ()
    precision = "" if dtype is None else f", {str(dtype).removeprefix('torch.')}"
    return (f"explained in the model's own precision{precision}; in autocast, which is on here, it answers otherwise",)


def _device_of(inputs: Mapping[str, Any]) -> str:
    """Return the type of the device that the inputs are on."""
    return next((value.device.type for value in inputs.values() if isinstance(value, Tensor)), "cpu")
