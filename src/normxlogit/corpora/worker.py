"""The worker of a run, which all engines share: it reads, explains and writes shards with one model."""

import json
from dataclasses import dataclass, replace
from typing import Any

from .._version import __version__
from ..inputs.texts import positive_integer
from ..methods import Method
from ..model.task_model import TaskModel
from ..pipeline.options import Options
from ..tasks.targets import Choice
from .folder import Folder
from .jobs.base import ExplainedRows, Job, ReadRows, Together
from .rows.shards import MEDIUM, InputColumns, Shard, WrittenShard
from .tables import error_table, shard_table


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

    def options(self, targets: list[Choice] | None = None) -> Options:
        """Return the options for explaining a batch."""
        options = Options(
            targets=targets,
            method=self.method,
            media_method=self.media_method,
            token_predictions=False,
            progress=False,
        )
        return replace(options, **self.job.options())

    def described(self) -> dict[str, Any]:
        """Return the settings as plain values, by their public names, as a manifest has them."""
        media = self.media_method
        settings = {
            **self.job.described(),
            "id_column": self.columns.id,
            "keep": list(self.columns.keep),
            "keep_text": self.keep_text,
            "method": {"name": self.method.info.name, **self.method.settings},
            "method of pictures": None if media is None else {"name": media.info.name, **media.settings},
            "shard_rows": self.shard_rows,
            "version of normxlogit": __version__,
        }
        plain: dict[str, Any] = json.loads(json.dumps(settings))
        return plain


@dataclass(frozen=True)
class PreparedShard:
    """A shard that is read and tokenised.

    Attributes:
        rows: Which of its rows could be read.
        read: The rows as the model reads them.
        problems: Why the others could not be read, by row.
    """

    shard: Shard
    rows: list[int]
    read: ReadRows
    problems: dict[int, str]


@dataclass(frozen=True)
class ExplainedShard(PreparedShard):
    """An explained shard; its `problems` are also of rows that could be read and not explained."""

    explained: ExplainedRows


class Worker:
    """Reads, explains and writes shards with one model; reading may be in another thread.

    Raises:
        UnsupportedModelError: If the model is not one for the job.
        InputError: If a setting would fail in every row.
    """

    def __init__(self, model: TaskModel, settings: Settings) -> None:
        self.model, self.settings = settings.job.model_of(model), settings
        self._reading, self._explaining = Together(), Together()  # they count apart

    def prepare(self, shard: Shard) -> PreparedShard:
        """Read and tokenise a shard."""
        columns = self.settings.columns
        names = [*columns.texts, *([] if columns.target is None else ["target"]), "problem"]
        rows = shard.table.select(names).to_pylist()
        for prefix in columns.media:
            from ..media.rows import media_of  # pictures and sounds are of the wing `media`

            media = media_of(shard.table, prefix)
            rows = [cells | {prefix + MEDIUM: medium} for cells, medium in zip(rows, media, strict=True)]
        problems = {row: cells["problem"] for row, cells in enumerate(rows) if cells["problem"] is not None}
        readable = [row for row in range(len(rows)) if row not in problems]
        read = self.settings.job.read(self.model, [rows[row] for row in readable], self._reading)
        problems |= {readable[place]: reason for place, reason in read.problems.items()}
        return PreparedShard(shard, [row for row in readable if row not in problems], read, problems)

    def explain(self, prepared: PreparedShard) -> ExplainedShard:
        """Run the model and the method over a shard.

        Raises:
            NormXLogitError: If the model or the settings are at fault, not single rows.
        """
        options, rows = self.settings.options(prepared.read.targets), prepared.rows
        explained = self.settings.job.explain(self.model, prepared.read, options, self._explaining)
        problems = prepared.problems | {rows[place]: reason for place, reason in explained.problems.items()}
        return ExplainedShard(prepared.shard, rows, prepared.read, problems, explained)

    def write(self, folder: Folder, run: str, explained: ExplainedShard) -> WrittenShard:
        """Write a shard's results and errors.

        Args:
            folder: The folder of the run.
            run: The digest of the run.
            explained: The shard.

        Raises:
            DataError: If they cannot be written.
        """
        shard = explained.shard
        counts = (len(shard.table), len(explained.problems), explained.explained.tokens)
        written = WrittenShard(shard.index, shard.first, *counts, shard.digest)
        results = shard_table(self.model, self.settings, explained, {"shard": vars(written) | {"run": run}})
        folder.write_shard(written, results, error_table(explained))
        return written
