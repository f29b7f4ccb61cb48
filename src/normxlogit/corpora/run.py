"""`attribute`, which runs or resumes a corpus run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from ..errors import DataError, InputError, check_choice
from ..explainer import Explainer
from ..inputs.texts import positive_integer
from ..long_runs.model_identity import identity_of
from ..long_runs.tables import RowSource
from ..methods import Method
from ..model.task_model import TaskModel
from ..pipeline.arguments import checked_arguments
from ..pipeline.progress import progress_bar
from ..results.storage.schema import check
from .columns import CORPUS
from .folder import Folder, Manifest
from .jobs import JOBS, Job, Predictions, fields_of
from .local import run_local
from .rows.reading import open_source
from .rows.shards import InputColumns, Shard, WrittenShard, WrittenShards, remaining_shards
from .rows.text_columns import columns_of_text
from .worker import Settings, Worker

if TYPE_CHECKING:
    from .ray_engine import Cluster


@dataclass
class Progress:
    """How far a run is; the counts grow while it goes on."""

    rows: int = 0  # rows that are written, those of earlier runs included
    errors: int = 0  # how many of them have no result
    fresh: int = 0  # rows that this run has written
    tokens: int = 0  # tokens that this run has explained
    seconds: float = 0.0  # from the start of this run to its last written shard
    fraction: float = 0.0  # share of the input that is done, 0 if that is not known
    started: float = 0.0  # share that earlier runs had done
    _start: float = field(default_factory=monotonic, repr=False)  # when this run began, on the monotonic clock

    @classmethod
    def after(cls, earlier: Iterable[WrittenShard]) -> "Progress":
        """Return the progress of a run that goes on after the shards of earlier runs."""
        shards = list(earlier)
        return cls(rows=sum(shard.rows for shard in shards), errors=sum(shard.errors for shard in shards))

    @property
    def texts_per_second(self) -> float:
        """Return the rows per second of this run."""
        return self.fresh / max(self.seconds, 1e-9)

    def skip(self, fraction: float) -> None:
        """Count the share of the input that earlier runs explained; the time to read it does not count."""
        if not self.fresh:  # a shard that was removed is written before later ones are skipped: the clock runs on
            self.started = self.fraction = fraction
            self._start = monotonic()

    def add(self, shard: WrittenShard, fraction: float) -> None:
        """Count a written shard, with the share of the input read so far; shards may finish out of order."""
        self.rows += shard.rows
        self.errors += shard.errors
        self.fresh += shard.rows
        self.tokens += shard.tokens
        self.seconds = monotonic() - self._start
        self.fraction = max(fraction, self.fraction)

    def __str__(self) -> str:
        """Return one line: rows, speed, the time that is left, and errors."""
        rows = f"{self.rows:,} texts"
        if self.fraction:
            rows += f" ({self.fraction:.0%})"
        texts_per_second = self.texts_per_second
        speed = f"{texts_per_second:,.0f}" if texts_per_second >= 10 else f"{texts_per_second:.2g}"
        tokens_per_second = self.tokens / max(self.seconds, 1e-9)
        line = f"{rows}, {speed} texts/s, {tokens_per_second:,.0f} tokens/s"
        share_of_run = self.fraction - self.started
        if share_of_run > 0:
            seconds_left = self.seconds * (1 - self.fraction) / share_of_run
            line += f", {timedelta(seconds=round(seconds_left))} left"
        return f"{line}, {self.errors:,} errors" if self.errors else line


def _advice_by_setting() -> dict[str, str]:
    """Return what an error advises who gives `attribute` a setting of a job, by the name of the setting."""
    jobs_with_setting: dict[str, list[str]] = {}
    for job in JOBS:
        for name in fields_of(job):
            jobs_with_setting.setdefault(name, []).append(f"{job.__name__}({name}=...)")
    return {
        name: f"the job has it, the fourth argument: {' or '.join(jobs)}" for name, jobs in jobs_with_setting.items()
    }


@checked_arguments(_advice_by_setting())
def attribute(
    explainer: Explainer,
    inputs: Any,
    output: str | Path,
    job: Job | None = None,
    *,
    method: str | Method | None = None,
    id_column: str | None = None,
    keep: Sequence[str] = (),
    keep_text: bool = True,
    input_format: str | None = None,
    shard_rows: int | None = None,
    max_errors: int | None = None,
    engine: Literal["local", "ray"] = "local",
    cluster: "Cluster | None" = None,
    watch: Callable[[Progress], None] | None = None,
    progress: bool | None = None,
) -> Progress:
    """Explain a corpus: any number of texts, pictures, sounds, answers or conversations in, Parquet shards out.

    A run that was stopped, however it was stopped, goes on where it was when it is started again with the same
    arguments; each row of the input ends up once, among the results or among the errors.

    Args:
        explainer: Explains the rows.
        inputs: Paths, URLs or patterns of Parquet, JSONL, CSV, Arrow or text files, "-" for standard input, a data
            set, a table of pandas, Polars, Arrow or DuckDB, or an iterable of mappings such as {"text": "..."}. Of
            pictures or sounds also their files: paths, patterns and folders.
        output: Folder or URL to write to: `shards/`, `errors/` and `manifest.json`.
        job: What is explained in each row, and in which columns it is: `Predictions`, the default, `Completions`,
            `Answers` or `Conversations`.
        method: As in `Explainer.__call__`; of completions, answers and conversations by default as in
            `Explainer.explain_completion`.
        id_column: The column of ids; by default the paths of pictures and sounds, otherwise the row numbers. A row
            without an id is "row 7", by its number.
        keep: Columns to hand on to the results, such as gold labels.
        keep_text: Whether to write the texts too, for examples and tests in summaries.
        input_format: The format of files whose names do not tell it.
        shard_rows: Rows of a shard; 4096 by default, 64 of pictures, sounds, and all that is not a prediction.
        max_errors: Stop when more rows than this have no result.
        engine: "local", or "ray" for a Ray cluster.
        cluster: The resources of the Ray engine.
        watch: Called with the progress after each shard.
        progress: Whether to show that on standard error; by default after a second, in a log after ten.

    Returns:
        What was done.

    Raises:
        DataError: If something cannot be read or written, the folder was made of something else, there are more errors
            than allowed, or no row has a result.
        InputError: If an argument has an invalid value.
        TargetError: If the model has no such label or token, or it is also the contrast.
        MethodError: If the model has no such layer.
    """
    check_choice("engine", engine, ("local", "ray"), optional=False)
    job = _checked_job(job)
    model = explainer.task_model
    reads_media = model.task.result_kind != "text"
    source = open_source(inputs, input_format, reads_media=reads_media)
    job, columns = _with_columns(source, job, model, id_column, keep)
    text_method, media_method = job.methods(explainer, method)
    if shard_rows is None:
        shard_rows = Job.shard_rows if reads_media else job.shard_rows
    settings = Settings(job, columns, text_method, media_method, keep_text, positive_integer(shard_rows, "shard_rows"))
    worker = Worker(model, settings)  # of Ray, too: it refuses what the model cannot do, before anything is written
    manifest = Manifest(
        input=tuple(source.parts),
        model=model.name,
        identity=identity_of(model),
        settings=check(Any)(settings.described()),  # in the types in which an earlier manifest is read
    )
    folder = Folder(output)
    folder.refuse_inside(inputs)
    folder.create()
    with folder.locked():
        manifest, written = _resumed(folder, manifest)
        totals = Progress.after(written.values())
        already_written = dict(written)  # `written` grows below, while the remaining shards are read
        shards = remaining_shards(source, columns, shard_rows, already_written, totals.skip)
        if manifest.complete:
            _check_nothing_left(shards, folder)
            return totals
        folder.write_manifest(manifest)
        if engine == "ray":
            from .ray_engine import Cluster, run_ray

            results = run_ray(explainer, settings, folder, manifest.digest, shards, cluster or Cluster())
        else:
            results = run_local(worker, folder, manifest.digest, shards)
        # `totals` says the times itself; closing the results ends the threads or actors, also after an error.
        reading = f"reading {', '.join(map(repr, columns.names))}"
        with progress_bar(None, progress, reading, times=False) as update, closing(results):  # type: ignore[type-var]
            for shard, fraction in results:
                written[shard.shard] = shard
                totals.add(shard, fraction)
                update(completed=totals.fraction, description=str(totals))
                if watch is not None:
                    watch(totals)
                _check_errors(totals, max_errors, folder)
        folder.write_manifest(replace(manifest, shards=len(written), complete=True))
    _check_any_result(totals, folder, written)
    return totals


def _checked_job(job: Any) -> Job:
    """Return the job that a caller gave, predictions by default."""
    if job is None:
        return Predictions()
    if not isinstance(job, Job):
        raise InputError(f"job= is one of {', '.join(kind.__name__ for kind in JOBS)}, not {job!r}")
    return job


def _with_columns(
    source: RowSource, job: Job, model: TaskModel, id_column: str | None, keep: Sequence[str]
) -> tuple[Job, InputColumns]:
    """Return a job with the names of its columns, and all columns that are read."""
    reads_media = model.task.result_kind != "text"
    names = source.names()
    # Rows are read to find the column of texts only where no name tells it.
    job = job.with_columns(names, lambda: columns_of_text(source, names, id_column), reads_media=reads_media)
    kept_columns = (keep,) if isinstance(keep, str) else tuple(keep)
    columns = replace(job.columns(reads_media=reads_media), id=id_column, keep=kept_columns)
    result_kind = job.kind or model.task.result_kind
    columns.check(names, CORPUS[result_kind])
    class_names = {name: labels for name, labels in source.class_names().items() if name in columns.names}
    return job, replace(columns, class_names=class_names)


def _check_nothing_left(shards: Iterator[Shard], folder: Folder) -> None:
    """Refuse a complete folder if the input has more rows, by which it shows that it is another one.

    Names and ends of files tell little of rows in memory, of a stream, or of the middle of a file.
    """
    if next(shards, None) is not None:
        raise DataError(f"{folder.location} was made of fewer rows than the input has; give another --output")


def _check_any_result(totals: Progress, folder: Folder, written: WrittenShards) -> None:
    """Refuse a run without any result, of which the settings are at fault, not the rows."""
    if totals.rows and totals.rows == totals.errors:
        row, _, reason = next(folder.failures(written))
        raise DataError(f"none of {totals.rows} rows has a result, see {folder.location}/errors; row {row}: {reason}")


def _check_errors(totals: Progress, max_errors: int | None, folder: Folder) -> None:
    """Refuse more errors than are allowed."""
    if max_errors is not None and totals.errors > max_errors:
        many = f"{totals.errors} rows have no result, more than --max-errors {max_errors}"
        raise DataError(f"{many}; see {folder.location}/errors")


def _resumed(folder: Folder, manifest: Manifest) -> tuple[Manifest, WrittenShards]:
    """Return the manifest that a run goes on with, and the shards that earlier runs have written."""
    earlier = folder.read_manifest()
    if earlier is None:
        return manifest, {}
    written = folder.written(earlier)
    has_no_result = all(shard.rows == shard.errors for shard in written.values())
    if has_no_result:  # then nothing is lost where the run begins anew, also with other arguments
        folder.remove(written)
        return manifest, {}
    earlier.refuse_changes(manifest, folder.location)
    complete = earlier.complete and len(written) >= earlier.shards  # a shard may have been removed since
    # The earlier manifest stays: its model's identity is that on the device on which the run was begun.
    return replace(earlier, complete=complete), written
