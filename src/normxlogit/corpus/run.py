"""A corpus run: its settings, the shards that are written already, and those that are left."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import DataError, InputError
from ..explainer import Explainer
from ..inputs.encoder import LongText
from ..methods import Method
from ..methods.defaults import completion_methods, default_methods, first_working, use_for
from ..model.identity import identity_of
from ..model.layers import Layers
from ..pipeline.arguments import checked_arguments
from ..pipeline.progress import progress_bar
from ..results.units.spans import PartKind, SourceKind
from ..results.units.words import Merge
from ..tasks.targets import Choice, TargetSpec
from .folder import Folder, Manifest
from .local import run_local
from .progress import Clock, Progress, Watcher
from .rows.reading import open_source
from .rows.shards import InputColumns, WrittenShard, choose_columns, left_shards
from .settings import SHARD_ROWS, SLOW_ROWS, Settings
from .workers import worker_for

if TYPE_CHECKING:
    from .ray_engine import Cluster


Engine = Literal["local", "ray"]

NOTE_EVERY = 5.0
"""Seconds between two notes in the manifest; shards are recognised without one too."""


@checked_arguments
def attribute(
    explainer: Explainer,
    inputs: Any,
    output: str | Path,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    id_column: str | None = None,
    target_column: str | None = None,
    keep: Sequence[str] = (),
    keep_text: bool = False,
    input_format: str | None = None,
    target: TargetSpec = None,
    contrast: Choice | None = None,
    layers: Layers = None,
    method: str | Method | None = None,
    long_text: LongText = "truncate",
    words: bool = False,
    merge: Merge | None = None,
    shard_rows: int | None = None,
    sources: SourceKind | None = None,
    parts: PartKind | None = None,
    completion_column: str | None = None,
    max_new_tokens: int | None = None,
    answer_column: str | None = None,
    documents_column: str | None = None,
    messages_column: str | Sequence[str] | None = None,
    turn: int | None = None,
    verify: int | Literal["auto"] | None = None,
    image_column: str | None = None,
    max_errors: int | None = None,
    engine: Engine = "local",
    cluster: "Cluster | None" = None,
    watch: Watcher | None = None,
    progress: bool | None = None,
) -> Progress:
    """Explain a corpus: any number of texts, pictures or sounds in, Parquet shards out.

    Models of pictures and sounds take the paths of files in a column, which start at the working directory, what such
    files hold, or what is in memory.

    With `sources` the texts are prompts, and what is explained is which sources of them a completion rests on, one
    from the input or one that the model generates. With `answer_column` the texts are questions, and it is which
    sentences of their documents each sentence of an answer rests on, as in `Explainer.cite`. With `messages_column`
    the rows are conversations, and it is which messages each sentence of their last answer rests on.

    A run that was stopped, however it was stopped, goes on where it was when it is started again with the same
    arguments; each row of the input ends up once, among the results or among the errors.

    Args:
        explainer: Explains the rows.
        inputs: Paths, URLs or patterns of Parquet, JSONL, CSV, Arrow or text files, "-" for standard input, a data
            set, a table of pandas, Polars, Arrow or DuckDB, or an iterable of mappings such as {"text": "..."}. Of
            pictures or sounds also their files: paths, patterns and folders.
        output: Folder or URL to write to: `shards/`, `errors/` and `manifest.json`.
        text_column: The column of the texts, "text" by default; or of the prompts, texts or lists of chat messages,
            "prompt" by default; or of the questions, "question" by default; or of the pictures or sounds, "path",
            "image", "audio" or "file" by default.
        pair_column: The column of second texts, for models of pairs.
        id_column: The column of ids; by default the paths of pictures and sounds, otherwise the row numbers. A row
            without an id is "row 7", by its number.
        target_column: A column with the label, token or index to explain in each row.
        keep: Columns to hand on to the results, such as gold labels.
        keep_text: Whether to write the texts too.
        input_format: The format of files whose names do not tell it.
        target: As in `Explainer.__call__`.
        contrast: As in `Explainer.__call__`.
        layers: As in `Explainer.__call__`.
        method: As in `Explainer.__call__`; of completions by default as in `Explainer.explain_completion`.
        long_text: As in `Explainer.__call__`; with "error" long texts are rows among the errors.
        words: Whether to write words with their scores beside the tokens.
        merge: How a word's score comes from its tokens'; by default as fits the method.
        shard_rows: Rows of a shard; 4096 by default, 64 of prompts, pictures and sounds.
        sources: How a prompt is divided into sources: "word", "sentence", "paragraph" or "message".
        parts: How a completion is divided into parts, each of which is explained: "token", "word", "sentence" or
            "paragraph"; by default it is explained as a whole.
        completion_column: The column of the completions, "completion" by default.
        max_new_tokens: Let the model generate the completions instead, each of at most this many tokens.
        answer_column: The column of answers that are cited.
        documents_column: The column of their documents, "documents" by default: texts, mappings of them by name, or
            lists of what retrievers return.
        messages_column: The column of conversations or traces of any format that `Explainer.cite` reads, as lists,
            mappings or JSON; or several columns that make a trace together, such as ["input", "output"].
        turn: Which of the assistant's texts in a conversation is the answer, counted from 0; None for the last.
        verify: Test the citations of answers and conversations as `Explainer.cite` does: leave out this many of the
            first sources one at a time, or with "auto" until the others can no longer come first; leave out all of
            them; and put their other values in the place of the answer's. By default nothing is tested.
        image_column: The column of a picture for each prompt, for models that read pictures beside words: what
            `text_column` takes for models of pictures. Prompts that are chat messages hold their pictures themselves.
        max_errors: Stop when more rows than this have no result.
        engine: "local", or "ray" for Ray Data.
        cluster: What the Ray engine runs on.
        watch: Called with the progress after each shard.
        progress: Whether to show that on standard error; by default on a terminal, after a second.

    Returns:
        What was done.

    Raises:
        DataError: If something cannot be read or written, the folder was made of something else, there are more errors
            than allowed, or no row has a result.
        InputError: If an argument is none of what it may be.
        TargetError: If the model has no such label or token, or it is also the contrast.
        MethodError: If the model has no such layer.
    """
    if engine not in ("local", "ray"):
        raise InputError(f"engine must be 'local' or 'ray', not {engine!r}")
    if isinstance(keep, str):
        raise InputError(f"keep= takes a list of columns, such as keep=[{keep!r}]")
    conversations = _message_columns(messages_column)
    model = explainer._model
    media = not model.task.reads_tokens
    source = open_source(inputs, input_format, files=media)
    if conversations:
        columns_of_others = (text_column, completion_column, answer_column, documents_column)
        if any(name is not None for name in columns_of_others) or max_new_tokens is not None:
            raise InputError("messages_column holds questions and answers: leave out other columns of them")
    else:
        completion_column, documents_column = _of_completions(
            sources is not None, completion_column, max_new_tokens, answer_column, documents_column
        )
    sources = "sentence" if (conversations or answer_column is not None) and sources is None else sources
    columns = InputColumns(
        text_column or "",
        pair_column,
        id_column,
        target_column,
        tuple(keep),
        completion_column,
        sources is not None,
        documents_column,
        media,
        image_column,
        conversations,
    )
    media_method = None
    if sources:
        chosen = completion_methods(method)
        method, media_method = chosen["method"], chosen["media_method"]
    elif method is None:
        method = _default_method(explainer, layers)
    settings = Settings(
        choose_columns(source, columns),
        target,
        contrast,
        method,
        layers,
        long_text,
        words,
        merge,
        keep_text,
        (SLOW_ROWS if media or sources else SHARD_ROWS) if shard_rows is None else shard_rows,
        sources,
        parts,
        max_new_tokens,
        media_method,
        turn,
        verify,
    )
    worker = worker_for(model, settings)
    identity = {"name": model.name, **identity_of(model)._asdict()}
    manifest = Manifest(source.fingerprint(), identity, settings.described())
    folder = Folder(output)
    folder.refuse_inside(inputs)
    folder.create()
    with folder.locked():
        finished = _resume(folder, manifest)
        clock = Clock(manifest.count("rows"), manifest.count("errors"))
        shards = left_shards(source, settings.columns, settings.shard_rows, dict(manifest.written), clock.skipped)
        if finished:
            # Names and ends of files tell little of rows in memory, of a stream, or of the middle of a file.
            if next(shards, None) is not None:
                raise DataError(f"{folder.place} was made of fewer rows than the input has now; give another --output")
            _check_results(manifest, folder)
            return clock.progress
        folder.write_manifest(manifest)
        if engine == "ray":
            from .ray_engine import Cluster, run_ray

            results = run_ray(explainer, settings, folder, manifest, source, cluster or Cluster())
        else:
            results = run_local(worker, folder, manifest.digest, shards)
        try:
            with (
                progress_bar(None, progress, "starting", times=False) as update,
                closing(_progress_of(results, manifest, folder, clock, max_errors)) as states,
            ):
                for state in states:
                    update(completed=state.fraction, description=str(state))
                    if watch is not None:
                        watch(state)
            manifest.complete = True
        finally:
            folder.write_manifest(manifest)
        _check_results(manifest, folder)
    return clock.progress


def _resume(folder: Folder, manifest: Manifest) -> bool:
    """Note the shards that earlier runs have written, and return whether these are all."""
    before = folder.read_manifest()
    if before is None:
        return False
    manifest.written = folder.written(before)
    if manifest.count("rows") > manifest.count("errors"):
        before.refuse_changes(manifest, folder.place)
        manifest.model = before.model  # of the device that it was begun on
    elif before.digest != manifest.digest or not before.identity.is_same(manifest.identity):  # no result to keep
        folder.remove(manifest.written)
        manifest.written = {}
        return False
    return before.complete and len(manifest.written) == len(before.written)


def _message_columns(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of conversations."""
    if names is None or isinstance(names, str):
        return () if names is None else (names,)
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"messages_column= is a column or a list of columns, not {names!r}")
    return tuple(dict.fromkeys(names))


