"""The worker of a run, which all engines share: it reads, explains and writes shards with one model."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._version import __version__
from ..inputs.texts import positive_integer
from ..long_runs.columns import CORPUS, corpus_row
from ..long_runs.tables import arrow_module
from ..methods import Method
from ..model.task_model import TaskModel
from ..pipeline.options import Options
from ..results.attribution import Attribution
from ..results.storage.columns import METADATA, arrow_types
from ..results.storage.schema import FORMAT_VERSION
from ..results.units.kinds import Merge
from ..results.units.words import merge_words
from ..tasks.targets import index_of
from .folder import Folder
from .jobs.base import Job, ShardRows, Together
from .jobs.predictions import Predictions
from .rows.shards import InputColumns, Shard, WrittenShard


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    Attributes:
        job: The job, with all its columns.
        columns: The columns of the input.
        method: The method.
        media_method: The method of prompts with pictures; None for the same.
        keep_text: Whether the texts are written, too.
        shard_rows: Rows of a shard.
    """

    job: Job
    columns: InputColumns
    method: Method
    media_method: Method | None
    keep_text: bool
    shard_rows: int

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        positive_integer(self.shard_rows, "shard_rows")
        self.options()

    def options(self) -> Options:
        """Return the options for explaining rows."""
        options = Options(method=self.method, media_method=self.media_method, token_predictions=False, progress=False)
        return replace(options, **self.job.options())

    def described(self) -> dict[str, Any]:
        """Return the settings as plain values, by their public names, as a manifest has them."""
        media = self.media_method
        return {
            **self.job.described(),
            "id_column": self.columns.id,
            "keep": list(self.columns.keep),
            "keep_text": self.keep_text,
            "method": {"name": self.method.info.name, **self.method.settings},
            "method of pictures": None if media is None else {"name": media.info.name, **media.settings},
            "shard_rows": self.shard_rows,
            "version of normxlogit": __version__,
        }


class Worker:
    """Reads, explains and writes shards with one model; reading may be in another thread.

    Raises:
        UnsupportedModelError: If the model is not one for the job.
        InputError: If a setting would fail in every row.
    """

    def __init__(self, model: TaskModel, settings: Settings) -> None:
        self.model, self.settings = settings.job.model_of(model), settings
        self._reading, self._explaining = Together(), Together()  # they count apart

    def read(self, shard: Shard) -> ShardRows:
        """Read and tokenise the rows of a shard."""
        problems = {place: row.problem for place, row in enumerate(shard.rows) if row.problem is not None}
        rows = ShardRows(shard, problems=problems)
        readable = {place: row.cells for place, row in enumerate(shard.rows) if place not in problems}
        self.settings.job.read(self.model, readable, rows, self._reading)
        return rows

    def explain(self, rows: ShardRows) -> None:
        """Run the model and the method over rows that are read.

        Raises:
            NormXLogitError: If the model or the settings are at fault, not single rows.
        """
        self.settings.job.explain(self.model, rows, self.settings.options(), self._explaining)

    def write(self, folder: Folder, run: str, rows: ShardRows) -> WrittenShard:
        """Write results and errors.

        Args:
            folder: The folder of the run.
            run: The digest of the run.
            rows: The rows.

        Raises:
            DataError: If they cannot be written.
        """
        shard = rows.shard
        count, first = len(shard.rows), shard.rows[0].number
        written = WrittenShard(shard.index, first, count, len(rows.problems), rows.tokens, shard.digest)
        results = _shard_table(self.model, self.settings, rows, {"shard": vars(written) | {"run": run}})
        folder.write_shard(written, results, _error_table(rows))
        return written


def _shard_table(model: TaskModel, settings: Settings, rows: ShardRows, metadata: dict[str, Any]) -> Any:
    """Return the results of the rows of a shard, in their order.

    Args:
        model: The model.
        settings: The settings of the run.
        rows: The rows.
        metadata: Further values that all rows share.
    """
    arrow, job = arrow_module(), settings.job
    kind = job.kind or model.task.result_kind
    types = arrow_types(CORPUS[kind], job.absent_columns(keep_text=settings.keep_text))
    merge = (job.merge or settings.method.word_merge) if isinstance(job, Predictions) and job.words else None
    places = sorted(rows.results)
    results = [rows.results[place] for place in places]
    cells = [corpus_row(result) | ({} if merge is None else _words(result.scored, merge)) for result in results]
    named = [rows.shard.rows[place] for place in places]
    cells = [{**cell, "row": row.number, "id": row.id} for cell, row in zip(cells, named, strict=True)]
    columns = {name: arrow.array([row.get(name) for row in cells], type_) for name, type_ in types.items()}
    indices = arrow.array(places, arrow.int64())
    columns |= {name: rows.shard.kept[name].take(indices) for name in settings.columns.keep}
    common = {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "version": __version__,
        "signed": settings.method.signed_on(model.task),
        "quantity": results[0].scored.quantity if results else "logit",
        **(_shared_by_predictions(model, settings, job, results) if isinstance(job, Predictions) else {}),
        **metadata,
    }
    schema = arrow.schema(
        [(name, types.get(name, column.type)) for name, column in columns.items()],
        metadata={METADATA: json.dumps(common)},
    )
    return arrow.table([*columns.values()], schema=schema)


def _shared_by_predictions(model: TaskModel, settings: Settings, job: Predictions, results: Any) -> dict[str, Any]:
    """Return the values that all texts, pictures or sounds of a run share."""
    contrast = None if job.contrast is None else index_of(model.task, job.contrast, model.output_count)
    return {
        "labels": list(model.task.outputs.labels),
        "target": {
            "kind": model.task.outputs.kind,
            "contrast": None if contrast is None else model.task.outputs.name_of(contrast),
            "contrast_id": contrast,
        },
        "quantity": settings.method.quantity_on(model.task, contrasted=contrast is not None),
        "layers": list(results[0].layers) if results and results[0].layers else None,
        "settings": settings.method.settings,
        "merge": settings.method.word_merge,
    }


def _words(a: Attribution, merge: Merge) -> dict[str, Any]:
    """Return the words of a text and their scores, merged from token scores."""
    scores = a.scores.reshape(len(a.targets), len(a.layers or ()) or 1, -1)  # (K, L, T)
    texts = [text for text in (a.text, a.text_pair) if text is not None]
    words = merge_words(scores, texts, a.units.spans or (), a.units.sequence, merge, split=a.units.words)
    flat = np.stack([word.score for word in words], -1).ravel() if words else np.zeros(0, np.float32)
    return {"words": [word.text for word in words], "word_scores": flat}


def _error_table(rows: ShardRows) -> Any:
    """Return the rows that have no result, with the reasons."""
    arrow = arrow_module()
    failed = [(*rows.shard.rows[place][:2], rows.problems[place]) for place in sorted(rows.problems)]
    schema = arrow.schema([("row", arrow.int64()), ("id", arrow.string()), ("reason", arrow.string())])
    return arrow.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in failed], schema)
