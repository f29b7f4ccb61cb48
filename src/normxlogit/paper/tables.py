"""The paper's tables as data, and the runs that fill them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..evaluation.datasets import TASKS, Example, load_examples
from ..evaluation.faithfulness import Faithfulness, Protocol, check_head, texts_cut
from ..evaluation.report import curves_figure, grid, write_faithfulness
from ..evaluation.runs import run_methods, under
from ..explainer import Explainer
from ..methods import Method

__all__ = ["TABLES", "TITLES", "Table", "published", "run_columns", "run_figures", "run_table", "titles"]

TITLES = {"sst2": "SST-2", "mnli": "MNLI", "qnli": "QNLI", "stsb": "STS-B"}
"""The paper's names of the tasks."""


@dataclass(frozen=True)
class Table:
    """One of the paper's tables.

    Attributes:
        title: What it shows.
        key: Where its figures stand in the published data.
        figure: The figure shown for a method on a task.
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
    """Return the paper's figures."""
    text = resources.files(__package__).joinpath("published.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def run_columns(
    models: Mapping[str, Mapping[str, str]],
    methods: Sequence[Method],
    output: Path,
    *,
    tasks: Sequence[str] = tuple(TASKS),
    data_dir: Path | None = None,
    limits: Mapping[str, int] | None = None,
    protocol: Protocol = "published",
    on_progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> dict[str, list[Faithfulness | None]]:
    """Measure methods on the models of each task.

    Finished results stay in `output/runs`, so that a run that was stopped goes on where it was and tables share them.
    The results of a column with their intervals, and its curves, are written to `output/TASK-MODEL`.

    Args:
        models: Checkpoint by task, for each model name: `{"BERT": {"sst2": "folder"}}`.
        methods: What to measure.
        output: Folder for all that is written.
        tasks: Checkpoints for other tasks are left out.
        data_dir: Folder with the tasks' files; the hub otherwise.
        limits: Only so many texts, by task or for "all".
        protocol: See `faithfulness.evaluate`.
        on_progress: Called with a line that says what is running, texts done and texts in all.
        **options: Passed to `Explainer.from_pretrained`.

    Returns:
        One result for each method (None for N/A), by the column's name: "SST-2/BERT".

    Raises:
        DataError: If there is no such task.
    """
    limits = limits or {}
    for task in (*limits, *(task for checkpoints in models.values() for task in checkpoints)):
        if task not in TASKS and task != "all":
            raise DataError(f"no task named {task!r}; there are {', '.join(TASKS)}")
    columns = {}
    for model, checkpoints in models.items():
        for task in (task for task in checkpoints if task in tasks):
            column = f"{TITLES[task]}/{model}"
            examples = load_examples(task, data_dir=data_dir, limit=limits.get(task, limits.get("all")))
            explainer = Explainer.from_pretrained(checkpoints[task], **options)
            check_head(explainer.model, TASKS[task])
            step = under(column, on_progress)
            found = run_methods(
                explainer, examples, methods, folder=output / "runs", protocol=protocol, on_progress=step
            )
            columns[column] = found
            about = {"dataset": column, "protocol": protocol} | count_texts(explainer, examples, protocol)
            write_faithfulness(
                output / column.replace("/", "-").replace(" ", "-").lower(), found, titles(methods), about
            )
    return columns


def count_texts(explainer: Explainer, examples: Sequence[Example], protocol: Protocol) -> dict[str, int]:
    """Count the texts measured, and those of them that were cut because they are too long."""
    cut = texts_cut(explainer, examples, protocol)
    return {"texts": len(examples)} | ({"of which cut": cut} if cut else {})


def titles(methods: Sequence[Method]) -> list[str]:
    """Return the titles of the rows: each method as it is written."""
    return [method.spec for method in methods]


def run_table(
    name: str, models: Mapping[str, Mapping[str, str]], methods: Sequence[Method], output: Path, **options: Any
) -> str:
    """Fill one of the paper's tables with figures of given models.

    Args:
        name: "table1" or "table-accuracy".
        models: As for `run_columns`. A name that the paper has too gets the published figure beside it.
        methods: The rows.
        output: Folder for results.
        **options: As for `run_columns`.

    Returns:
        The table in Markdown, which is also written to `output/NAME.md`.

    Raises:
        DataError: If there is no such table or task.
    """
    if name not in TABLES:
        raise DataError(f"no table named {name!r}; there are {', '.join(TABLES)}")
    table = TABLES[name]
    columns = run_columns(models, methods, output, tasks=table.tasks, **options)
    rows = titles(methods)
    cells: dict[tuple[str, str], float | None] = {}
    for column, results in columns.items():
        for row, result in zip(rows, results, strict=True):
            cells[row, column] = None if result is None else table.figure(result)
    figures = published()[table.key]["rows"]
    theirs = {(row, column): figures.get(row, {}).get(column) for row, column in cells}
    low = [column for column in columns if any(column.startswith(TITLES[t]) for t in table.lower_is_better)]
    texts = ", ".join(f"{column} {_texts(results)}" for column, results in columns.items())
    note = "Ours, and the published figure in brackets where the paper has the same cell; best bold, second underlined."
    content = f"{table.title}\n\n{note} Protocol: {options.get('protocol', 'published')}. Texts: {texts}.\n\n"
    content += grid(rows, list(columns), cells, theirs, lower_is_better=low)
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.md").write_text(content, encoding="utf-8")
    return content


def run_figures(
    models: Mapping[str, Mapping[str, str]], methods: Sequence[Method], output: Path, **options: Any
) -> list[Path]:
    """Draw the paper's curves over the share of perturbed tokens: a panel for each model and task.

    Args:
        models: As for `run_columns`.
        methods: The curves.
        output: Folder for `aopc` and `quality`, as SVG, PDF and PNG.
        **options: As for `run_columns`.

    Returns:
        The files.
    """
    from ..render.matplotlib_figure import save_figure

    columns = run_columns(models, methods, output, **options)
    panels = {column: [r for r in results if r is not None] for column, results in columns.items()}
    return [
        path
        for curve in ("aopc", "quality")
        for path in save_figure(curves_figure(panels, curve=curve), output / curve)
    ]


def _texts(results: Sequence[Faithfulness | None]) -> int:
    return max((r.texts for r in results if r is not None), default=0)