def _of_completions(
    prompts: bool, completion: str | None, max_new_tokens: int | None, answer: str | None, documents: str | None
) -> tuple[str | None, str | None]:
    """Return the column of completions or answers, and that of the documents of answers."""
    if answer is None:
        if documents is not None:
            raise InputError("documents are for answers: give answer_column, too")
        return completion or ("completion" if prompts and max_new_tokens is None else None), None
    if completion is not None or max_new_tokens is not None:
        raise InputError("answer_column is for answers that are there: leave out completion_column, max_new_tokens")
    return answer, documents or "documents"


def _default_method(explainer: Explainer, layers: Layers) -> Method:
    """Return the first default method that works on the model, which a trial input shows if there are several."""
    model = explainer._model
    use = use_for(model.task)
    methods = default_methods(use)
    if len(methods) == 1:
        return methods[0]
    trial = model.task.example_input(model)

    def explain(method: Method) -> Method:
        explainer(trial, layers=layers, method=method, progress=False)
        return method

    try:
        return first_working(use, explain)[0]
    except InputError:  # the tokenizer knows nothing of it: the rows will show
        return methods[0]


def _check_results(manifest: Manifest, folder: Folder) -> None:
    """Refuse a run in which no row has a result: the settings are at fault, not the rows."""
    rows = manifest.count("rows")
    if rows and rows == manifest.count("errors"):
        row, reason = folder.first_error(manifest)
        raise DataError(f"none of {rows} rows has a result, see {folder.place}/errors; row {row}: {reason}")


def _progress_of(
    results: Iterator[tuple[WrittenShard, float]],
    manifest: Manifest,
    folder: Folder,
    clock: Clock,
    max_errors: int | None,
) -> Generator[Progress, None, None]:
    """Take the written shards one by one and note them in the manifest.

    Yields:
        The progress after each shard.
    """
    noted = time.monotonic()
    with closing(results):  # type: ignore[type-var]
        for shard, fraction in results:
            manifest.written[shard.shard] = shard
            progress = clock.add_shard(shard.rows, shard.errors, shard.tokens, fraction)
            yield progress
            if max_errors is not None and progress.errors > max_errors:
                raise DataError(
                    f"{progress.errors} rows have no result, more than --max-errors {max_errors}; see "
                    f"{folder.place}/errors"
                )
            if time.monotonic() - noted > NOTE_EVERY:
                folder.write_manifest(manifest)
                noted = time.monotonic()
