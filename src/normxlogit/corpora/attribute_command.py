"""The command that explains a corpus."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..cli import options
from ..cli.console import layers_of, quiet, write
from ..errors import InputError
from ..inputs.table_files import Format
from ..results.units.kinds import PartKind, SourceKind

if TYPE_CHECKING:
    from .jobs import Job

PREDICTIONS = "Each row is a text, a picture or a sound (the default)"
COMPLETIONS = "Each row is a prompt with a completion"
ANSWERS = "Each row is a question with documents and an answer"
CONVERSATIONS = "Each row is a conversation"
RUN = "How it runs"


def _option(panel: str, description: str, **settings: Any) -> Any:
    """Return an option in a panel of `--help`."""
    return typer.Option(rich_help_panel=panel, help=description, **settings)


def attribute(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Parquet, JSONL, CSV, Arrow or text files: paths, patterns, URLs; a folder of them or of a saved "
            'data set, or "-" for standard input. Of pictures or sounds also the files themselves.',
        ),
    ],
    output: Annotated[str, typer.Option(help="Folder or URL to write to.")],
    model: options.Model = None,
    gguf_file: options.GGUFFile = None,
    trust_remote_code: options.TrustRemoteCode = False,
    method: options.MethodName = None,
    id_column: Annotated[str | None, typer.Option(help="Column of ids; by default row numbers, or paths.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Column to copy into the results; may be repeated.")] = None,
    keep_text: Annotated[bool, typer.Option(help="Write the texts too, which `summarize` shows and tests.")] = True,
    text_column: Annotated[
        str | None,
        _option(PREDICTIONS, 'Column of the texts, "text" by default; or of paths, from the working directory on.'),
    ] = None,
    pair_column: Annotated[str | None, _option(PREDICTIONS, "Column of second texts, for models of pairs.")] = None,
    target_column: Annotated[str | None, _option(PREDICTIONS, "Column with what to explain in each row.")] = None,
    target: options.Targets = None,
    all_labels: options.AllLabels = False,
    contrast: options.Contrast = None,
    layers: options.LayerNumbers = None,
    long_text: Annotated[
        options.LongText | None,
        _option(
            PREDICTIONS,
            "For a text over the model's length: its beginning (by default), all of it in windows, or an error row.",
        ),
    ] = None,
    words: Annotated[bool | None, _option(PREDICTIONS, "Write words with their scores, by default of texts.")] = None,
    merge: options.MergeChoice = None,
    prompt_column: Annotated[str | None, _option(COMPLETIONS, 'Column of the prompts, "prompt" by default.')] = None,
    completion_column: Annotated[
        str | None, _option(COMPLETIONS, 'Column of the completions, "completion" by default.')
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        _option(COMPLETIONS, "Let the model generate the completions, each of at most this many tokens.", min=1),
    ] = None,
    sources: Annotated[
        SourceKind | None, _option(COMPLETIONS, "What each completion rests on; sentences of its prompt by default.")
    ] = None,
    parts: Annotated[
        PartKind | None, _option(COMPLETIONS, "What a completion is divided into; by default it is explained whole.")
    ] = None,
    image_column: Annotated[str | None, _option(COMPLETIONS, "Column of a picture for each prompt.")] = None,
    audio_column: Annotated[str | None, _option(COMPLETIONS, "Column of a sound for each prompt.")] = None,
    question_column: Annotated[str | None, _option(ANSWERS, 'Column of the questions, "question" by default.')] = None,
    answer_column: Annotated[
        str | None,
        _option(ANSWERS, 'Column of the answers, "answer" by default: which documents does each sentence rest on?'),
    ] = None,
    documents_column: Annotated[
        str | None, _option(ANSWERS, 'Column of the documents, "documents" by default.')
    ] = None,
    messages_column: Annotated[
        list[str] | None,
        _option(
            CONVERSATIONS,
            "Column of the messages of conversations: which of them does each sentence of the last answer rest on? "
            "Several columns, such as messages and tools, are read together.",
        ),
    ] = None,
    turn: Annotated[
        int | None, _option(CONVERSATIONS, "Which of the assistant's texts is the answer, from 0; by default the last.")
    ] = None,
    verify: Annotated[
        str | None,
        _option(
            CONVERSATIONS,
            "Test the citations, also those of answers: leave out this many of the first sources one by one, then all, "
            'and edit words; "auto" goes on until the others can no longer come first.',
            metavar="N",
        ),
    ] = None,
    input_format: Annotated[
        Format | None, _option(RUN, "Format, where names do not tell it; of standard input text by default.")
    ] = None,
    shard_rows: Annotated[
        int | None, _option(RUN, "Rows of a shard; 4096 by default, 64 of all but predictions of texts.", min=1)
    ] = None,
    batch_tokens: Annotated[
        int | None, _option(RUN, "Most tokens in one forward pass; by default what fits.", min=1)
    ] = None,
    max_errors: Annotated[int | None, _option(RUN, "Stop when more rows have no result.", min=0)] = None,
    device: options.Device = options.AUTO,
    dtype: options.DType = None,
    engine: Annotated[Literal["local", "ray"], _option(RUN, "On this machine, or on a Ray cluster.")] = "local",
    num_workers: Annotated[int, _option(RUN, "Ray: workers, each with a model of its own.", min=1)] = 1,
    num_gpus_per_worker: Annotated[float, _option(RUN, "Ray: GPUs of each worker.", min=0)] = 0,
    ray_address: Annotated[str | None, _option(RUN, "Ray: the cluster; started here if there is none.")] = None,
) -> None:
    """Explain a corpus and write Parquet shards; a stopped run resumes where it was.

    Example: normxlogit attribute reviews.parquet --output out/
    """
    arguments = locals() | {
        "target": target or all_labels or None,
        "contrast": contrast if contrast and contrast.strip() else None,
        "layers": layers_of(layers),
        "messages_column": messages_column or None,
        "verify": options.verified_units(verify),
    }
    options.check_targets(target, all_labels)
    if engine == "local" and (num_workers != 1 or num_gpus_per_worker or ray_address):
        raise InputError("--num-workers, --num-gpus-per-worker and --ray-address are for --engine ray")
    with quiet():
        from ..tasks.targets import typed_targets
        from .folder import Folder
        from .jobs import JOBS, Predictions, fields_of
        from .local import limit_cached_kernels
        from .run import attribute as run

        names = dict.fromkeys(name for job in JOBS for name in fields_of(job))
        job_settings = {name: arguments[name] for name in names if arguments[name] is not None}
        kind = _job_with(job_settings)
        limit_cached_kernels()
        if engine == "ray" and device == options.AUTO:
            device = "cpu"  # workers bring their model to a GPU of their own
        explainer = options.load(model, device, dtype, gguf_file, trust_remote_code, batch_tokens=batch_tokens)
        if kind is Predictions:
            job_settings |= typed_targets(explainer.task_model.task, target or [], contrast, all_labels=all_labels)
            job_settings.setdefault("words", explainer.task_model.task.reads != "signal")
        cluster = None
        if engine == "ray":
            from .ray_engine import Cluster

            cluster = Cluster(num_workers, num_gpus_per_worker, ray_address)
        shared = ("id_column", "keep_text", "input_format", "shard_rows", "max_errors", "engine", "method")
        settings = {name: arguments[name] for name in shared} | {"keep": keep or (), "cluster": cluster}
        try:
            finished = run(explainer, inputs, output, kind(**job_settings), **settings, progress=True)
        except KeyboardInterrupt:
            sys.stderr.write(f"stopped; the same command resumes {output}\n")
            raise typer.Exit(130) from None
        manifest = Folder(output).read_manifest()
        column = None if manifest is None else manifest.settings.get("text_column")
    failures = (
        f", {finished.errors:,} of them without a result, see {Path(output) / 'errors'}" if finished.errors else ""
    )
    fresh = "" if finished.fresh == finished.rows else f" ({finished.fresh:,} now)"
    of_column = "" if column is None or text_column is not None else f" of the column {column!r}"
    write(f"{output}: {finished.rows:,} rows{of_column}{fresh}{failures}\n")


def _job_with(given: Iterable[str]) -> "type[Job]":
    """Return the only job that has all given settings; predictions if none are given.

    Raises:
        InputError: If no job has them all, or several do.
    """
    from .jobs import JOBS, Predictions, fields_of

    fitting_jobs = [job for job in JOBS if set(given) <= set(fields_of(job))]
    if len(fitting_jobs) == len(JOBS):  # nothing is given that only some of them have
        return Predictions
    if len(fitting_jobs) == 1:
        return fitting_jobs[0]
    jobs_by_option = {
        f"--{name.replace('_', '-')}": " or ".join(job.__name__.lower() for job in JOBS if name in fields_of(job))
        for name in given
    }
    belongs = "; ".join(f"{option} is for {names}" for option, names in jobs_by_option.items())
    # Several jobs fit where only options that they share are given: the column of one of them decides.
    advice = (
        "; give their column, too, such as --answer-column answer" if fitting_jobs else ", and a run does one of these"
    )
    raise InputError(f"{belongs}{advice}")
