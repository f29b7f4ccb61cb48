"""Options that several commands share."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .console import Format

if TYPE_CHECKING:
    from ..methods import Method

__all__ = [
    "AUTO",
    "AllLabels",
    "Contrast",
    "DType",
    "DataDir",
    "Device",
    "GGUFFile",
    "LayerNumbers",
    "Limit",
    "Methods",
    "OutputFile",
    "OutputFormat",
    "Protocol",
    "Targets",
    "loading",
    "methods_of",
]

DataDir = Annotated[Path | None, typer.Option(help="Folder with SPLIT.jsonl, .parquet or .csv; else the hub.")]
Methods = Annotated[
    str, typer.Option(help='"all", or names separated by spaces; settings as name:setting=value,setting=value.')
]
DType = Annotated[
    str | None, typer.Option(help="Precision to run the model in, such as bfloat16; the checkpoint's by default.")
]
AUTO = "auto"
"""Spelled here too, because importing it from the models takes the seconds that --help should not."""

Device = Annotated[
    str, typer.Option(help="Where the model runs, such as cuda, cuda:1, mps or cpu; auto is the best that is there.")
]
GGUFFile = Annotated[
    str | None, typer.Option(help="The GGUF file in the model's folder; --model may be the file itself.")
]
Targets = Annotated[
    list[str] | None,
    typer.Option(help="A label, a token, or the number of one; the prediction if none is given; may be repeated."),
]
AllLabels = Annotated[bool, typer.Option("--all-labels", help="Explain every label.")]
Contrast = Annotated[str | None, typer.Option(help="Label or token to subtract: why this and not that.")]
LayerNumbers = Annotated[str | None, typer.Option(help='"all" or numbers such as 1,2,3; the last by default.')]
OutputFormat = Annotated[
    Format | None, typer.Option("--format", help="By default from --output's name, else terminal.")
]
OutputFile = Annotated[Path | None, typer.Option(help="Write to a file instead of standard output.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first texts.")]


class Protocol(str, Enum):
    """How texts are perturbed."""

    default = "default"
    published = "published"


def loading(device: str, dtype: str | None, gguf_file: str | None = None) -> dict[str, Any]:
    """Return what these options ask of `Explainer.from_pretrained`."""
    return {"device": device, "dtype": dtype} | ({} if gguf_file is None else {"gguf_file": gguf_file})


def methods_of(methods: str) -> list["Method"]:
    """Return the methods of a command line with their settings.

    Raises:
        InputError: If there is none.
    """
    from ..evaluation.runs import all_methods
    from ..methods import method_named

    if not methods.split():
        raise InputError('--methods takes "all", or names separated by spaces')
    return all_methods() if methods == "all" else [method_named(text) for text in methods.split()]
