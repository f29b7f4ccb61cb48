"""The commands that measure and train: evaluate, finetune, reproduce."""

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .console import progress, quiet, write

if TYPE_CHECKING:
    from ..evaluation.runs import Cell

__all__ = ["evaluate", "finetune", "reproduce"]

evaluate = typer.Typer(help="Measure methods on a model.", no_args_is_help=True)

DataDir = Annotated[Path | None, typer.Option(help="Folder with SPLIT.jsonl, .parquet or .csv; else the hub.")]
Methods = Annotated[
    str, typer.Option(help='"all", or names separated by spaces; settings as name:setting=value,setting=value.')
]
DType = Annotated[
    str | None, typer.Option(help="Precision to run the model in, such as bfloat16; the checkpoint's by default.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first texts.")]


class Protocol(str, Enum):
    """How texts are perturbed."""

    default = "default"
    published = "published"


class Part(str, Enum):
    """A table of the paper, or its figures."""

    table1 = "table1"
    accuracy = "table-accuracy"
    figures = "figures"
    alignment = "figure-alignment"
    time = "table-time"
    memory = "table-memory"


@evaluate.callback()
def _evaluate() -> None:
    """Measure methods on a model."""


@evaluate.command()
def faithfulness(
    dataset: Annotated[str, typer.Option(help="sst2, mnli, qnli, stsb, a file, or a data set on the hub.")] = "sst2",
    model: Annotated[str | None, typer.Option(help="Name or folder; the small sentiment model by default.")] = None,
    methods: Methods = "all",
    data_dir: DataDir = None,
    split: Annotated[str, typer.Option(help="Which split.")] = "validation",
    columns: Annotated[str | None, typer.Option(help="The text column, or two separated by a comma.")] = None,
    label_column: Annotated[str, typer.Option(help="The column of gold labels.")] = "label",
    limit: Limit = None,
    protocol: Annotated[Protocol, typer.Option(help="See the page on faithfulness.")] = Protocol.default,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    dtype: DType = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results as JSON, Markdown and figures; a stopped run goes on there.")
    ] = None,
) -> None:
    """How much the answer rests on what each method calls important (AOPC, sufficiency, accuracy)."""
    with quiet():
        from ..datasets.glue import TASKS, load_examples
        from ..evaluation.experiments import count_texts, titles
        from ..evaluation.faithfulness import check_head
        from ..evaluation.report import faithfulness_table, write_faithfulness
        from ..evaluation.runs import run_cells
        from ..explainer import Explainer

        cells = _cells(methods)
        names = titles(cells)
        chosen = columns.split(",") if columns else []
        examples = load_examples(
            dataset, split=split, data_dir=data_dir, columns=chosen, label_column=label_column, limit=limit
        )
        explainer = Explainer.from_pretrained(model, dtype=dtype)
        if dataset in TASKS:
            check_head(explainer.model, TASKS[dataset])
        with progress(len(cells)) as step:
            results = run_cells(
                explainer,
                examples,
                cells,
                folder=None if output is None else output / "cells",
                protocol=protocol.value,
                seed=seed,
                on_progress=step,
            )
        about = {
            "dataset": Path(dataset).name,
            "model": explainer.model.name,
            "protocol": protocol.value,
        }
        about |= {key: str(n) for key, n in count_texts(explainer, examples, protocol.value).items()}
        if output is not None:
            write_faithfulness(output, results, names, about)
    heading = ", ".join(f"{key}: {value}" for key, value in about.items())
    write(f"{heading}\n\n{faithfulness_table(results, names)}")


