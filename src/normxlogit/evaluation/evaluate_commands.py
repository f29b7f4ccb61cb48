"""The commands that measure methods on a model: evaluate faithfulness, frontier and evidence."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ..cli import options
from ..cli.console import quiet
from ..errors import InputError
from ..long_runs.console import ReportFolder, check_folder, progress, write_report
from . import options as measures

app = typer.Typer(help="Measure methods on a model.", no_args_is_help=True)


@options.loads_models
def faithfulness(
    model: options.Model = None,
    methods: measures.Methods = None,
    protocol: Annotated[
        measures.Protocol, typer.Option(rich_help_panel=measures.MEASURING, help="See the page on faithfulness.")
    ] = "default",
    seed: measures.Seed = 0,
    output: ReportFolder = None,
    data: measures.Data = measures.DATA_OPTIONS,
    loading: options.Loading = options.LOADING,
) -> None:
    """Measure how much the answer rests on what each method calls important (AOPC, sufficiency, accuracy).

    Example: normxlogit evaluate faithfulness --dataset reviews --methods "normxlogit lime"
    """
    check_folder(output)
    with quiet():
        from .datasets import TASKS
        from .faithfulness import RANDOM, count_texts, run_methods
        from .gold_labels import check_head
        from .report import write_faithfulness

        chosen_methods = measures.methods_of(methods or "all")
        if RANDOM not in [method.info.name for method in chosen_methods]:
            chosen_methods += measures.methods_of(RANDOM)  # what each method is compared with
        examples = data.examples(data.dataset)
        explainer = loading.load(model)
        if data.dataset in TASKS:
            check_head(explainer.task_model, TASKS[data.dataset])
        folder = None if output is None else output / "runs"
        with progress(len(chosen_methods)) as on_progress:
            results = list(
                run_methods(
                    explainer,
                    examples,
                    chosen_methods,
                    folder=folder,
                    protocol=protocol,
                    seed=seed,
                    on_progress=on_progress,
                )
            )
        metadata = {"dataset": Path(data.dataset).name, "model": explainer.task_model.name, "protocol": protocol}
        metadata |= {key: str(count) for key, count in count_texts(explainer, examples, protocol).items()}
        text = write_faithfulness(output, results, metadata)
    write_report(text)


@options.loads_models
def frontier(
    model: options.Model = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead of both, several: NAME:DATASET=FOLDER, such as BERT:sst2=runs/bert, or NAME:DATASET for the "
            "small model; repeatable."
        ),
    ] = None,
    methods: measures.Methods = None,
    rounds: measures.Rounds = 9,
    seed: measures.Seed = 0,
    output: ReportFolder = None,
    data: measures.Data = measures.DATA_OPTIONS,
    loading: options.Loading = options.LOADING,
) -> None:
    """Measure each method's faithfulness at several settings (AOPC, sufficiency) against its cost in forward passes.

    Example: normxlogit evaluate frontier --dataset reviews --limit 50 --output out/
    """
    checkpoints = _checkpoints(checkpoint) or [Checkpoint("", data.dataset, model)]
    check_folder(output)
    with quiet():
        from ..loading.load import device_named
        from .datasets import TASKS
        from .faithfulness import count_texts
        from .frontier import frontier_methods, run_frontier, write_frontier
        from .gold_labels import check_head
        from .runs import under

        chosen_methods = [] if methods is None else measures.methods_of(methods)
        folder = None if output is None else output / "runs"
        panels = {}
        metadata = {}
        for name, dataset, source in checkpoints:
            examples = data.examples(dataset)
            # --gguf-file names a file of --model, which other checkpoints do not have.
            loading_of_source = loading if source == model else loading._replace(gguf_file=None)
            explainer = loading_of_source.load(source)
            if dataset in TASKS:
                check_head(explainer.task_model, TASKS[dataset])
            title = f"{Path(dataset).name}, {name or Path(explainer.task_model.name).name}"
            methods_to_measure = chosen_methods or frontier_methods(explainer)
            with progress(len(methods_to_measure)) as on_progress_of_method:
                on_progress = under(f"{title}:", on_progress_of_method)
                panels[title] = run_frontier(
                    explainer,
                    examples,
                    methods_to_measure,
                    folder=folder,
                    seed=seed,
                    rounds=rounds,
                    on_progress=on_progress,
                )
            metadata[title] = {**count_texts(explainer, examples), "split": data.split}
        text = write_frontier(output, panels, metadata, device_named(loading.device))
    write_report(text)


@options.loads_models
def evidence(
    data: Annotated[Path, typer.Argument(help='JSONL or Parquet: "text", "evidence" (words or spans), "target"...')],
    model: options.Model = None,
    methods: measures.Methods = "frozen-gradient normxlogit occlusion",
    limit: measures.Limit = None,
    seed: measures.Seed = 0,
    output: ReportFolder = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Measure how high methods rank what an answer is known to rest on, beside rankings that read no model.

    Example: normxlogit evaluate evidence known.jsonl --model FOLDER --methods "frozen-gradient occlusion"
    """
    check_folder(output)
    with quiet():
        from .evidence import evaluate_evidence, evidence_table, load_evidence
        from .report import report

        cases = load_evidence(data, limit)
        chosen_methods = measures.methods_of(methods or "")
        explainer = loading.load(model)
        with progress(len(chosen_methods)) as on_progress:
            results, counts = evaluate_evidence(explainer, cases, chosen_methods, on_progress)
        metadata = {"data": data.name, "model": explainer.task_model.name, "seed": seed, **counts}
        text = report(metadata, evidence_table(results, seed), output, "evidence", results=results)
    write_report(text)


class Checkpoint(NamedTuple):
    """A model with the data that it is measured on."""

    name: str  # in titles; empty for the model's own
    dataset: str
    source: str | None  # the name or folder of the model; None for the one in the package


def _checkpoints(entries: list[str] | None) -> list[Checkpoint]:
    """Return the checkpoints of entries NAME:DATASET=FOLDER, or NAME:DATASET for the model in the package."""
    checkpoints = []
    for entry in entries or []:
        name, colon, location = entry.partition(":")
        data, equals, folder = location.partition("=")
        if not (name and colon and data) or (equals and not folder):
            raise InputError(f"--checkpoint takes NAME:DATASET=FOLDER or NAME:DATASET, not {entry!r}")
        checkpoints.append(Checkpoint(name, data, folder or None))
    return checkpoints
