"""The command that explains how similar an embedding model finds two texts."""

from typing import Annotated, Literal

import typer

from .console import deliver_result, format_for, quiet
from .options import (
    AUTO,
    Device,
    DType,
    EmbeddingModel,
    GGUFFile,
    MethodName,
    OutputFile,
    OutputFormat,
    VerifyCount,
    load,
    required,
    verify_count,
)


def similarity(
    first: Annotated[str, typer.Argument(metavar="A", help="A text, such as a query.")],
    others: Annotated[list[str], typer.Argument(metavar="B...", help="What it is compared with, such as documents.")],
    model: EmbeddingModel = "",
    pooling: Annotated[
        Literal["mean", "first", "last"] | None,
        typer.Option(help="How it pools; by default as its sentence-transformers files say."),
    ] = None,
    device: Device = AUTO,
    dtype: DType = None,
    gguf_file: GGUFFile = None,
    method: MethodName = None,
    matrix: Annotated[bool, typer.Option("--matrix", help="Score pairs of words too, which takes longer.")] = False,
    verify: VerifyCount = None,
    output_format: OutputFormat = None,
    output: OutputFile = None,
) -> None:
    """Show which tokens the cosine of two embedded texts rests on, or rank documents for a query.

    Example: normxlogit similarity "a red car" "a scarlet vehicle" --model FOLDER
    """
    required(model, "name an embedding model with --model; the model in the package is a classifier")
    kind = output_format or format_for(output)
    with quiet():
        explainer = load(model, device, dtype, gguf_file, task="embedding", pooling=pooling)
        results = explainer.similarity(first, others, method=method, matrix=matrix, verify=verify_count(verify))
        from ..render.builders.similarity import ranking_blocks
    blocks = None if len(results) == 1 else ranking_blocks(results)
    deliver_result(results, kind, output, blocks)
