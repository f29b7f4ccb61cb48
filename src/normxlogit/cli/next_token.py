"""The command that compares methods on the next token of texts: evaluate next-token."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .console import check_folder, progress, quiet, write_report
from .options import AUTO, Device, DType, GGUFFile, loading

__all__ = ["next_token"]


def next_token(
    data: Annotated[
        str, typer.Option(help="Sentences, one a line, or JSON lines with a text (.gz too); their beginnings are read.")
    ] = "",
    model: Annotated[str, typer.Option(help="Name or folder of a causal language model.")] = "",
    gguf_file: GGUFFile = None,
    methods: Annotated[
        str | None, typer.Option(help="Names separated by spaces; settings as name:setting=value,setting=value.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many texts.")] = 200,
    split: Annotated[str, typer.Option(help="Choose settings on train, report validation.")] = "validation",
    rounds: Annotated[int, typer.Option(min=1, help="Of the timing.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the texts, the random ranking and the bootstrap.")] = 0,
    device: Device = AUTO,
    dtype: DType = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results as JSON and Markdown; a stopped run goes on there.")
    ] = None,
) -> None:
    """Compare methods with leave-one-out: which tokens of a text does its next token rest on?"""
    if not model:
        raise InputError("name a causal language model with --model; the model in the package is a classifier")
    if not data:
        raise InputError("name a file of sentences with --data")
    check_folder(output)
    with quiet():
        from ..evaluation.next_token import evaluate_next_token, load_beginnings, next_token_table, write_next_token
        from ..explainer import Explainer

        texts = load_beginnings(data, limit, split, seed)
        explainer = Explainer.from_pretrained(model, **loading(device, dtype, gguf_file))
        with progress(1) as step:
            results = evaluate_next_token(
                explainer,
                texts,
                [] if methods is None else methods.split(),
                rounds=rounds,
                seed=seed,
                folder=None if output is None else output / "runs",
                on_progress=step,
            )
        about = {"data": Path(data).name, "split": split, "model": explainer._model.name, "texts": results[0].texts}
        if output is not None:
            write_next_token(output, results, about, seed)
    write_report(
        ", ".join(f"{key}: {value}" for key, value in about.items()) + "\n\n" + next_token_table(results, seed)
    )
