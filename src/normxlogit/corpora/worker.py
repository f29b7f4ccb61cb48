"""The worker of a run, which all engines share: it reads, explains and writes shards with one model."""

import json
from dataclasses import dataclass, replace
from typing import Any

from .._version import __version__
from ..long_runs.tables import arrow_module
from ..methods import Method
from ..model.task_model import TaskModel
from ..pipeline.options import Options
from ..results.storage.columns import METADATA, arrow_types
from ..results.storage.schema import FORMAT_VERSION
from .columns import CORPUS
from .folder import Folder
from .jobs.base import Job
from .jobs.steps import ShardRows, StepRun
from .rows.shards import Finished, InputColumns, Shard, WrittenShard


@dataclass(frozen=True)
class Settings:
    """The settings of a run."""

    job: Job  # what is explained in each row, with a name for each of its columns
    columns: InputColumns  # the columns of the input that are read
    method: Method
    media_method: Method | None  # the method for prompts with pictures or sounds; None for the same one
    keep_text: bool  # whether the texts are written, too
    shard_rows: int  # how many rows a shard has

    def options(self) -> Options:
        """Return the options for explaining rows."""
        options = Options(method=self.method, media_method=self.media_method, token_predictions=False, progress=False)
        return replace(options, **self.job.options())

    def described(self) -> dict[str, Any]:
        """Return the settings as plain values, by their public names, as a manifest has them."""
        media = self.media_method
        # Names with spaces are of what no argument of this name sets.
        return {
            **self.job.described(),
            "id_column": self.columns.id,
            "keep": list(self.columns.keep),
            "classes of columns": {column: list(names) for column, names in self.columns.class_names.items()},
            "keep_text": self.keep_text,
            "method": {"name": self.method.info.name, **self.method.settings},
            "method of pictures": None if media is None else {"name": media.info.name, **media.settings},
            "shard_rows": self.shard_rows,
            "version of normxlogit": __version__,
        }


class Worker:
    """Reads, explains and writes shards with one model; reading may be in another thread."""

    def __init__(self, model: TaskModel, settings: Settings) -> None:
        self.model = settings.job.model_of(model)
        self.settings = settings
        steps = settings.job.steps(self.model, settings.options())
        # The first step runs no model, and so may be in another thread, see `Job.steps`.
        self._tokenise, *self._explain_steps = map(StepRun, steps)

    def read(self, shard: Shard) -> ShardRows:
        """Read and tokenise the rows of a shard."""
        problems = {place: row.problem for place, row in enumerate(shard.rows) if row.problem is not None}
        cells: dict[int, Any] = {place: row.cells for place, row in enumerate(shard.rows) if row.problem is None}
        rows = ShardRows(shard, cells, problems)
        self._tokenise.run(rows)
        return rows

    def explain(self, rows: ShardRows) -> None:
        """Run the model and the method over rows that are read."""
        for step in self._explain_steps:
            step.run(rows)

    def write(self, folder: Folder, run_digest: str, rows: ShardRows) -> Finished:
        """Write the results and the errors of a shard.

        Args:
            folder: The folder of the run.
            run_digest: The digest of the run.
            rows: The rows of the shard, after all steps.
        """
        shard = rows.shard
        written = WrittenShard(
            shard=shard.index,
            first=shard.rows[0].number,
            rows=len(shard.rows),
            errors=len(rows.problems),
            tokens=sum(token_count for _, token_count in rows.values.values()),
            digest=shard.digest,
        )
        results = self._result_table(rows, {"shard": vars(written) | {"run": run_digest}})
        errors = [
            {"row": shard.rows[place].number, "id": shard.rows[place].id, "reason": rows.problems[place]}
            for place in sorted(rows.problems)
        ]
        arrow = arrow_module()
        types = arrow_types({"row": int, "id": str, "reason": str})
        folder.write_shard(written, results, arrow.Table.from_pylist(errors, arrow.schema(types.items())))
        return Finished(written, shard.fraction)

    def _result_table(self, rows: ShardRows, metadata: dict[str, Any]) -> Any:
        """Return the results of the rows of a shard, in their order, as an Arrow table.

        Args:
            rows: The rows.
            metadata: Plain values for the metadata of the table, beside those that all shards of a run have.
        """
        arrow = arrow_module()
        model = self.model
        job = self.settings.job
        kind = job.kind or model.task.result_kind
        types = arrow_types(CORPUS[kind], job.absent_columns(keep_text=self.settings.keep_text))
        places = sorted(rows.values)
        results = [result for result, _ in map(rows.values.__getitem__, places)]
        input_rows = [rows.shard.rows[place] for place in places]
        cells_of_rows = [
            job.cells(result, kind) | {"row": row.number, "id": row.id}
            for result, row in zip(results, input_rows, strict=True)
        ]
        # Cells of columns that the schema lacks are left out.
        table = arrow.Table.from_pylist(cells_of_rows, arrow.schema(types.items()))
        row_indices = arrow.array(places, arrow.int64())  # of rows with a result
        for name in self.settings.columns.keep:
            table = table.append_column(name, rows.shard.kept[name].take(row_indices))
        common = {
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "version": __version__,
            "class_names": {column: list(names) for column, names in self.settings.columns.class_names.items()},
            "signed": self.settings.method.signed_on(model.task),
            **job.shared(model, results),
            **metadata,
        }
        return table.replace_schema_metadata({METADATA: json.dumps(common)})
