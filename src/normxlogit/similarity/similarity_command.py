"""The command that explains how similar an embedding model finds two texts."""

from typing import Annotated, Literal

import typer

from ..cli import options
from ..cli.console import deliver_result, format_for, quiet


@options.loads_models
def similarity(
    first: Annotated[str, typer.Argument(metavar="A", help="A text, such as a query.")],
    others: Annotated[list[str], typer.Argument(metavar="B...", help="What it is compared with, such as documents.")],
    model: options.EmbeddingModel = "",
    pooling: Annotated[
        Literal["mean", "first", "last"] | None,
        typer.Option(help="How it pools; by default as its sentence-transformers files say."),
    ] = None,
    prompts: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B", help="Names of the model's prompts that are put before the texts, such as query document."
        ),
    ] = None,
    method: options.MethodName = None,
    matrix: Annotated[bool, typer.Option("--matrix", help="Score pairs of words too, which takes longer.")] = False,
    verify: options.VerifyCount = None,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Show which tokens the cosine of two embedded texts rests on, or rank documents for a query.

    Example: normxlogit similarity "a red car" "a scarlet vehicle" --model FOLDER
    """
    options.required(model, "name an embedding model with --model; the model in the package is a classifier")
    kind = output_format or format_for(output)
    with quiet():
        explainer = loading.load(model, task="embedding", pooling=pooling)
        verified = options.verified_units(verify)
        results = explainer.similarity(first, others, method=method, matrix=matrix, verify=verified, prompts=prompts)
        from .drawing import ranking_blocks
    deliver_result(results, kind, output, None if len(results) == 1 else [ranking_blocks(results)])
