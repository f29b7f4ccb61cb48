"""The command that measures how well methods find the sources of an answer: evaluate generation."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .console import check_folder, progress, quiet, write_report
from .options import AUTO, Device, DType, GGUFFile, loading

__all__ = ["generation"]


def generation(
    data: Annotated[
        str,
        typer.Option(help="JSONL of questions with documents; or QNLI's rows, made to documents of several sentences."),
    ] = "",
    model: Annotated[str, typer.Option(help="Name or folder of a language model, causal or encoder-decoder.")] = "",
    gguf_file: GGUFFile = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names separated by spaces; settings as name:setting=value,setting=value. By default the method that "
            "explains completions, normxlogit and context-cite."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most questions.")] = 100,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences of a document made from QNLI's rows.")] = 7,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of an answer.")] = 40,
    ablations: Annotated[int, typer.Option(min=2, help="Random ablations of the linear datamodelling score.")] = 32,
    context_cite: Annotated[
        int, typer.Option(min=0, help="Add a row of the published package context-cite, with so many ablations.")
    ] = 0,
    tokens: Annotated[
        int,
        typer.Option(
            min=0,
            help="Explain so many tokens of each answer by the words of the prompt, instead of answers by sentences.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the documents, the ablations and the bootstrap.")] = 0,
    device: Device = AUTO,
    dtype: DType = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results as JSON and Markdown; a stopped run goes on there.")
    ] = None,
) -> None:
    """Measure how much an answer rests on the sources that each method ranks highest."""
    if not model:
        raise InputError("name a language model with --model; the model in the package is a classifier")
    if not data:
        raise InputError("name a JSONL file of questions with --data")
    check_folder(output)
    with quiet():
        from ..evaluation.generation import evaluate_sources, source_methods
        from ..evaluation.questions import load_questions
        from ..evaluation.source_report import sources_table, write_sources
        from ..explainer import Explainer

        questions = load_questions(data, limit, seed, sentences)
        explainer = Explainer.from_pretrained(model, **loading(device, dtype, gguf_file))
        with progress(1) as step:
            results, matter = evaluate_sources(
                explainer,
                questions,
                source_methods(explainer) if methods is None else methods.split(),
                max_new_tokens=max_new_tokens,
                ablations=ablations,
                context_cite=context_cite,
                tokens=tokens,
                seed=seed,
                folder=None if output is None else output / "prompts",
                on_progress=step,
            )
        ranked = "word" if tokens else "source"
        about = {
            "data": Path(data).name,
            "model": explainer._model.name,
            "questions": str(len(questions)),
            f"of them some {ranked} matters in": str(matter),
        }
        if output is not None:
            write_sources(output, results, about, ranked)
    write_report(", ".join(f"{key}: {value}" for key, value in about.items()) + "\n\n" + sources_table(results, ranked))
