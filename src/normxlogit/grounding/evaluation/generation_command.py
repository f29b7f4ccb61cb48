"""The command that measures how well methods find the sources of answers."""

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.console import quiet
from ...evaluation import options as measures
from ...long_runs.console import ReportFolder, check_folder, progress, write_report


@options.loads_models
def generation(
    data: Annotated[str, typer.Option(help='JSON lines with a "question" and its "documents".')] = "",
    model: options.LanguageModel = "",
    methods: measures.Methods = None,
    limit: measures.MostQuestions = 100,
    max_new_tokens: options.MaxNewTokens = 40,
    ablations: Annotated[int, typer.Option(min=2, help="Random ablations of the linear datamodelling score.")] = 32,
    seed: measures.Seed = 0,
    output: ReportFolder = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Measure how much an answer rests on the sources that each method ranks highest.

    Example: normxlogit evaluate generation --data questions.jsonl --model FOLDER --output out/
    """
    options.required(model, options.NO_LANGUAGE_MODEL)
    options.required(data, "name a JSONL file of questions with --data")
    check_folder(output)
    with quiet():
        from ...evaluation.report import report
        from .sources import evaluate_sources, load_questions, source_methods, sources_table

        questions = load_questions(data, limit)
        explainer = loading.load(model)
        chosen_methods = source_methods(explainer) if methods is None else measures.method_names(methods)
        folder = None if output is None else output / "prompts"
        with progress(pieces_of_work=1) as on_progress:
            results, prompts_that_matter = evaluate_sources(
                explainer,
                questions,
                chosen_methods,
                max_new_tokens=max_new_tokens,
                ablations=ablations,
                seed=seed,
                folder=folder,
                on_progress=on_progress,
            )
        metadata = {"data": Path(data).name, "model": explainer.task_model.name, "questions": str(len(questions))}
        metadata["of them some source matters in"] = str(prompts_that_matter)
        table = sources_table(results)
        text = report(metadata, table, output, "generation", results=results)
    write_report(text)
