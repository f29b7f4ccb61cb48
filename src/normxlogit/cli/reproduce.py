"""The command that fills the paper's tables and figures: reproduce."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .alignment import figure_alignment
from .console import check_folder, progress, quiet, write, write_report
from .options import AUTO, DataDir, Device, DType, Protocol, loading, methods_of
from .record import check_record

__all__ = ["reproduce"]


class Part(str, Enum):
    """A table of the paper, or its figures."""

    table1 = "table1"
    accuracy = "table-accuracy"
    examples = "table2"
    time = "table-time"
    memory = "table-memory"
    signs = "figure1"
    figures = "figures"
    alignment = "figure-alignment"


def reproduce(
    part: Annotated[Part | None, typer.Argument(help="Which of the paper's tables and figures.")] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            help='A fine-tuned model as MODEL:TASK=FOLDER, such as "BERT:sst2=runs/bert-sst2", or MODEL:sst2 for the '
            "small model in the package; repeatable."
        ),
    ] = None,
    base: Annotated[
        list[str] | None,
        typer.Option(help="A pretrained model as MODEL=NAME, fine-tuned here on each task first; repeatable."),
    ] = None,
    tasks: Annotated[str, typer.Option(help="Tasks for --base, separated by spaces.")] = "sst2 mnli qnli stsb",
    lora_rank: Annotated[int, typer.Option(help="Fine-tune --base with LoRA of this rank.")] = 0,
    bf16: Annotated[bool, typer.Option("--bf16", help="Fine-tune in bfloat16.")] = False,
    data_dir: DataDir = None,
    methods: Annotated[
        str,
        typer.Option(
            help='"paper" (its rows with its settings), "all", or names separated by spaces; settings as '
            "name:setting=value,setting=value."
        ),
    ] = "paper",
    limit: Annotated[
        str | None, typer.Option(help='Only the first texts: a number, or TASK=NUMBER such as "all=500 sst2=872".')
    ] = None,
    protocol: Annotated[Protocol, typer.Option(help="See the page on faithfulness.")] = Protocol.published,
    words: Annotated[
        str, typer.Option(help="Of figure-alignment: words whose LogAt is measured besides target and foil.")
    ] = "plural",
    text: Annotated[str | None, typer.Option(help="Of figure1: what is explained.")] = None,
    device: Device = AUTO,
    dtype: DType = None,
    output: Annotated[Path, typer.Option(help="Folder for models, runs, table and figures.")] = Path("outputs"),
    listed: Annotated[
        bool, typer.Option("--list", help="Instead of a table: list what the paper has, each with its command.")
    ] = False,
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
    if listed:
        from ..paper.experiments import experiments_table

        write_report(experiments_table())
        return
    if part is None:
        raise InputError(f"name a part, one of {', '.join(one.value for one in Part)}, or give --list or --check")
    check_folder(output)
    if part in (Part.time, Part.memory):
        write(_costs(part.value, methods, device, output))
        return
    limits = _limits(limit)
    models = _models(checkpoint or [])
    load = loading(device, dtype)
    data: dict[str, Any] = {"protocol": protocol, "data_dir": data_dir, "limits": limits}
    training: dict[str, Any] = {"lora_rank": lora_rank, "bf16": bf16, "device": device}
    with quiet():
        if part is Part.examples:
            from ..paper.examples import paradigm_table

            written = paradigm_table(data_dir=data_dir, limit=limits.get("blimp", limits.get("all")))
        elif part is Part.signs:
            written = _signs(models, text, output, **load)
        elif part is Part.alignment:
            bases = dict(_named(entry) for entry in base or [])
            tuned = {name: folder for name, found in models.items() if (folder := found.get("blimp"))}
            written = figure_alignment(
                bases, tuned, methods, output, words=words.split(), training=training, **data, **load
            )
        else:
            _train(base or [], tasks.split(), models, output, data_dir, training)
            written = _tables(part, models, methods, output, **data, **load)
    write_report(written)


def _tables(
    part: Part, models: Mapping[str, Mapping[str, str | None]], methods: str, output: Path, **options: Any
) -> str:
    """Return one of the tables of faithfulness, or the files of its figures."""
    from ..paper.tables import paper_rows, run_figures, run_table

    cells = paper_rows(models) if methods == "paper" else methods_of(methods)
    if not models:
        raise InputError("name the models: --checkpoint MODEL:TASK=FOLDER, or --base MODEL=NAME to fine-tune first")
    options["protocol"] = options["protocol"].value
    with progress(len(cells) * sum(len(found) for found in models.values())) as step:
        if part is Part.figures:
            return "".join(f"{path}\n" for path in run_figures(models, cells, output, on_progress=step, **options))
        return run_table(part.value, models, cells, output, on_progress=step, **options)


def _train(
    bases: Sequence[str],
    tasks: Sequence[str],
    models: dict[str, dict[str, str | None]],
    output: Path,
    data_dir: Path | None,
    training: Mapping[str, Any],
) -> None:
    """Fine-tune pretrained models on each task, where that is not done, and add them to the models."""
    from ..paper.finetuning.classification import finetune
    from ..paper.finetuning.trainer import Recipe

    for entry in bases:
        name, source = _named(entry)
        for task in tasks:
            folder = str(output / "models" / f"{name}-{task}".replace(" ", "-").lower())
            if not (Path(folder) / "config.json").is_file():
                with redirect_stdout(sys.stderr):
                    finetune(task, source, folder, data_dir=data_dir, recipe=Recipe(**training))
            models.setdefault(name, {})[task] = folder


def _signs(models: Mapping[str, Mapping[str, str | None]], text: str | None, output: Path, **options: Any) -> str:
    """Return the table of figure 1 for each model, by default for the one in the package."""
    from ..explainer import Explainer
    from ..paper.examples import TEXT, sign_table

    folders = [found["sst2"] for found in models.values() if "sst2" in found]
    if models and not folders:
        raise InputError("figure1 explains one text: give --checkpoint MODEL:sst2=FOLDER, or none")
    explainers = [Explainer.from_pretrained(folder, **options) for folder in folders or [None]]
    return "\n".join(sign_table(explainer, output, text=text or TEXT) for explainer in explainers)


def _models(checkpoints: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Read MODEL:TASK=FOLDER, or MODEL:sst2 for the model in the package.

    Raises:
        InputError: If it is written in another way.
    """
    models: dict[str, dict[str, str | None]] = {}
    for entry in checkpoints:
        name, colon, rest = entry.partition(":")
        task, equals, folder = rest.partition("=")
        if not (name and colon and task) or (not folder and (equals or task != "sst2")):
            raise InputError(f"--checkpoint takes MODEL:TASK=FOLDER, or MODEL:sst2, not {entry!r}")
        models.setdefault(name, {})[task] = folder or None
    return models


def _named(entry: str) -> tuple[str, str]:
    name, equals, source = entry.partition("=")
    if not (name and equals and source):
        raise InputError(f"--base takes MODEL=NAME, not {entry!r}")
    return name, source


def _costs(table: str, methods: str, device: str, output: Path) -> str:
    """Return a table of time or memory, which needs no fine-tuned model."""
    with quiet():
        from ..paper.costs.tables import METHODS, cost_table

        chosen = METHODS if methods in ("all", "paper") else methods.split()
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
