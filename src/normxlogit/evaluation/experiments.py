"""The paper's tables as data, and the runs that fill them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..datasets.glue import TASKS, load_examples
from ..errors import DataError
from ..explainer import Explainer
from .faithfulness import Faithfulness, Protocol
from .report import curves_figure, grid
from .runs import Cell, run_cells

__all__ = ["TABLES", "TITLES", "Table", "published", "run_table"]

TITLES = {"sst2": "SST-2", "mnli": "MNLI", "qnli": "QNLI", "stsb": "STS-B"}
"""The paper's names of the tasks."""


@dataclass(frozen=True)
class Table:
    """One of the paper's tables.

    Attributes:
        title: What it shows.
        key: Where its figures stand in the published data.
        figure: The figure of a cell.
        lower_is_better: Whether small figures are good, by task.
        tasks: Its columns.
    """

    title: str
    key: str
    figure: Callable[[Faithfulness], float]
    lower_is_better: frozenset[str]
    tasks: tuple[str, ...]


def _aopc_or_pearson(result: Faithfulness) -> float:
    return result.quality if result.quality_name == "pearson" else result.aopc


TABLES = {
    "table1": Table(
        "AOPC (SST-2, MNLI, QNLI; higher is better) and Pearson's correlation (STS-B; lower is better)",
        "table1_aopc_and_pearson",
        _aopc_or_pearson,
        frozenset({"stsb"}),
        ("sst2", "mnli", "qnli", "stsb"),
    ),
    "table-accuracy": Table(
        "Accuracy under perturbation (lower is better)",
        "table_accuracy",
        lambda result: result.quality,
        frozenset({"sst2", "mnli", "qnli"}),
        ("sst2", "mnli", "qnli"),
    ),
}


def published() -> dict[str, Any]:
    """The paper's figures."""
    text = resources.files(__package__).joinpath("published.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def run_table(
    name: str,
    models: Mapping[str, Mapping[str, str]],
    methods: Sequence[Cell],
    output: Path,
    *,
    data_dir: Path | None = None,
    limit: int | None = None,
    protocol: Protocol = "published",
    on_progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> str:
    """Fill one of the paper's tables with figures of given models.

    Finished cells stay in `output/cells`, so that a run that was stopped goes on where it was; both tables share them.

    Args:
        name: "table1" or "table-accuracy".
        models: Checkpoint by task, for each model name: `{"BERT": {"sst2": "folder"}}`. A name that the paper has too
            gets the published figure beside it.
        methods: The rows.
        output: Folder for cells, the table and the curves.
        data_dir: Folder with the tasks' files; the hub otherwise.
        limit: Only the first texts of each task.
        protocol: See `faithfulness.evaluate`.
        on_progress: Called with a line that says what is running, texts done and texts in all.
        **options: Passed to `Explainer.from_pretrained`.

    Returns:
        The table in Markdown, which is also written to `output/NAME.md`.

    Raises:
        DataError: If there is no such table or task.
    """
    if name not in TABLES:
        raise DataError(f"no table named {name!r}; there are {', '.join(TABLES)}")
    table = TABLES[name]
    rows = [method + "".join(f" {k}={v}" for k, v in settings.items()) for method, settings in methods]
    cells: dict[tuple[str, str], float | None] = {}
    theirs: dict[tuple[str, str], float | None] = {}
    columns: list[str] = []
    low: list[str] = []
    for model, checkpoints in models.items():
        for task, checkpoint in checkpoints.items():
            if task not in TASKS:
                raise DataError(f"no task named {task!r}; there are {', '.join(TASKS)}")
            if task not in table.tasks:
                continue
            column = f"{TITLES[task]}/{model}"
            columns.append(column)
            if task in table.lower_is_better:
                low.append(column)
            examples = load_examples(task, data_dir=data_dir, limit=limit)
            explainer = Explainer.from_pretrained(checkpoint, **options)
            step = None if on_progress is None else _titled(on_progress, column)
            results = run_cells(
                explainer, examples, methods, folder=output / "cells", protocol=protocol, on_progress=step
            )
            for row, result in zip(rows, results, strict=True):
                cells[row, column] = None if result is None else table.figure(result)
                theirs[row, column] = published()[table.key]["rows"].get(row, {}).get(column)
            found = [r for r in results if r is not None]
            stem = column.replace("/", "-").replace(" ", "-").lower()
            curves_figure(found, output / f"{stem}-aopc", title=column, curve="aopc")
            curves_figure(found, output / f"{stem}-quality", title=column, curve="quality")
    note = "Ours, and the published figure in brackets where the paper has the same cell; best bold, second underlined."
    content = f"{table.title}\n\n{note} Protocol: {protocol}.\n\n"
    content += grid(rows, columns, cells, theirs, lower_is_better=low)
    (output / f"{name}.md").write_text(content, encoding="utf-8")
    return content


def _titled(on_progress: Callable[[str, int, int], None], title: str) -> Callable[[str, int, int], None]:
    return lambda method, done, total: on_progress(f"{title} {method}", done, total)
