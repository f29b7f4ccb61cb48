"""The paper's tables as data, and the runs that fill them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from operator import itemgetter
from pathlib import Path
from typing import Any

from normxlogit.errors import DataError
from normxlogit.evaluation.datasets import TASKS, load_examples
from normxlogit.evaluation.faithfulness import Faithfulness, count_texts, run_methods
from normxlogit.evaluation.gold_labels import check_head
from normxlogit.evaluation.options import Protocol
from normxlogit.evaluation.report import curves_figure, emphasised, markdown_table, write_faithfulness
from normxlogit.evaluation.runs import under
from normxlogit.explainer import Explainer
from normxlogit.methods import Method, method_named

__all__ = [
    "TABLES",
    "TITLES",
    "Table",
    "paper_rows",
    "published",
    "published_figure",
    "run_columns",
    "run_figures",
    "run_table",
]

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
        published_formula: What the published figures fit where that is another formula; None where it is the same.
        note: What a reader must know of the published figures.
    """

    title: str
    key: str
    figure: Callable[[Faithfulness], float]
    lower_is_better: frozenset[str]
    tasks: tuple[str, ...]
    published_formula: Callable[[Faithfulness], float | None] | None = None
    note: str = "the published figure where the paper has the same cell with the same settings"


def _aopc_or_pearson(result: Faithfulness) -> float:
    return result.quality if result.quality_name == "pearson" else result.aopc


def _sum_over_nine(result: Faithfulness) -> float | None:
    """Return the sum over 0%, 10%, ..., 90% divided by nine, which the published accuracies fit."""
    whole = result.whole_quality
    return None if whole is None else (whole + sum(result.curves["quality"])) / len(result.levels)


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
        _sum_over_nine,
        "the published figure and ours by its formula: the published accuracies are not the mean over 10% to 90% that "
        "the authors' notebook prints, they fit the sum over 0% to 90% divided by nine",
    ),
}

_GRADIENTS = ("gradient-norm", "gradient-x-input:aggregate=l1", "integrated-gradients:aggregate=l1")
_LLAMA = "Llama 2"


def published() -> dict[str, Any]:
    """Return the paper's figures."""
    text = resources.files(__package__).joinpath("published.json").read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures


def published_figure(table: Table, column: str, method: Method, protocol: Protocol) -> float | None:
    """Return the paper's figure for a cell, None where it has none or has it with other settings.

    The authors fed the output of the embedding layer back into the model for the gradient methods
    (`protocol=published`), which comes to the same on Llama 2, and took 25 steps of Integrated Gradients there.

    Args:
        table: The table.
        column: Its column, such as "SST-2/BERT".
        method: The row.
        protocol: How texts are perturbed.
    """
    if protocol != "published":
        return None
    for row, figures in published()[table.key]["rows"].items():
        if method in _settings(row, column.endswith(f"/{_LLAMA}")):
            figure: float | None = figures.get(column)
            return figure
    return None


def _settings(row: str, llama: bool) -> list[Method]:
    """Return a published row with the settings that it was measured with; several that come to the same."""
    if row not in _GRADIENTS:
        return [method_named(row)]
    name, _, settings = row.partition(":")
    options = [settings] if settings else []
    options += ["steps=25"] if llama and name == "integrated-gradients" else []
    protocols = ["protocol=published", *(["protocol=default"] if llama else [])]
    return [method_named(f"{name}:{','.join([*options, protocol])}") for protocol in protocols]


def paper_rows(models: Mapping[str, Mapping[str, str | None]]) -> list[Method]:
    """Return the paper's rows with the settings of its columns.

    Args:
        models: As for `run_columns`.
    """
    kinds = sorted({_LLAMA in name for name in models}) or [False]
    rows = [_settings(row, llama)[0] for row in published()["table1_aopc_and_pearson"]["rows"] for llama in kinds]
    return list(dict.fromkeys(rows))


