"""Timing on noisy machines: candidates alternate in each round, and ratios are taken within rounds."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from .._version import __version__
from ..compat import synchronise


@dataclass(frozen=True)
class Timing:
    """The times of one candidate.

    Attributes:
        name: Its name.
        seconds: How long it took in each round, (R,).
    """

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds, in seconds."""
        return statistics.median(self.seconds)


def in_turn(
    functions: Mapping[str, Callable[[], Any]],
    *,
    rounds: int = 15,
    warmup: int = 2,
    on_round: Callable[[int, int], None] | None = None,
) -> dict[str, Timing]:
    """Time several functions, one call of each in every round, in an order that is reversed from round to round.

    Args:
        functions: The functions, by name.
        rounds: How often each is timed.
        warmup: Rounds before those that are timed.
        on_round: Called before each round with its number, counted from 1, and the number of all.

    Returns:
        The times of each function, by its name.
    """
    names = list(functions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_index in range(warmup + rounds):
        if on_round is not None:
            on_round(round_index + 1, warmup + rounds)
        # So that none of them always runs after the same one, with what that leaves in caches.
        for name in names if round_index % 2 == 0 else reversed(names):
            synchronise()  # an accelerator runs its kernels after the call that starts them has returned
            start = time.perf_counter()
            functions[name]()
            synchronise()
            if round_index >= warmup:
                seconds[name].append(time.perf_counter() - start)
    return {name: Timing(name, tuple(times)) for name, times in seconds.items()}


def ratios(timing: Timing, base: Timing) -> tuple[float, ...]:
    """Return the ratio of two candidates' times in each round, (R,)."""
    return tuple(a / b for a, b in zip(timing.seconds, base.seconds, strict=True))


def ratio(timing: Timing, base: Timing) -> float:
    """Return the ratio of two candidates' times, the median over rounds."""
    return statistics.median(ratios(timing, base))


def environment(device: torch.device) -> dict[str, str | int]:
    """Return the machine, library versions and threads that figures depend on."""
    return {
        "machine": platform.machine(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "normxlogit": __version__,
    }
