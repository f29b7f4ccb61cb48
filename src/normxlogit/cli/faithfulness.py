"""The command that measures methods on a model: evaluate faithfulness."""

from pathlib import Path
from typing import Annotated

import typer

from .console import check_folder, progress, quiet, write_report
from .options import AUTO, DataDir, Device, DType, GGUFFile, Limit, Methods, Protocol, loading, methods_of

__all__ = ["faithfulness"]


def faithfulness(
    dataset: Annotated[
        str,
        typer.Option(help="reviews (100 sentences in the package), sst2, mnli, qnli, stsb, a file or a hub name."),
    ] = "reviews",
    model: Annotated[str | None, typer.Option(help="Name or folder; the small sentiment model by default.")] = None,
    methods: Methods = "all",
    data_dir: DataDir = None,
    split: Annotated[str, typer.Option(help="Which split.")] = "validation",
    columns: Annotated[str | None, typer.Option(help="The text column, or two separated by a comma.")] = None,
    label_column: Annotated[str, typer.Option(help="The column of gold labels.")] = "label",
    limit: Limit = None,
    protocol: Annotated[Protocol, typer.Option(help="See the page on faithfulness.")] = Protocol.default,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
    device: Device = AUTO,
    dtype: DType = None,
    gguf_file: GGUFFile = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results as JSON, Markdown and figures; a stopped run goes on there.")
    ] = None,
) -> None:
    """Measure how much the answer rests on what each method calls important (AOPC, sufficiency, accuracy)."""
    check_folder(output)
    with quiet():
        from ..evaluation.datasets import TASKS, load_examples
        from ..evaluation.faithfulness import check_head, count_texts
        from ..evaluation.report import faithfulness_table, write_faithfulness
        from ..evaluation.runs import run_methods
        from ..explainer import Explainer

        cells = methods_of(methods)
        names = [method.spec for method in cells]
        chosen = columns.split(",") if columns else []
        examples = load_examples(
            dataset, split=split, data_dir=data_dir, columns=chosen, label_column=label_column, limit=limit
        )
        explainer = Explainer.from_pretrained(model, **loading(device, dtype, gguf_file))
        if dataset in TASKS:
            check_head(explainer._model, TASKS[dataset])
        with progress(len(cells)) as step:
            results = run_methods(
                explainer,
                examples,
                cells,
                folder=None if output is None else output / "runs",
                protocol=protocol.value,
                seed=seed,
                on_progress=step,
            )
        about = {
            "dataset": Path(dataset).name,
            "model": explainer._model.name,
            "protocol": protocol.value,
        }
        about |= {key: str(n) for key, n in count_texts(explainer, examples, protocol.value).items()}
        if output is not None:
            write_faithfulness(output, results, names, about)
    heading = ", ".join(f"{key}: {value}" for key, value in about.items())
    write_report(f"{heading}\n\n{faithfulness_table(results, names)}")
