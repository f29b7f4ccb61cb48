"""The precision of a pass: autocast is off, and products of float32 are as the caller has set them, or in full.

TF32 and bfloat16 keep 10 and 7 bits of the mantissa. Explanations are computed with what the caller has set for the
process; proofs, which compare answers to rounding, in full precision.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .module_io import Inputs


def without_autocast(inputs: Inputs) -> AbstractContextManager[Any]:
    """Disable autocast inside the block, for the device of the inputs."""
    if not torch._C._is_any_autocast_enabled():  # a mode that records the pass would see the device being asked for
        return nullcontext()
    return torch.autocast(_device_of(inputs), enabled=False)


def autocast_note(inputs: Inputs, dtype: torch.dtype | None) -> tuple[str, ...]:
    """Return a note if the caller has enabled autocast, in which the model's outputs would differ.

    Args:
        inputs: The inputs, on the model's device.
        dtype: The precision of the model; None if it is not known.
    """
    if not torch.is_autocast_enabled(_device_of(inputs)):
        return ()
    precision = "" if dtype is None else f", {str(dtype).removeprefix('torch.')}"
    return (f"explained in the model's own precision{precision}; in autocast, which is on here, it answers otherwise",)


def _device_of(inputs: Inputs) -> str:
    """Return the type of the inputs' device."""
    return next((value.device.type for value in inputs.values() if isinstance(value, Tensor)), "cpu")


EPS = {"tf32": 2.0**-10, "bf16": 2.0**-7, "high": 2.0**-10, "medium": 2.0**-10, True: 2.0**-10}
"""The relative rounding of a factor, by the value of a setting that reduces the precision; True of `allow_tf32`."""

OF_PRODUCTS = ("cuda.matmul.fp32_precision", "mkldnn.matmul.fp32_precision")
OF_CONVOLUTIONS = ("mkldnn.conv.fp32_precision",)
OF_CUDNN = ("cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision")
"""Settings of `torch.backends` for the precision of matrix products, of convolutions, and of cuDNN's."""

_lock = threading.Lock()
_blocks = 0  # blocks of all threads that compute in full precision now
_changed: "list[_Setting]" = []  # those that the caller has set


@contextmanager
def full_float32() -> Iterator[bool]:
    """Compute float32 in full precision in the block, in all threads; yield whether the caller has set another.

    The settings are the process's: the first of several blocks changes them, and the last one that ends restores them.
    """
    global _blocks
    with _lock:
        if not _blocks:
            _changed[:] = _reduced_settings(convolutions=True)
            for setting in _changed:
                setting.change(setting.full)
        _blocks += 1
    try:
        yield bool(_changed)
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                for setting in _changed:
                    setting.change(setting.value)


def float32_eps() -> float:
    """Return the relative rounding of matrix products of float32 as the caller has set it."""
    return max((EPS[setting.value] for setting in _reduced_settings()), default=torch.finfo(torch.float32).eps)


class _Setting(NamedTuple):
    """A setting of the process that reduces the precision of float32."""

    change: Callable[[Any], None]
    value: Any  # as the caller has set it
    full: Any  # its value for full precision


def _reduced_settings(*, convolutions: bool = False) -> list[_Setting]:
    """Return the settings that reduce precision: of matrix products, and of convolutions too."""
    settings: list[_Setting] = []
    with suppress(RuntimeError):  # the older one first: it changes the newer ones; refused where they contradict it
        value = torch.get_float32_matmul_precision()
        settings.append(_Setting(torch.set_float32_matmul_precision, value, "highest"))
    paths = [*OF_PRODUCTS, *(OF_CONVOLUTIONS if convolutions else ())]
    if convolutions and torch.backends.cudnn.is_available():
        paths = ["cudnn.allow_tf32", *paths, *OF_CUDNN]
    for path in paths:
        owner_path, name = path.rsplit(".", 1)
        with suppress(AttributeError, RuntimeError):  # not of this version of torch
            owner = attrgetter(owner_path)(torch.backends)
            full = False if name == "allow_tf32" else "ieee"
            settings.append(_Setting(partial(setattr, owner, name), getattr(owner, name), full))
    return [setting for setting in settings if setting.value in EPS]
