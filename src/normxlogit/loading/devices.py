"""Devices by name."""

import torch

from ..errors import InputError

AUTO = "auto"
"""The accelerator of the machine (CUDA, MPS and others), otherwise the CPU."""


def device_named(device: torch.device | str) -> torch.device:
    """Return the device with a name, if the machine has it."""
    if device == AUTO:
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        requested = torch.device(device)
        torch.empty(0, device=requested)
    except (RuntimeError, AssertionError, TypeError, ValueError, ImportError) as error:
        available = " and ".join(dict.fromkeys(("cpu", device_named(AUTO).type)))
        raise InputError(f"there is no device {str(device)!r} here: this machine has {available}") from error
    return requested


def device_name(device: torch.device) -> str:
    """Return the device's name for reports, such as that of the graphics card."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def synchronise() -> None:
    """Wait until the device has finished its work."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
