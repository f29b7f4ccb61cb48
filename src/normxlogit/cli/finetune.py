"""The command that trains: finetune."""

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .console import check_folder, quiet, write
from .options import AUTO, DataDir, Device, GGUFFile, Limit

__all__ = ["finetune"]


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
    seed: Annotated[int, typer.Option(min=0, help="Of data order, dropout and new weights.")] = 0,
    device: Device = AUTO,
    limit: Limit = None,
    gguf_file: GGUFFile = None,
) -> None:
    """Fine-tune a model on a GLUE task, all weights or LoRA, or a language model on BLiMP's pairs of sentences."""
    check_folder(output)
    with quiet(), redirect_stdout(sys.stderr):  # Trainer prints its log; standard output is for the result
        from ..paper.finetuning import classification, minimal_pairs
        from ..paper.finetuning.trainer import Recipe

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
