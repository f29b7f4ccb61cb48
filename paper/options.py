"""Options that several of the paper's commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from normxlogit.errors import InputError

__all__ = [
    "OUTPUTS",
    "BFloat16",
    "Bases",
    "Checkpoints",
    "LoraRank",
    "Output",
    "PaperMethods",
    "Words",
    "named_base",
    "read_checkpoints",
]

Checkpoints = Annotated[
    list[str] | None,
    typer.Option(
        help='A fine-tuned model as MODEL:TASK=FOLDER, such as "BERT:sst2=runs/bert-sst2", or MODEL:sst2 for the '
        "small model in the package; repeatable."
    ),
]
Bases = Annotated[
    list[str] | None,
    typer.Option(help="A pretrained model as MODEL=NAME, fine-tuned here on each task first; repeatable."),
]
PaperMethods = Annotated[
    str,
    typer.Option(
        help='"paper" (its rows with its settings), "all", or names separated by spaces; settings as '
        "name:setting=value,setting=value."
    ),
]
BFloat16 = Annotated[bool, typer.Option("--bf16", help="Fine-tune in bfloat16.")]
LoraRank = Annotated[int, typer.Option(help="Fine-tune LoRA adapters of this rank; the paper's is 4.")]
Words = Annotated[str, typer.Option(help="Words for which LogAt is measured, beside target and foil.")]
Output = Annotated[Path, typer.Option(help="Folder for models, runs, table and figures.")]
OUTPUTS = Path("outputs")


def read_checkpoints(checkpoints: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Read MODEL:TASK=FOLDER, or MODEL:sst2 for the model in the package.

    Raises:
        InputError: If a checkpoint has another form.
    """
    models: dict[str, dict[str, str | None]] = {}
    for entry in checkpoints:
        name, colon, rest = entry.partition(":")
        task, equals, folder = rest.partition("=")
        if not (name and colon and task) or (not folder and (equals or task != "sst2")):
            raise InputError(f"--checkpoint takes MODEL:TASK=FOLDER, or MODEL:sst2, not {entry!r}")
        models.setdefault(name, {})[task] = folder or None
    return models


def named_base(entry: str) -> tuple[str, str]:
    """Read MODEL=NAME.

    Raises:
        InputError: If a base has another form.
    """
    name, equals, source = entry.partition("=")
    if not (name and equals and source):
        raise InputError(f"--base takes MODEL=NAME, not {entry!r}")
    return name, source
