"""The precision of products of float32, a setting of the process: TF32 and bfloat16 keep 10 and 7 bits of the mantissa.

Explanations are computed as the caller has set it; proofs, which compare answers to rounding, in full precision.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch

EPS = {"tf32": 2.0**-10, "bf16": 2.0**-7, "high": 2.0**-10, "medium": 2.0**-10, True: 2.0**-10}
"""The relative rounding of a factor, by the value of a setting that reduces the precision."""

_lock = threading.Lock()
_blocks = 0  # blocks of all threads that compute in full precision now
_changed: list[tuple[Callable[[Any], None], Any, Any]] = []  # as `_reduced_settings` returns them


@contextmanager
def full_float32() -> Iterator[bool]:
    """Compute float32 in full precision in the block, in all threads; yield whether the caller has set another."""
    global _blocks  # the settings are the process's
    with _lock:
        if not _blocks:
            _changed[:] = _reduced_settings(convolutions=True)
            for change, _, full in _changed:
                change(full)
        _blocks += 1
    try:
        yield bool(_changed)
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                for change, value, _ in _changed:
                    change(value)


def float32_eps() -> float:
    """Return the relative rounding of matrix products of float32 as the caller has set it."""
    return max((EPS[value] for _, value, _ in _reduced_settings()), default=torch.finfo(torch.float32).eps)


def _reduced_settings(*, convolutions: bool = False) -> list[tuple[Callable[[Any], None], Any, Any]]:
    """Return the settings that reduce precision, each how it is changed, its value, and that for full precision."""
    settings: list[tuple[Callable[[Any], None], Any, Any]] = []
    with suppress(RuntimeError):  # the older one first: it changes the newer ones; refused where they contradict it
        settings.append((torch.set_float32_matmul_precision, torch.get_float32_matmul_precision(), "highest"))
    cudnn, mkldnn = torch.backends.cudnn, torch.backends.mkldnn
    owners = [(torch.backends.cuda, "matmul"), (mkldnn, "matmul")]
    owners += [(mkldnn, "conv")] if convolutions else []
    owners += [(cudnn, "conv"), (cudnn, "rnn")] if convolutions and cudnn.is_available() else []
    switches: list[tuple[Any, str, Any]] = [
        (getattr(owner, name, None), "fp32_precision", "ieee") for owner, name in owners
    ]
    if convolutions and cudnn.is_available():
        switches.insert(0, (cudnn, "allow_tf32", False))
    for owner, name, full in switches:
        with suppress(AttributeError, RuntimeError):  # not of this version of torch
            settings.append((partial(setattr, owner, name), getattr(owner, name), full))
    return [setting for setting in settings if setting[1] in EPS]
