"""The command that compares methods with leave-one-out on a model's next token."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .console import check_folder, progress, quiet, write_report
from .options import AUTO, NO_LANGUAGE_MODEL, Device, DType, GGUFFile, ReportFolder, Rounds, Seed, Split, load, required


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
    split: Split = "validation",
    rounds: Rounds = 3,
    seed: Seed = 0,
    device: Device = AUTO,
    dtype: DType = None,
    output: ReportFolder = None,
) -> None:
    """Compare methods with leave-one-out: which tokens of a text does its next token rest on?

    Example: normxlogit evaluate next-token --data texts.txt --model FOLDER --limit 50
    """
    required(model, NO_LANGUAGE_MODEL.replace("language", "causal language"))
    required(data, "name a file of sentences with --data")
    check_folder(output)
    with quiet():
        from ..evaluation.next_token import evaluate_next_token, load_beginnings, next_token_table
        from ..evaluation.ranking import plain_rankings
        from ..evaluation.report import report

        texts = load_beginnings(data, limit, split, seed)
        explainer = load(model, device, dtype, gguf_file)
        folder = None if output is None else output / "runs"
        options: dict[str, Any] = {"rounds": rounds, "seed": seed, "folder": folder}
        with progress(1) as step:
            results = evaluate_next_token(explainer, texts, (methods or "").split(), on_progress=step, **options)
        about = {"data": Path(data).name, "split": split, "model": explainer._model.name, "texts": results[0].texts}
        table = next_token_table(results, seed)
        text = report(about, table, output, "next-token", results=plain_rankings(results))
    write_report(text)
