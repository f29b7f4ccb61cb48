"""The worker of a run, which all engines share: it reads, explains and writes shards with one model."""

from dataclasses import dataclass, replace
from typing import Any

from .._version import __version__
from ..inputs.texts import positive_integer
from ..methods import Method
from ..model.task_model import TaskModel
from ..pipeline.options import Options
from .folder import Folder
from .jobs.base import Job, ShardRows, Together
from .rows.shards import InputColumns, Shard, WrittenShard
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
        results = shard_table(self.model, self.settings, rows, {"shard": vars(written) | {"run": run}})
        folder.write_shard(written, results, error_table(rows))
        return written
