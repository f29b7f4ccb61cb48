"""The command that measures how well methods point at known evidence in pictures and sounds."""

from pathlib import Path
from typing import Annotated

import typer

from .console import check_folder, progress, quiet, write_report
from .options import AUTO, Device, DType, GGUFFile, ReportFolder, Seed, load, required


def pointing(
    data: Annotated[
        str,
        typer.Option(
            help='JSON lines with "image", "question", "answer" and "boxes" of the evidence in pixels, or with '
            '"audio", "answer" and "times" of each word in seconds.'
        ),
    ] = "",
    model: Annotated[str, typer.Option(help="Name or folder of a vision-language model, or of speech.")] = "",
    gguf_file: GGUFFile = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names separated by spaces: methods of this library, and gradient-x-input, integrated-gradients, "
            "occlusion and attention-rollout on the numbers of the picture."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many questions.")] = 300,
    seed: Seed = 0,
    device: Device = AUTO,
    dtype: DType = None,
    output: ReportFolder = None,
) -> None:
    """Measure how well methods point at the evidence in a picture or a sound, where it is known.

    Example: normxlogit evaluate pointing --data heldout.jsonl --model FOLDER --limit 100
    """
    required(model, "name a vision-language model or one of speech with --model")
    required(data, "name a file of questions with their evidence with --data")
    check_folder(output)
    with quiet():
        from dataclasses import asdict

        from ..evaluation.pointing import evaluate_pointing, pointing_table
        from ..evaluation.pointing_cases import load_pointing_cases
        from ..evaluation.report import report

        cases = load_pointing_cases(data, limit)
        explainer = load(model, device, dtype, gguf_file)
        folder = None if output is None else output / "runs"
        with progress(1) as step:
            chosen = (methods or "").split()
            results = evaluate_pointing(explainer, cases, chosen, seed=seed, folder=folder, on_progress=step)
        about = {"data": Path(data).name, "model": explainer._model.name, "cases": len(cases)}
        text = report(about, pointing_table(results, seed), output, "pointing", results=[asdict(r) for r in results])
    write_report(text)
