"""The peak memory of an explanation over that of the bare forward pass."""

from collections.abc import Callable, Mapping
from typing import Any

from normxlogit.errors import DataError
from paper.costs.memory import FORWARD, Job, measure

from .ratios import Row

__all__ = ["extra_memory"]


def extra_memory(
    *,
    batch: int = 16,
    length: int = 512,
    rounds: int = 7,
    bert: Mapping[str, Any] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Row:
    """Compare NormXLogit's peak with that of the bare forward pass.

    Args:
        batch: Texts at once.
        length: Tokens of each.
        rounds: Pairs of processes.
        bert: Changes to the configuration of BERT-base.
        on_progress: Called with what is running, rounds done and rounds in all.

    Raises:
        DataError: If there is not enough memory.
    """
    figures, added = [], 0.0
    for done in range(rounds):
        if on_progress is not None:
            on_progress("memory", done, rounds)
        bare, ours = (measure(Job(name, batch, length, bert or {})) for name in (FORWARD, "normxlogit"))
        if bare is None or ours is None:
            raise DataError(f"there is not enough memory for {batch} texts of {length} tokens")
        figures.append(ours.added / bare.added - 1)
        added = bare.added / 2**20
    work = f"extra peak memory over the bare forward pass, {batch} texts of {length} tokens"
    return Row("memory", work, tuple(figures), 0.05, note=f"the forward pass takes {added:.0f} MiB beside the model")
