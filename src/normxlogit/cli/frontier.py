"""The command that compares methods by what they cost: evaluate frontier."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .console import check_folder, progress, quiet, write_report
from .options import AUTO, DataDir, Device, DType, GGUFFile, Limit, loading, methods_of

__all__ = ["frontier"]


def frontier(
    dataset: Annotated[
        str,
        typer.Option(help="reviews (100 sentences in the package), sst2, mnli, qnli, stsb, a file or a hub name."),
    ] = "reviews",
    model: Annotated[str | None, typer.Option(help="Name or folder; the small sentiment model by default.")] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead of both, several: NAME:DATASET=FOLDER, such as BERT:sst2=runs/bert, or NAME:DATASET for the "
            "small model; repeatable."
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option(help='"default", "all", or names separated by spaces; settings as name:setting=value.')
    ] = "default",
    data_dir: DataDir = None,
    split: Annotated[str, typer.Option(help="Choose settings on train, report validation.")] = "validation",
    columns: Annotated[str | None, typer.Option(help="The text column, or two separated by a comma.")] = None,
    label_column: Annotated[str, typer.Option(help="The column of gold labels.")] = "label",
    limit: Limit = None,
    rounds: Annotated[int, typer.Option(min=1, help="Of the timing; a third of them where a method is slow.")] = 9,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
    device: Device = AUTO,
    dtype: DType = None,
    gguf_file: GGUFFile = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for table, JSON and figure; a stopped run goes on there.")
    ] = None,
) -> None:
    """Measure each method's faithfulness at several settings (AOPC, sufficiency) against its cost in forward passes."""
    asked = _checkpoints(checkpoint) or [("", dataset, model)]
    check_folder(output)
    with quiet():
        from ..evaluation.datasets import TASKS, load_examples
        from ..evaluation.faithfulness import check_head, texts_cut
        from ..evaluation.frontier import frontier_methods, run_frontier
        from ..evaluation.frontier_report import frontier_text, write_frontier
        from ..evaluation.runs import under
        from ..explainer import Explainer
        from ..models.devices import device_named

        named = [] if methods == "default" else methods_of(methods)
        panels, about = {}, {}
        for name, data, source in asked:
            examples = load_examples(
                data,
                split=split,
                data_dir=data_dir,
                columns=columns.split(",") if columns else [],
                label_column=label_column,
                limit=limit,
            )
            explainer = Explainer.from_pretrained(
                source, **loading(device, dtype, gguf_file if source == model else None)
            )
            if data in TASKS:
                check_head(explainer._model, TASKS[data])
            title = f"{Path(data).name}, {name or Path(explainer._model.name).name}"
            chosen = named or frontier_methods(explainer)
            with progress(len(chosen)) as step:
                panels[title] = run_frontier(
                    explainer,
                    examples,
                    chosen,
                    folder=None if output is None else output / "runs",
                    seed=seed,
                    rounds=rounds,
                    on_progress=under(f"{title}:", step),
                )
            about[title] = {"texts": len(examples), "split": split}
            cut = texts_cut(explainer, examples)
            about[title] |= {"cut": cut} if cut else {}
        if output is not None:
            write_frontier(output, panels, about, device_named(device))
    write_report(frontier_text(panels, about))


def _checkpoints(entries: list[str] | None) -> list[tuple[str, str, str | None]]:
    """Read NAME:DATASET=FOLDER, or NAME:DATASET.

    Raises:
        InputError: If it is written in another way.
    """
    found: list[tuple[str, str, str | None]] = []
    for entry in entries or []:
        name, colon, rest = entry.partition(":")
        data, equals, folder = rest.partition("=")
        if not (name and colon and data) or (equals and not folder):
            raise InputError(f"--checkpoint takes NAME:DATASET=FOLDER or NAME:DATASET, not {entry!r}")
        found.append((name, data, folder or None))
    return found
