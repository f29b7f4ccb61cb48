"""The commands of the paper's experiments: tables, figures, fine-tuning, and the check of the figures."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from normxlogit.cli import run_app
from normxlogit.cli.console import quiet, write
from normxlogit.cli.options import AUTO, Device, DType, GGUFFile, Loading
from normxlogit.errors import InputError
from normxlogit.evaluation.options import DataDir, Limit, Protocol, methods_of
from normxlogit.long_runs.console import check_folder, progress, write_report

from .alignment.commands import alignment, figure_alignment
from .options import (
    OUTPUTS,
    Bases,
    BFloat16,
    Checkpoints,
    LoraRank,
    Output,
    PaperMethods,
    named_base,
    read_checkpoints,
)
from .record.command import check_record

__all__ = ["app", "main"]

app = typer.Typer(
    name="paper",
    help="Repeat the experiments of the paper; a stopped run goes on where it was.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Limits = Annotated[
    str | None, typer.Option(help='Only the first texts: a number, or TASK=NUMBER such as "all=500 sst2=872".')
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one line on standard error and exit code 2.

    Args:
        arguments: The words after the program's name, by default those of the process.
    """
    run_app(app, "python -m paper", arguments)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    listed: Annotated[
        bool, typer.Option("--list", help="List the paper's experiments, each with its command.")
    ] = False,
    check: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            help="Run the commands of a Markdown file, or of a folder of them, again and say which figures differ; "
            "exit code 1 if one does; repeatable.",
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(help="Replaces a name in the commands of --check, as DATA=FOLDER; repeatable."),
    ] = None,
    slow: Annotated[bool, typer.Option("--slow", help="With --check: also run what is marked as slow.")] = False,
) -> None:
    """Repeat the experiments of the paper; a stopped run goes on where it was."""
    if context.invoked_subcommand is not None and (listed or check):
        raise InputError("--list and --check go without a command")
    if check:
        check_record(check, given or [], slow)
    elif listed:
        from .experiments import experiments_table

        write_report(experiments_table())
    elif context.invoked_subcommand is None:
        raise InputError("name a command, or give --list or --check; see python -m paper --help")


@app.command("figures", help="Draw AOPC and accuracy over the share of masked tokens.")
@app.command("table-accuracy", help="Measure the accuracy on perturbed texts, beside what was published.")
@app.command("table1", help="Measure AOPC and Pearson's correlation: table 1, beside what was published.")
def faithfulness(
    context: typer.Context,
    checkpoint: Checkpoints = None,
    base: Bases = None,
    tasks: Annotated[str, typer.Option(help="Tasks for --base, separated by spaces.")] = "sst2 mnli qnli stsb",
    lora_rank: LoraRank = 0,
    bf16: BFloat16 = False,
    data_dir: DataDir = None,
    methods: PaperMethods = "paper",
    limit: Limits = None,
    protocol: Annotated[Protocol, typer.Option(help="See the page on faithfulness.")] = "published",
    device: Device = AUTO,
    dtype: DType = None,
    output: Output = OUTPUTS,
) -> None:
    """Measure faithfulness: table 1, the table of accuracies, or the figures of both, beside what was published."""
    check_folder(output)
    limits, models, part = _limits(limit), read_checkpoints(checkpoint or []), context.info_name or ""
    with quiet():
        from .tables import paper_rows, run_figures, run_table

        _train(base or [], tasks.split(), models, output, data_dir, lora_rank=lora_rank, bf16=bf16, device=device)
        cells = paper_rows(models) if methods == "paper" else methods_of(methods)
        if not models:
            raise InputError("name the models: --checkpoint MODEL:TASK=FOLDER, or --base MODEL=NAME to fine-tune first")
        with progress(len(cells) * sum(map(len, models.values()))) as step:
            options: dict[str, Any] = {"data_dir": data_dir, "limits": limits, "on_progress": step}
            options |= {"protocol": protocol, **Loading(device, dtype).arguments()}
            if part == "figures":
                text = "".join(f"{path}\n" for path in run_figures(models, cells, output, **options))
            else:
                text = run_table(part, models, cells, output, **options)
    write_report(text)


@app.command("table2")
def paradigms(data_dir: DataDir = None, limit: Limit = None) -> None:
    """Show an example of each of BLiMP's paradigms with its evidence: table 2."""
    with quiet():
        from .examples import paradigm_table

        text = paradigm_table(data_dir=data_dir, limit=limit)
    write_report(text)


