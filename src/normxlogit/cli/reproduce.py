"""The command that fills the paper's tables and figures: reproduce."""

import sys
from contextlib import redirect_stdout
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .alignment import figure_alignment
from .console import check_folder, progress, quiet, write, write_report
from .options import AUTO, DataDir, Device, DType, Methods, Protocol, loading, methods_of
from .record import check_record

__all__ = ["reproduce"]


class Part(str, Enum):
    """A table of the paper, or its figures."""

    table1 = "table1"
    accuracy = "table-accuracy"
    figures = "figures"
    alignment = "figure-alignment"
    time = "table-time"
    memory = "table-memory"


def reproduce(
    part: Annotated[Part | None, typer.Argument(help="Which of the paper's tables, or the curves.")] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(help='A fine-tuned model as MODEL:TASK=FOLDER, such as "BERT:sst2=runs/bert-sst2"; repeatable.'),
    ] = None,
    base: Annotated[
        list[str] | None,
        typer.Option(help="A pretrained model as MODEL=NAME, fine-tuned here on each task first; repeatable."),
    ] = None,
    tasks: Annotated[str, typer.Option(help="Tasks for --base, separated by spaces.")] = "sst2 mnli qnli stsb",
    lora_rank: Annotated[int, typer.Option(help="Fine-tune --base with LoRA of this rank.")] = 0,
    bf16: Annotated[bool, typer.Option("--bf16", help="Fine-tune in bfloat16.")] = False,
    data_dir: DataDir = None,
    methods: Methods = "all",
    limit: Annotated[
        str | None, typer.Option(help='Only the first texts: a number, or TASK=NUMBER such as "all=500 sst2=872".')
    ] = None,
    protocol: Annotated[Protocol, typer.Option(help="See the page on faithfulness.")] = Protocol.published,
    device: Device = AUTO,
    dtype: DType = None,
    output: Annotated[Path, typer.Option(help="Folder for models, runs, table and figures.")] = Path("outputs"),
    check: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            help="Instead of a table: run the commands of a Markdown file, or of a folder of them, again and say which "
            "figures differ; repeatable.",
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(help="What stands for a name in the commands of --check, as DATA=FOLDER; repeatable."),
    ] = None,
    slow: Annotated[bool, typer.Option("--slow", help="Of --check: run what is marked as slow, too.")] = False,
) -> None:
    """Fill one of the paper's tables and print it beside the published figures; a stopped run goes on where it was.

    With --check it runs the commands of the documentation again; the exit code is 1 where a figure differs.
    """
    if check:
        check_record(check, given or [], slow)
        return
    if part is None:
        raise InputError(f"name a part, one of {', '.join(one.value for one in Part)}, or give --check")
    check_folder(output)
    if part in (Part.time, Part.memory):
        write(_costs(part.value, methods, device, output))
        return
    limits = _limits(limit)
    models: dict[str, dict[str, str]] = {}
    for entry in checkpoint or []:
        name, colon, rest = entry.partition(":")
        task, equals, folder = rest.partition("=")
        if not (colon and equals and folder):
            raise InputError(f"--checkpoint takes MODEL:TASK=FOLDER, not {entry!r}")
        models.setdefault(name, {})[task] = folder
    with quiet():
        if part is Part.alignment:
            bases = dict(_named(entry) for entry in base or [])
            tuned = {name: found["blimp"] for name, found in models.items() if "blimp" in found}
            write(
                figure_alignment(
                    bases,
                    tuned,
                    methods,
                    output,
                    training={"lora_rank": lora_rank, "bf16": bf16, "device": device},
                    protocol=protocol,
                    data_dir=data_dir,
                    limits=limits,
                    **loading(device, dtype),
                )
            )
            return
        from ..paper.finetuning.classification import finetune as train
        from ..paper.finetuning.trainer import Recipe
        from ..paper.tables import run_figures, run_table

        cells = methods_of(methods)
        for entry in base or []:
            name, source = _named(entry)
            for task in tasks.split():
                folder = str(output / "models" / f"{name}-{task}".replace(" ", "-").lower())
                if not (Path(folder) / "config.json").is_file():
                    recipe = Recipe(lora_rank=lora_rank, bf16=bf16, device=device)
                    with redirect_stdout(sys.stderr):
                        train(task, source, folder, data_dir=data_dir, recipe=recipe)
                models.setdefault(name, {})[task] = folder
        if not models:
            raise InputError("name the models: --checkpoint MODEL:TASK=FOLDER, or --base MODEL=NAME to fine-tune first")
        columns = sum(len(found) for found in models.values())
        with progress(len(cells) * columns) as step:
            options: dict[str, Any] = {
                "data_dir": data_dir,
                "limits": limits,
                "protocol": protocol.value,
                "on_progress": step,
            } | loading(device, dtype)
            if part is Part.figures:
                text = "".join(f"{path}\n" for path in run_figures(models, cells, output, **options))
            else:
                text = run_table(part.value, models, cells, output, **options)
    write_report(text)


def _named(entry: str) -> tuple[str, str]:
    name, equals, source = entry.partition("=")
    if not (name and equals and source):
        raise InputError(f"--base takes MODEL=NAME, not {entry!r}")
    return name, source


def _costs(table: str, methods: str, device: str, output: Path) -> str:
    """Return a table of time or memory, which needs no fine-tuned model."""
    with quiet():
        from ..paper.costs.tables import METHODS, cost_table

        chosen = METHODS if methods == "all" else methods.split()
        with progress(1) as step:
            return cost_table(table, output, methods=chosen, device=device, on_progress=step)


def _limits(text: str | None) -> dict[str, int]:
    limits = {}
    for entry in (text or "").split():
        task, _, number = entry.rpartition("=")
        if not number.isdecimal() or int(number) < 1:
            raise InputError(f"--limit takes a number or TASK=NUMBER, not {entry!r}")
        limits[task or "all"] = int(number)
    return limits
