"""The command that explains a corpus."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer

from ..cli import options
from ..errors import InputError
from .console import layers_of, quiet, write


def attribute(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Parquet, JSONL, CSV, Arrow or text files: paths, patterns, URLs; a folder of them or of a saved "
            'data set, "hf:NAME:SPLIT", or "-" for standard input. Of pictures or sounds also the files themselves.',
        ),
    ],
    output: Annotated[str, typer.Option(help="Folder or URL to write to.")],
    model: options.Model = None,
    gguf_file: options.GGUFFile = None,
    method: Annotated[
        str | None,
        typer.Option(
            callback=options.check_method,
            help="NAME or NAME:SETTING=VALUE,..., see `normxlogit methods`; by default normxlogit, and "
            "frozen-gradient with language models.",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(
            help='Column of the texts, "text" by default; of prompts "prompt"; of the paths of pictures or sounds '
            '"path", "image", "audio" or "file". Paths start at the working directory.'
        ),
    ] = None,
    pair_column: Annotated[str | None, typer.Option(help="Column of second texts, for models of text pairs.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of ids; by default row numbers, or the paths of pictures and sounds.")
    ] = None,
    target_column: Annotated[str | None, typer.Option(help="Column with what to explain in each row.")] = None,
    sources: Annotated[
        Literal["word", "sentence", "paragraph", "message"] | None,
        typer.Option(
            help="Explain completions: what a prompt is divided into, and which of it each completion rests on."
        ),
    ] = None,
    parts: Annotated[
        Literal["token", "word", "sentence", "paragraph"] | None,
        typer.Option(help="What a completion is divided into, each part explained; by default it is explained whole."),
    ] = None,
    completion_column: Annotated[
        str | None, typer.Option(help='Column of the completions; "completion" by default with --sources.')
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Let the model generate the completions, each of at most this many tokens."),
    ] = None,
    answer_column: Annotated[
        str | None,
        typer.Option(
            help="Column of answers to questions: cite the documents that each sentence rests on. The text column is "
            'then "question" by default.'
        ),
    ] = None,
    documents_column: Annotated[
        str | None, typer.Option(help='Column of the documents of answers; "documents" by default.')
    ] = None,
    messages_column: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of conversations or agents' traces: cite the messages that each sentence of the last answer "
            "rests on. Several, such as input and output, make a trace together.",
        ),
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(
            help="Which of the assistant's texts in a conversation is the answer, from 0; by default the last."
        ),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Test the citations of answers and conversations: leave out this many of the first sources one by "
            'one, then all, and swap values; "auto" goes on until the others can no longer come first.',
        ),
    ] = None,
    image_column: Annotated[
        str | None,
        typer.Option(help="Column of a picture for each prompt, with --sources and a model that reads pictures."),
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Column to copy into the results; may be repeated.")] = None,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Write the texts too.")] = False,
    target: options.Targets = None,
    all_labels: options.AllLabels = False,
    contrast: options.Contrast = None,
    layers: options.LayerNumbers = None,
    long_text: Annotated[
        options.LongText,
        typer.Option(help="For a text over the model's length: its beginning, all of it in windows, or an error row."),
    ] = "truncate",
    words: Annotated[
        bool | None,
        typer.Option("--words/--no-words", help="Write words with their scores too; by default where there are any."),
    ] = None,
    merge: options.MergeChoice = None,
    input_format: Annotated[
        Literal["parquet", "jsonl", "csv", "tsv", "arrow", "text"] | None,
        typer.Option(help="Format, where names do not tell it."),
    ] = None,
    shard_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of a shard; 4096 by default, 64 with --sources, pictures or sounds.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Most tokens in one forward pass.")] = 8192,
    device: options.Device = options.AUTO,
    dtype: options.DType = None,
    max_errors: Annotated[int | None, typer.Option(min=0, help="Stop when more rows have no result.")] = None,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="On this machine, or by Ray Data.")] = "local",
    num_workers: Annotated[int, typer.Option(min=1, help="Ray: workers, each with a model of its own.")] = 1,
    num_gpus_per_worker: Annotated[float, typer.Option(min=0, help="Ray: GPUs of each worker.")] = 0,
    ray_address: Annotated[str | None, typer.Option(help="Ray: the cluster; started here if there is none.")] = None,
) -> None:
    """Explain a corpus and write Parquet shards; a stopped run resumes where it was.

    Example: normxlogit attribute reviews.parquet --output out/
    """
    chosen = layers_of(layers)
    options.check_targets(target, all_labels)
    if engine == "local" and (num_workers != 1 or num_gpus_per_worker or ray_address):
        raise InputError("--num-workers, --num-gpus-per-worker and --ray-address are for --engine ray")
    with quiet(), _stoppable(output):
        from ..corpus.local import bound_kernels
        from ..corpus.run import attribute as run
        from ..tasks.targets import typed_targets

        bound_kernels()
        if engine == "ray" and device == options.AUTO:
            device = "cpu"  # workers bring their model to a GPU of their own
        explainer = options.load(model, device, dtype, gguf_file, batch_tokens=batch_tokens)
        if words is None:
            has_words = explainer._model.task.reads_tokens and getattr(explainer.tokenizer, "is_fast", False)
            words = bool(has_words) and sources is None and answer_column is None and not messages_column
        keywords: dict[str, Any] = {**typed_targets(explainer._model, target or [], contrast, all_labels=all_labels)}
        if engine == "ray":
            from ..corpus.ray_engine import Cluster

            keywords["cluster"] = Cluster(num_workers, num_gpus_per_worker, ray_address)
        finished = run(
            explainer,
            inputs,
            output,
            text_column=text_column,
            pair_column=pair_column,
            id_column=id_column,
            target_column=target_column,
            keep=keep or (),
            keep_text=keep_text,
            input_format=input_format,
            layers=chosen,
            method=method,
            long_text=long_text,
            words=words,
            merge=merge,
            shard_rows=shard_rows,
            sources=sources,
            parts=parts,
            completion_column=completion_column,
            max_new_tokens=max_new_tokens,
            answer_column=answer_column,
            documents_column=documents_column,
            messages_column=messages_column,
            turn=turn,
            verify=options.verify_count(verify),
            image_column=image_column,
            max_errors=max_errors,
            engine=engine,
            progress=True,
            **keywords,
        )
    wrong = f", {finished.errors:,} of them without a result, see {Path(output) / 'errors'}" if finished.errors else ""
    fresh = "" if finished.fresh == finished.rows else f" ({finished.fresh:,} now)"
    write(f"{output}: {finished.rows:,} rows{fresh}{wrong}\n")


@contextmanager
def _stoppable(output: str) -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, and print in one line how to resume."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped(number)

    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)} if main else {}
    try:
        yield
    except _Stopped as error:
        sys.stderr.write(f"stopped; the same command resumes {output}\n")
        raise typer.Exit(128 + error.number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Stopped(BaseException):
    """A signal asks to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
