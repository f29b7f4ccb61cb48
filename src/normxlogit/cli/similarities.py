"""The command that measures methods on an embedding model: evaluate similarity."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import DataError, InputError
from .console import progress, quiet, write_report
from .options import DataDir, GGUFFile

__all__ = ["similarities"]


def similarities(
    dataset: Annotated[str, typer.Option(help="stsb, or a file with two columns of texts.")] = "stsb",
    model: Annotated[str, typer.Option(help="Name or folder of an embedding model.")] = "",
    methods: Annotated[
        str, typer.Option(help="Names separated by spaces; settings as name:setting=value,setting=value.")
    ] = "frozen-gradient normxlogit logat random",
    data_dir: DataDir = None,
    split: Annotated[str, typer.Option(help="Which split.")] = "validation",
    columns: Annotated[str | None, typer.Option(help="The two text columns, separated by a comma.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="So many pairs, drawn at random.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the draw and the bootstrap.")] = 0,
    gguf_file: GGUFFile = None,
) -> None:
    """Measure how far the tokens that each method names for a cosine are those that it loses most without."""
    if not model:
        raise InputError("name an embedding model with --model; the model in the package is a classifier")
    with quiet():
        import numpy as np

        from ..evaluation.datasets import load_examples
        from ..evaluation.similarity import evaluate_similarity, similarity_table
        from ..explainer import Explainer

        examples = load_examples(dataset, split=split, data_dir=data_dir, columns=columns.split(",") if columns else [])
        pairs = [example.text for example in examples if isinstance(example.text, tuple)]
        if not pairs:
            raise DataError(f"{dataset}: one column of texts; name two with --columns")
        order = np.random.default_rng(seed).permutation(len(pairs))[:limit].tolist()
        given: dict[str, Any] = {} if gguf_file is None else {"gguf_file": gguf_file}
        explainer = Explainer.from_pretrained(model, task="embedding", **given)
        with progress(1) as step:
            results = evaluate_similarity(
                explainer, [pairs[i] for i in order], methods.split(), seed=seed, on_progress=step
            )
    about = f"dataset: {Path(dataset).name}, pairs: {len(order)} of {len(pairs)}, model: {explainer._model.name}"
    write_report(f"{about}\n\n{similarity_table(results)}")
