"""The command that measures verdicts on sentences about documents."""

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.console import check_folder, progress, quiet, write_report


def grounding(
    data: Annotated[
        list[str] | None,
        typer.Option(
            help='JSON lines with "documents", "question" and "pairs" ([kind, true sentence, false sentence]) or '
            '"sentences" ([kind, sentence]); those with "split": "train" are not judged. May be repeated.'
        ),
    ] = None,
    model: options.LanguageModel = "",
    gguf_file: options.GGUFFile = None,
    sentences: Annotated[bool, typer.Option("--sentences", help="List each sentence with its verdict.")] = False,
    trust_remote_code: options.TrustRemoteCode = False,
    device: options.Device = options.AUTO,
    dtype: options.DType = None,
    output: options.ReportFolder = None,
) -> None:
    """Measure how well verdicts tell sentences that rest on documents from false ones, by kind of falsehood.

    Example: normxlogit evaluate grounding --data pairs.jsonl --model FOLDER --output out/
    """
    options.required(model, options.NO_LANGUAGE_MODEL)
    options.required(" ".join(data or []), "name a JSONL file of sentences with --data")
    check_folder(output)
    with quiet():
        from ...evaluation.report import report
        from .evaluation import listed, load_statements, measure_statements, verdict_table

        prompted = load_statements(data or [])
        explainer = options.load(model, device, dtype, gguf_file, trust_remote_code)
        with progress(1) as on_progress:
            folder = None if output is None else output / "prompts"
            measured = measure_statements(explainer, prompted, folder, on_progress)
        table = listed(measured) if sentences else verdict_table(measured)
        metadata = {
            "data": ", ".join(Path(path).name for path in data or []),
            "model": explainer.task_model.name,
            "sentences": len(measured),
        }
        text = report(metadata, table, output, "grounding", sentences=measured)
    write_report(text)
