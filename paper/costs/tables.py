"""The paper's tables of time and memory on BERT-base, beside the published figures.

Seconds are those of a machine; what compares is how many times NormXLogit's a method takes.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from normxlogit.errors import DataError
from normxlogit.evaluation.timing import Timing, environment, in_turn
from normxlogit.explainer import Explainer
from normxlogit.loading.load import AUTO, device_named
from normxlogit.results.storage.files import write_json

from ..tables import published
from .memory import FEW, SEVERAL, Largest, largest_batch
from .random_models import random_bert, random_ids, reference_tokenizer

__all__ = ["COST_TABLES", "METHODS", "Sizes", "cost_table"]

METHODS = (
    "gradient-norm",
    "gradient-x-input:aggregate=l1",
    "integrated-gradients:aggregate=l1",
    "decompx",
    "normxlogit",
)
"""The paper's rows."""

OURS = "normxlogit"
BUDGET = 48.0

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurement; the defaults are the paper's.

    Attributes:
        lengths: Tokens of one text; the table of memory takes the longest.
        rounds: Counted runs.
        warmup: Runs before them.
        bert: Changes to the configuration of BERT-base.
    """

    lengths: tuple[int, ...] = (40, 120, 360, 512)
    rounds: int = 5
    warmup: int = 1
    bert: Mapping[str, Any] = field(default_factory=dict)


def _time(methods: Sequence[str], sizes: Sizes, device: str, progress: Progress) -> tuple[str, dict[str, Any]]:
    model = random_bert(sizes.bert, device=device)
    explainer = Explainer(model, reference_tokenizer(), name="BERT-base, random weights")
    table = published()["table_time_seconds"]
    lines = ["| tokens | method | seconds | over NormXLogit | published seconds | over NormXLogit |"]
    lines.append("|---:|---|---:|---:|---:|---:|")
    state = {}
    for place, length in enumerate(sizes.lengths):

        def tell(number: int, count: int, place: int = place, length: int = length) -> None:
            progress(f"{length} tokens, round {number} of {count}", place, len(sizes.lengths))

        inputs = random_ids(length, model.config.vocab_size, device=device)
        sides = {name: partial(explainer, inputs, method=name) for name in methods}
        times = in_turn(sides, rounds=sizes.rounds, warmup=sizes.warmup, on_round=tell)
        paper = table["rows"].get(str(length), {})
        for name in methods:
            timing = times[name]
            cells = (
                f"{_mean(timing)} | {_ratio(timing.median, times[OURS].median)}"
                if OURS in times
                else f"{_mean(timing)} | "
            )
            lines.append(f"| {length} | {name} | {cells} | {paper.get(name, '')} | {_over(paper, name)} |")
        state[str(length)] = {name: timing.seconds for name, timing in times.items()}
    progress("done", len(sizes.lengths), len(sizes.lengths))
    title = f"Seconds for one text, BERT-base, mean and standard deviation of {sizes.rounds} runs in turn. "
    return f"{title}Published: {table['note']}.\n\n" + "\n".join(lines) + "\n", state


def _memory(methods: Sequence[str], sizes: Sizes, device: str, progress: Progress) -> tuple[str, dict[str, Any]]:
    table = published()["table_memory"]
    lines = ["| method | texts at once | seconds for each | published texts | published seconds |"]
    lines.append("|---|---:|---:|---:|---:|")
    length = max(sizes.lengths)
    results: dict[str, Largest] = {}
    for place, name in enumerate(methods):
        progress(name, place, len(methods))
        result = results[name] = largest_batch(name, budget=BUDGET, length=length, bert=sizes.bert, device=device)
        paper = f"{table['max_batch'].get(name, '')} | {table['seconds_per_text'].get(name, '')}"
        lines.append(f"| {name} | {result.batch} | {result.seconds:.4f} | {paper} |")
    progress("done", len(methods), len(methods))
    how = "tried out" if all(f.measured for f in results.values()) else (
        f"computed from the measured peaks of one and of {SEVERAL} texts at once ({FEW} where one takes over a "
        "minute), each in a process of its own; the seconds are those of several at once"
    )  # fmt: skip
    title = f"The largest batch of {length} tokens on BERT-base within {BUDGET:g} GiB, {how}. "
    state = {name: {"batch": f.batch, "seconds": f.seconds, "measured": f.measured} for name, f in results.items()}
    return f"{title}Published: {table['note']}.\n\n" + "\n".join(lines) + "\n", state


COST_TABLES: Mapping[str, Callable[[Sequence[str], Sizes, str, Progress], tuple[str, dict[str, Any]]]] = {
    "table-time": _time,
    "table-memory": _memory,
}


def cost_table(
    name: str,
    output: Path,
    *,
    methods: Sequence[str] = METHODS,
    sizes: Sizes | None = None,
    device: str = AUTO,
    on_progress: Progress | None = None,
) -> str:
    """Measure one of the paper's tables of costs.

    Args:
        name: "table-time" or "table-memory".
        output: Folder for the table in Markdown and its figures as JSON.
        methods: The rows.
        sizes: Other sizes than the paper's.
        device: Where the models run.
        on_progress: Called with a line that says what is running, steps done and steps in all.

    Returns:
        The table in Markdown.

    Raises:
        DataError: If there is no such table.
    """
    if name not in COST_TABLES:
        raise DataError(f"no table named {name!r}; there are {', '.join(COST_TABLES)}")
    step = on_progress or (lambda *_: None)
    text, figures = COST_TABLES[name](methods, sizes or Sizes(), device, step)
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.md").write_text(text, encoding="utf-8")
    write_json({"environment": environment(device_named(device)), "figures": figures}, output / f"{name}.json")
    return text


def _mean(timing: Timing) -> str:
    deviation = statistics.stdev(timing.seconds) if len(timing.seconds) > 1 else 0.0
    return f"{statistics.mean(timing.seconds):.3f} ± {deviation:.3f}"


def _ratio(seconds: float, base: float) -> str:
    return f"{seconds / base:.1f}"


def _over(paper: Mapping[str, float], name: str) -> str:
    return _ratio(paper[name], paper[OURS]) if name in paper else ""