def run_columns(
    models: Mapping[str, Mapping[str, str | None]],
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
        models: Checkpoint by task, for each model name: `{"BERT": {"sst2": "folder"}}`; None is the small model.
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
            check_head(explainer.task_model, TASKS[task])
            step = under(column, on_progress)
            run: dict[str, Any] = {"folder": output / "runs", "protocol": protocol, "on_progress": step}
            results = list(run_methods(explainer, examples, methods, **run))
            columns[column] = [r if isinstance(r, Faithfulness) else None for r in results]
            metadata = {"dataset": column, "protocol": protocol} | count_texts(explainer, examples, protocol)
            write_faithfulness(output / column.replace("/", "-").replace(" ", "-").lower(), results, metadata)
    return columns


def run_table(
    name: str, models: Mapping[str, Mapping[str, str | None]], methods: Sequence[Method], output: Path, **options: Any
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
    rows = [method.spec for method in methods]
    cells: dict[tuple[str, str], float | None] = {}
    for column, results in columns.items():
        for row, result in zip(rows, results, strict=True):
            cells[row, column] = None if result is None else table.figure(result)
    protocol = options.get("protocol", "published")
    brackets: dict[tuple[str, str], float | str | None] = {}
    for column, results in columns.items():
        for method, row, result in zip(methods, rows, results, strict=True):
            brackets[row, column] = _bracket(table, column, method, result, protocol)
    low = [column for column in columns if any(column.startswith(TITLES[t]) for t in table.lower_is_better)]
    texts = ", ".join(f"{column} {_texts(results)}" for column, results in columns.items())
    whole = ", ".join(f"{column} {_whole(results)}" for column, results in columns.items())
    note = f"Ours; in brackets {table.note}. Best bold, second underlined."
    content = f"{table.title}\n\n{note} Protocol: {protocol}. Texts: {texts}. On the whole texts: {whole}.\n\n"
    content += grid(rows, list(columns), cells, brackets, lower_is_better=low)
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{name}.md").write_text(content, encoding="utf-8")
    return content


def grid(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], float | None],
    published: Mapping[tuple[str, str], float | str | None],
    *,
    lower_is_better: Sequence[str] = (),
) -> str:
    """Return a table like the paper's: ours, the published figure in brackets; best bold, second best underlined.

    Args:
        rows: Methods.
        columns: Data sets or models.
        cells: Our figures; None is N/A, a missing cell was not run.
        published: The paper's figures, or other text for the brackets.
        lower_is_better: Columns in which the smallest figure is the best.
    """
    ranks: dict[tuple[str, str], int] = {}
    for column in columns:
        sign = 1 if column in lower_is_better else -1
        measured = [(sign * value, row) for row in rows if (value := cells.get((row, column))) is not None]
        ranks |= {(row, column): rank for rank, (_, row) in enumerate(sorted(measured, key=itemgetter(0)))}

    def cell(row: str, column: str) -> str:
        if (row, column) not in cells:
            return ""
        value, theirs = cells[row, column], published.get((row, column))
        ours = "N/A" if value is None else emphasised(f"{value:.3f}", ranks[row, column])
        bracket = f"{theirs:.3f}" if isinstance(theirs, float) else theirs
        return ours + (f" ({bracket})" if bracket else "")

    return markdown_table(["method", *columns], [[row, *(cell(row, column) for column in columns)] for row in rows])


def _bracket(
    table: Table, column: str, method: Method, result: Faithfulness | None, protocol: Protocol
) -> float | str | None:
    """Return what stands in brackets: the published figure, beside ours by its formula where that is another."""
    theirs = published_figure(table, column, method, protocol)
    if theirs is None or result is None or table.published_formula is None:
        return theirs
    ours = table.published_formula(result)
    return f"{theirs:.3f}; ours {ours:.3f}" if ours is not None else f"{theirs:.3f} by another formula"


def run_figures(
    models: Mapping[str, Mapping[str, str | None]], methods: Sequence[Method], output: Path, **options: Any
) -> list[Path]:
    """Draw the paper's curves over the share of perturbed tokens: a panel for each model and task.

    Args:
        models: As for `run_columns`.
        methods: The curves.
        output: Folder for `aopc` and `quality`, as SVG, PDF and PNG, and `curves.md`, their figures.
        **options: As for `run_columns`.

    Returns:
        The files.
    """
    from normxlogit.evaluation.report import save_figure

    columns = run_columns(models, methods, output, **options)
    panels = {column: [r for r in results if r is not None] for column, results in columns.items()}
    figures = [
        path
        for curve in ("aopc", "quality")
        for path in save_figure(curves_figure(panels, curve=curve), output / curve)
    ]
    (output / "curves.md").write_text(_curves(panels), encoding="utf-8")
    return [*figures, output / "curves.md"]


def _curves(panels: Mapping[str, Sequence[Faithfulness]]) -> str:
    parts = []
    for column, results in panels.items():
        for curve in ("aopc", "quality"):
            name = {"aopc": "AOPC"}.get(curve, results[0].quality_name if results else curve)
            levels = [f"{level:.0%}" for level in results[0].levels] if results else []
            rows = [[r.method, *(f"{value:.3f}" for value in r.curves[curve])] for r in results]
            table = markdown_table(["method", *levels], rows)
            parts.append(f"## {column}: {name} by perturbed tokens\n\n{table}")
    return "\n".join(parts)


def _whole(results: Sequence[Faithfulness | None]) -> str:
    """Return the accuracy or correlation on the whole texts, which is the same for all methods."""
    measured = [r for r in results if r is not None and r.whole_quality is not None]
    return f"{measured[0].quality_name} {measured[0].whole_quality:.3f}" if measured else "not measured"


def _texts(results: Sequence[Faithfulness | None]) -> int:
    return max((r.texts for r in results if r is not None), default=0)
