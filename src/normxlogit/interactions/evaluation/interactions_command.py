"""The command that measures how far pairs explain a model's answers."""

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.console import quiet
from ...errors import InputError
from ...evaluation import options as measures
from ...long_runs.console import ReportFolder, check_folder, progress, write_report

MOST = 50
"""How many inputs are measured, unless the caller says: the first ones with enough units."""


@options.loads_models
def interactions(
    model: options.Model = None,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Instead of texts: JSON lines with "prompt" and "completion", by sentence.'),
    ] = None,
    most_units: Annotated[int, typer.Option(min=8, metavar="N", help="Skip inputs of more words or sentences.")] = 30,
    budgets: Annotated[str, typer.Option(metavar="N...", help="Passes, separated by spaces.")] = "64 128",
    output: ReportFolder = None,
    data: measures.Data = measures.DATA_OPTIONS,
    loading: options.Loading = options.LOADING,
) -> None:
    """Measure how far pairs of units explain a model's answers, beside other surrogates with as many passes.

    Example: normxlogit evaluate interactions --dataset reviews --limit 20 --output out/
    """
    check_folder(output)
    if not all(map(str.isdecimal, budgets.split())):
        raise InputError(f"--budgets takes whole numbers separated by spaces, not {budgets!r}")
    with quiet():
        from ...evaluation.datasets import parsed_rows
        from ...evaluation.report import report
        from .measure import Input, measure, table

        if prompts is None:
            # All of them: the limit is of inputs that are measured, and some are passed over.
            examples = data._replace(limit=None).examples(data.dataset)
            inputs = [Input(example.text) for example in examples]
        else:
            inputs = parsed_rows(prompts, lambda row: Input(row["prompt"], row["completion"]), problem="no prompt")
        explainer = loading.load(model)
        folder = None if output is None else output / "inputs"  # keeps the results of each input
        passes = list(map(int, budgets.split()))
        with progress(pieces_of_work=1) as on_progress:
            measured = measure(
                explainer,
                inputs,
                passes,
                most_units=most_units,
                limit=data.limit or MOST,
                folder=folder,
                on_progress=on_progress,
            )
        metadata = {"data": Path(prompts or data.dataset).name, "model": explainer.task_model.name}
        text = report(metadata, table(measured), output, "interactions", results=measured)
    write_report(text)