def finetune(
    task: Annotated[str, typer.Option(help="sst2, mnli, qnli, stsb, or blimp: pairs of sentences.")],
    model: Annotated[str, typer.Option(help="Name or folder of a pretrained model.")],
    output: Annotated[Path, typer.Option(help="Folder to write; a stopped run goes on there.")],
    data_dir: DataDir = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the training data; 3, of blimp 1.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="3e-5 by default, 2e-4 with LoRA.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Texts in a step; 32, of blimp 64.")] = None,
    lora_rank: Annotated[int, typer.Option(help="Train LoRA adapters of this rank; the paper's is 4.")] = 0,
    patience: Annotated[int, typer.Option(help="Epochs without improvement before stopping.")] = 2,
    bf16: Annotated[bool, typer.Option("--bf16", help="Compute in bfloat16.")] = False,
    seed: Annotated[int, typer.Option(help="Of data order, dropout and new weights.")] = 0,
    limit: Limit = None,
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in the model's folder.")] = None,
) -> None:
    """Fine-tune a model on a GLUE task, all weights or LoRA, or a language model on BLiMP's pairs of sentences."""
    with quiet(), redirect_stdout(sys.stderr):  # Trainer prints its log; standard output is for the result
        from ..training import classification, minimal_pairs
        from ..training.running import Recipe

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
            seed=seed,
        )
        options: dict[str, Any] = {"data_dir": data_dir, "recipe": recipe, "limit": limit}
        options |= {} if gguf_file is None else {"gguf_file": gguf_file}
        if pairs:
            figures = minimal_pairs.finetune(model, output, **options)
        else:
            figures = classification.finetune(task, model, output, **options)
    write("".join(f"{name} {value:.4f}\n" for name, value in figures.items()))


def reproduce(
    part: Annotated[Part, typer.Argument(help="Which of the paper's tables, or the curves.")],
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
    dtype: DType = None,
    output: Annotated[Path, typer.Option(help="Folder for models, cells, table and figures.")] = Path("outputs"),
) -> None:
    """Fill one of the paper's tables and print it beside the published figures; a stopped run goes on where it was."""
    if part in (Part.time, Part.memory):
        write(_costs(part.value, methods, output))
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
            from .alignment import figure_alignment

            bases = dict(_named(entry) for entry in base or [])
            tuned = {name: found["blimp"] for name, found in models.items() if "blimp" in found}
            write(
                figure_alignment(
                    bases,
                    tuned,
                    methods,
                    output,
                    training={"lora_rank": lora_rank, "bf16": bf16},
                    protocol=protocol,
                    data_dir=data_dir,
                    limits=limits,
                    dtype=dtype,
                )
            )
            return
        from ..evaluation.experiments import run_figures, run_table
        from ..training.classification import finetune as train
        from ..training.running import Recipe

        cells = _cells(methods)
        for entry in base or []:
            name, source = _named(entry)
            for task in tasks.split():
                folder = str(output / "models" / f"{name}-{task}".replace(" ", "-").lower())
                if not (Path(folder) / "config.json").is_file():
                    recipe = Recipe(lora_rank=lora_rank, bf16=bf16)
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
                "dtype": dtype,
            }
            if part is Part.figures:
                text = "".join(f"{path}\n" for path in run_figures(models, cells, output, **options))
            else:
                text = run_table(part.value, models, cells, output, **options)
    write(text)


def _named(entry: str) -> tuple[str, str]:
    name, equals, source = entry.partition("=")
    if not (name and equals and source):
        raise InputError(f"--base takes MODEL=NAME, not {entry!r}")
    return name, source


def _costs(table: str, methods: str, output: Path) -> str:
    """The tables of time and memory, which need no fine-tuned model."""
    with quiet():
        from ..evaluation.cost_tables import METHODS, cost_table

        chosen = METHODS if methods == "all" else methods.split()
        with progress(1) as step:
            return cost_table(table, output, methods=chosen, on_progress=step)


def _limits(text: str | None) -> dict[str, int]:
    limits = {}
    for entry in (text or "").split():
        task, _, number = entry.rpartition("=")
        if not number.isdecimal() or int(number) < 1:
            raise InputError(f"--limit takes a number or TASK=NUMBER, not {entry!r}")
        limits[task or "all"] = int(number)
    return limits


def _cells(methods: str) -> list["Cell"]:
    from ..evaluation.runs import all_methods, parse_method

    return all_methods() if methods == "all" else [parse_method(text) for text in methods.split()]