@app.command("figure1")
def signs(
    checkpoint: Checkpoints = None,
    text: Annotated[str | None, typer.Option(help="The text to explain.")] = None,
    device: Device = AUTO,
    dtype: DType = None,
    output: Output = OUTPUTS,
) -> None:
    """Show the signed scores of one text: figure 1, by default with the model in the package."""
    check_folder(output)
    models = read_checkpoints(checkpoint or [])
    folders = [tasks["sst2"] for tasks in models.values() if "sst2" in tasks]
    if models and not folders:
        raise InputError("figure1 explains one text: give --checkpoint MODEL:sst2=FOLDER, or none")
    with quiet():
        from normxlogit import Explainer

        from .examples import TEXT, sign_table

        explainers = [
            Explainer.from_pretrained(folder, **Loading(device, dtype).arguments()) for folder in folders or [None]
        ]
        tables = [sign_table(explainer, output, text=text or TEXT) for explainer in explainers]
    write_report("\n".join(tables))


@app.command("table-memory", help="Measure the largest batch of 512 tokens within 48 GB, on a random BERT-base.")
@app.command("table-time", help="Measure the seconds of one text, on a BERT-base of random weights.")
def costs(
    context: typer.Context,
    methods: PaperMethods = "paper",
    device: Device = AUTO,
    output: Output = OUTPUTS,
) -> None:
    """Measure the seconds of one text, or the largest batch within 48 GB, on a BERT-base of random weights."""
    check_folder(output)
    with quiet():
        from .costs.tables import METHODS, cost_table

        rows = METHODS if methods in ("all", "paper") else methods.split()
        with progress(1) as step:
            text = cost_table(context.info_name or "", output, methods=rows, device=device, on_progress=step)
    write(text)


app.command()(alignment)
app.command("figure-alignment")(figure_alignment)


@app.command()
def finetune(
    task: Annotated[str, typer.Option(help="sst2, mnli, qnli, stsb, or blimp: pairs of sentences.")],
    model: Annotated[str, typer.Option(help="Name or folder of a pretrained model.")],
    output: Annotated[Path, typer.Option(help="Folder to write; a stopped run goes on there.")],
    data_dir: DataDir = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the training data; 3, of blimp 1.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="3e-5 by default, 2e-4 with LoRA.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Texts in a step; 32, of blimp 64.")] = None,
    lora_rank: LoraRank = 0,
    patience: Annotated[int, typer.Option(help="Epochs without improvement before stopping.")] = 2,
    bf16: BFloat16 = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data order, dropout and new weights.")] = 0,
    device: Device = AUTO,
    limit: Limit = None,
    gguf_file: GGUFFile = None,
) -> None:
    """Fine-tune a model on a GLUE task, all weights or LoRA, or a language model on BLiMP's pairs of sentences."""
    check_folder(output)
    with quiet(), redirect_stdout(sys.stderr):  # Trainer prints its log; standard output is for the result
        from .finetuning import classification, minimal_pairs
        from .finetuning.trainer import Recipe

        pairs = task == minimal_pairs.TASK
        paper = minimal_pairs.PAPER if pairs else Recipe()
        recipe = replace(
            paper,
            epochs=epochs or paper.epochs,
            learning_rate=learning_rate or paper.learning_rate,
            batch_size=batch_size or paper.batch_size,
            lora_rank=lora_rank,
            patience=patience,
            bf16=bf16,
            device=device,
            seed=seed,
        )
        options: dict[str, Any] = {"data_dir": data_dir, "recipe": recipe, "limit": limit}
        options |= {} if gguf_file is None else {"gguf_file": gguf_file}
        if pairs:
            figures = minimal_pairs.finetune(model, output, **options)
        else:
            figures = classification.finetune(task, model, output, **options)
    write("".join(f"{name} {value:.4f}\n" for name, value in figures.items()))


def _train(
    bases: Sequence[str],
    tasks: Sequence[str],
    models: dict[str, dict[str, str | None]],
    output: Path,
    data_dir: Path | None,
    **settings: Any,
) -> None:
    """Fine-tune pretrained models on each task, where that is not done, and add them to the models."""
    from .finetuning import classification
    from .finetuning.trainer import Recipe

    for entry in bases:
        name, source = named_base(entry)
        for task in tasks:
            folder = str(output / "models" / f"{name}-{task}".replace(" ", "-").lower())
            if not (Path(folder) / "config.json").is_file():
                with redirect_stdout(sys.stderr):
                    classification.finetune(task, source, folder, data_dir=data_dir, recipe=Recipe(**settings))
            models.setdefault(name, {})[task] = folder


def _limits(text: str | None) -> dict[str, int]:
    limits = {}
    for entry in (text or "").split():
        task, _, number = entry.rpartition("=")
        if not number.isdecimal() or int(number) < 1:
            raise InputError(f"--limit takes a number or TASK=NUMBER, not {entry!r}")
        limits[task or "all"] = int(number)
    return limits
