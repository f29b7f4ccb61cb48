"""The commands that explain a corpus, and sum up what was explained."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..cli import options
from ..cli.console import deliver_result, format_for, layers_of, quiet, status, write
from ..errors import InputError
from ..long_runs.console import GoldLabelsOption
from ..long_runs.table_files import Format
from ..results.units.characters import one_line
from ..results.units.kinds import PartKind, SourceKind

if TYPE_CHECKING:
    from ..explainer import Explainer
    from .jobs import Job
    from .ray_engine import Cluster
    from .run import Progress


ROWS, ANSWERS, SPEED = "Rows and columns", "Completions, answers and conversations", "Speed and Ray"
"""Panels of the help."""

_row_option = partial(typer.Option, rich_help_panel=ROWS)
_answer_option = partial(typer.Option, rich_help_panel=ANSWERS)
_speed_option = partial(typer.Option, rich_help_panel=SPEED)


@options.loads_models
def attribute(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Parquet, JSONL, CSV, Arrow or text files: paths, patterns, URLs; a folder of them or of a saved "
            'data set, or "-" for standard input. Of pictures or sounds also the files themselves.',
        ),
    ],
    output: Annotated[str, typer.Option(metavar="FOLDER", help="Folder or URL to write to.")],
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAME",
            help="Column of the text, pair or target of a prediction; of the prompt, completion, image or audio; of "
            "the question, answer or documents; of messages and their tools. By default the role is the name.",
        ),
    ] = None,
    model: options.Model = None,
    method: options.MethodName = None,
    target: options.Targets = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column to copy into the results; may be repeated.")
    ] = None,
    job: Annotated[
        Literal["predictions", "completions", "answers", "conversations"],
        typer.Option(
            help="What each row is: a text, a pair, a picture or a sound with the model's prediction; a prompt with a "
            "completion; a question with documents and an answer; or a conversation."
        ),
    ] = "predictions",
    input_format: Annotated[
        Format | None,
        _row_option(help="Format, where names do not tell it; of standard input text by default."),
    ] = None,
    id_column: Annotated[
        str | None,
        _row_option(metavar="COLUMN", help="Column of ids; by default row numbers, or paths."),
    ] = None,
    keep_text: Annotated[bool, _row_option(help="Write the texts too, which `summarize` shows and tests.")] = True,
    words: Annotated[
        bool | None,
        _row_option(help="Write words with their scores, by default of texts."),
    ] = None,
    max_errors: Annotated[
        int | None,
        _row_option(metavar="N", help="Stop when more rows have no result.", min=0),
    ] = None,
    all_labels: options.AllLabels = False,
    contrast: options.Contrast = None,
    layers: options.LayerNumbers = None,
    long_text: Annotated[
        options.LongText | None,
        options.explained(
            help="For a text over the model's length: its beginning (by default), all of it in windows, an error row.",
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        _answer_option(
            metavar="N",
            help="Let the model generate the completions, each of at most this many tokens.",
            min=1,
        ),
    ] = None,
    sources: Annotated[
        SourceKind | None,
        _answer_option(help="What each completion rests on; sentences of its prompt by default."),
    ] = None,
    parts: Annotated[
        PartKind | None,
        _answer_option(help="What a completion is divided into; by default it is explained whole."),
    ] = None,
    turn: Annotated[
        int | None,
        _answer_option(
            metavar="N",
            help="In a conversation, which of the assistant's texts is the answer, from 0; by default the last.",
        ),
    ] = None,
    verify: Annotated[
        str | None,
        _answer_option(
            help="Test the citations: leave out this many of the first sources one by one, then all; "
            '"auto" goes on until the others can no longer come first.',
            metavar="N",
        ),
    ] = None,
    loading: options.Loading = options.LOADING,
    batch_tokens: Annotated[
        int | None,
        _speed_option(metavar="N", help="Most tokens in one forward pass; by default what fits.", min=1),
    ] = None,
    shard_rows: Annotated[
        int | None,
        _speed_option(
            metavar="N",
            help="Rows of a shard; 4096 by default, 64 of all but predictions of texts.",
            min=1,
        ),
    ] = None,
    engine: Annotated[Literal["local", "ray"], _speed_option(help="On this machine, or on a Ray cluster.")] = "local",
    num_workers: Annotated[
        int,
        _speed_option(metavar="N", help="Ray: workers, each with a model of its own.", min=1),
    ] = 1,
    num_gpus_per_worker: Annotated[float, _speed_option(metavar="N", help="Ray: GPUs of each worker.", min=0)] = 0,
    ray_address: Annotated[
        str | None,
        _speed_option(metavar="ADDRESS", help="Ray: the cluster; started here if there is none."),
    ] = None,
) -> None:
    """Explain a corpus and write Parquet shards; a stopped run resumes where it was.

    Example: normxlogit attribute reviews.parquet --output out/
    """
    # `locals()` has the values of all options by the names of the arguments.
    arguments = locals() | {"layers": layers_of(layers), "verify": options.verified_units(verify)}
    options.check_targets(target, all_labels)
    with quiet():
        from ..tasks.targets import typed_targets
        from .jobs import Predictions
        from .local import limit_cached_kernels
        from .run import attribute as run

        cluster = _cluster(engine, num_workers, num_gpus_per_worker, ray_address)
        job_class, job_settings = _job_and_settings(job, arguments)
        limit_cached_kernels()
        if cluster is not None and loading.device == options.AUTO:
            loading = loading._replace(device="cpu")  # workers bring their model to a GPU of their own
        explainer = loading.load(model, batch_tokens=batch_tokens)
        if job_class is Predictions:  # a target of another job was refused by `_job_and_settings`
            job_settings |= typed_targets(explainer.task_model.task, target or [], contrast, all_labels=all_labels)
        shared = ("id_column", "keep_text", "input_format", "shard_rows", "max_errors", "engine", "method")
        settings = {name: arguments[name] for name in shared} | {"keep": keep or (), "cluster": cluster}
        try:
            finished = run(explainer, inputs, output, job_class(**job_settings), **settings, progress=True)
        except KeyboardInterrupt:
            sys.stderr.write(f"stopped; the same command resumes {output}\n")
            raise typer.Exit(130) from None  # the usual exit code after Ctrl+C
        write(_report(output, finished, job_settings))


def _cluster(engine: str, workers: int, gpus: float, address: str | None) -> "Cluster | None":
    """Return the resources of the Ray engine, None for the local one; refuse its options beside the local one."""
    if engine == "ray":
        from .ray_engine import Cluster

        return Cluster(workers, gpus, address)
    if workers != 1 or gpus or address:
        raise InputError("--num-workers, --num-gpus-per-worker and --ray-address are for --engine ray")
    return None


def _job_and_settings(job: str, arguments: Mapping[str, Any]) -> tuple[type["Job"], dict[str, Any]]:
    """Return the class of a job, and its settings among the arguments of the command; refuse those of other jobs.

    A target and a contrast are given as they are typed; the caller replaces them when it knows the model's labels.

    Args:
        job: The value of `--job`.
        arguments: The arguments of the command by their names; None for those that are not given.
    """
    from .jobs import JOBS, fields_of

    job_class = next(candidate for candidate in JOBS if candidate.__name__.lower() == job)
    job_arguments = {
        **arguments,
        "target": arguments["target"] or arguments["all_labels"] or None,  # True for all labels
        "contrast": (arguments["contrast"] or "").strip() or None,
    }
    names = dict.fromkeys(chain.from_iterable(map(fields_of, JOBS)))  # of all jobs, to refuse those of others
    settings = {name: job_arguments[name] for name in names if job_arguments.get(name) is not None}
    settings |= _columns(arguments["column"] or ())  # they are fields of jobs, but no arguments of the command
    _check_settings(job_class, settings)
    return job_class, settings


def _check_settings(job_class: type["Job"], settings: Mapping[str, Any]) -> None:
    """Refuse settings that are of other jobs, or of none."""
    from .jobs import JOBS, fields_of

    for name in settings:
        if name not in fields_of(job_class):
            jobs = [f"--job {job.__name__.lower()}" for job in JOBS if name in fields_of(job)]
            owners = " or ".join(jobs) or "no job"
            raise InputError(f"{_option_of(name)} is for {owners}, not for {job_class.__name__.lower()}")


def _report(output: str, finished: "Progress", job_settings: Mapping[str, Any]) -> str:
    """Return the line that says what a run has written, and which column of texts it chose if the caller named none."""
    from .folder import Folder

    line = f"{output}: {finished.rows:,} rows"
    manifest = Folder(output).read_manifest()  # a run has written one: None is for the type alone
    text_column = None if manifest is None else manifest.settings.get("text_column")
    if text_column is not None and "text_column" not in job_settings:
        line += f" of the column {text_column!r}"
    if finished.fresh != finished.rows:  # earlier runs have written the others
        line += f" ({finished.fresh:,} now)"
    if finished.errors:
        line += f", {finished.errors:,} of them without a result, see {Path(output) / 'errors'}"
    return f"{line}\n"


@options.loads_models
def summarize(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder that `normxlogit attribute` wrote.")],
    gold: Annotated[str | None, typer.Option(metavar="COLUMN", help="A kept column with the right labels.")] = None,
    gold_labels: GoldLabelsOption = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Words in each list.")] = 15,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help='Count answers by the values of a kept column, or by the "length" of texts; may be repeated.',
        ),
    ] = None,
    min_texts: Annotated[int, typer.Option(min=1, metavar="N", help="Leave out words that stand in fewer texts.")] = 5,
    verify: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Leave each word out of so many texts that have it, list those that the answers rest on, and find "
            "words that decide by themselves (--model).",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME|FOLDER", help="The run's model, for --verify; by default by its name.")
    ] = None,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Show which words get high scores over a whole corpus; of answers, the verdicts on them.

    Example: normxlogit summarize out/ --output summary.html
    """
    kind = output_format or format_for(output)
    if kind == "csv":
        raise InputError("a summary is written as text, HTML or JSON, not as CSV")
    from ..render.blocks import Block, Paragraph
    from .pages.page import summary_cards, summary_page
    from .summaries.summary import summarize as run

    explainer = None if verify is None else _explainer_of_run(folder, model, loading)
    with status(f"summing up {one_line(folder)}"):
        summary = run(
            folder,
            gold=gold,
            gold_labels=gold_labels,
            by=by or (),
            top=top,
            min_texts=min_texts,
            verify=verify,
            explainer=explainer,
        )
    blocks: list[Block] = []  # what a terminal shows
    for card in summary_cards(summary):
        if card.heading:
            blocks.append(Paragraph(card.heading, heading=True))
        blocks += card.blocks
    deliver_result(summary, kind, output, [blocks], summary_page(summary) if kind == "html" else None)


def _explainer_of_run(folder: str, model: str | None, loading: options.Loading) -> "Explainer":
    """Return the explainer of the model that is named, by default of the one that the run was made by."""
    from .folder import Folder

    manifest = Folder(folder).read_manifest()
    name = model or (manifest.model if manifest else None)  # a folder without a manifest is refused by `summarize`
    with quiet():  # the packaged model has this name in results, and is loaded by None
        return loading.load(None if name == options.DEFAULT_MODEL else name)


def _columns(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the settings of jobs that name columns, such as `text_column`, from pairs "ROLE=NAME"."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        role, equals, name = pair.partition("=")
        setting = f"{role}_column"
        if not equals or setting in settings:  # a name without its role, or a role that is given twice
            example = f"text={pair}" if not equals and pair.strip() else "text=review"
            raise InputError(f"--column {pair}: expected ROLE=NAME, such as {example}, and one column for each role")
        settings[setting] = name
    return settings


def _option_of(setting: str) -> str:
    """Return the option of the command line for a setting of a job, such as `--column text=...` for `text_column`."""
    role = setting.removesuffix("_column")
    names_column = role != setting
    return f"--column {role}=..." if names_column else f"--{setting.replace('_', '-')}"
