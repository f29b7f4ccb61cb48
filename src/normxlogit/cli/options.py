"""Options that several of the commands that measure share."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from ..methods import Method

__all__ = ["DType", "DataDir", "Limit", "Methods", "Protocol", "methods_of"]

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
