"""The peak memory of an explanation over that of the bare forward pass, and of a stream of texts."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

from normxlogit import Explainer
from normxlogit.errors import DataError
from normxlogit.evaluation.report import markdown_table
from paper.costs.memory import FORWARD, Job, measure
from paper.costs.peak import Peak

from .ratios import Row

__all__ = ["extra_memory", "stream_table"]

SLICES = 10
"""Parts of a stream of which each has a peak of memory."""


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
    figures = []
    added = 0.0  # by the bare pass, in MiB
    for finished_rounds in range(rounds):
        if on_progress is not None:
            on_progress("memory", finished_rounds, rounds)
        bare, ours = (measure(Job(name, batch, length, bert or {})) for name in (FORWARD, "normxlogit"))
        if bare is None or ours is None:
            raise DataError(f"there is not enough memory for {batch} texts of {length} tokens")
        figures.append(ours.added / bare.added - 1)
        added = bare.added / 2**20
    work = f"extra peak memory over the bare forward pass, {batch} texts of {length} tokens"
    return Row("memory", work, tuple(figures), 0.05, note=f"the forward pass takes {added:.0f} MiB beside the model")


def stream_table(
    explainer: Explainer, texts: Sequence[str], count: int, on_progress: Callable[[str], None] | None = None
) -> str:
    """Explain a stream of texts, and return the peak memory of the process in each tenth of it, in Markdown.

    Args:
        explainer: Explains the texts.
        texts: What the stream has, over and over, each time with its number so that no text comes twice.
        count: How many texts the stream has.
        on_progress: Called with each row.
    """
    stream = explainer.stream(f"{text} {number}" for number, text in zip(range(count), cycle(texts)))
    rows = []
    size = -(-count // SLICES)  # of a slice, rounded up
    for last in range(size, count + size, size):
        with Peak() as peak:
            deque(islice(stream, size), maxlen=0)
        rows.append([f"{min(last, count):,}", f"{(peak.before + peak.added) / 2**20:.0f}"])
        if on_progress is not None:
            on_progress(" ".join(rows[-1]))
    return markdown_table(["texts so far", "peak memory, MiB"], rows)
