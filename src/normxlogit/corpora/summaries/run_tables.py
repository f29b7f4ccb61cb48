"""The shards of a corpus run as a table that DuckDB queries."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import DataError, reason_of
from ...long_runs.columns import CORPUS
from ...long_runs.tables import arrow_module
from ...results.storage.tables import optional_module
from ..folder import MANIFEST, REPAIR, Folder
from .units import SIGNALS


class RunTables:
    """The shards of a run, read by pyarrow with checksums verified, and queried by DuckDB.

    Attributes:
        folder: The folder of the shards.
        written: The shards that are written.
        common: The values that all rows share.
        kind: The kind of the results.
        kinds: The Arrow types of the columns, by their names in the files.
        unit: "words", "tokens", "patches" or "frames".
        of_answers: Whether the rows are answers with citations, and not texts.

    Raises:
        DataError: If there is no such run, a shard is damaged, or DuckDB is missing.
    """

    def __init__(self, folder: str | Path) -> None:
        self._duckdb = optional_module("duckdb", "summaries need DuckDB: pip install 'normxlogit[scale]'")
        self.folder = Folder(folder)
        manifest = self.folder.read_manifest()
        if manifest is None:
            raise DataError(f"{folder}: no corpus run there; make one with `normxlogit attribute`")
        self.manifest = manifest
        self.written = self.folder.written(manifest, refuse_broken=True)
        self._files = self.folder.shard_files(self.written)
        if not self._files:
            why = "the input of this run has no row" if manifest.complete else "no shard is written yet"
            if manifest.shards:
                why = f"{MANIFEST} counts {manifest.shards} shards, and none of them is there; {REPAIR}"
            raise DataError(f"{folder}: {why}")
        with_results = [index for index, shard in self.written.items() if shard.rows > shard.errors]
        (first,) = self.folder.shard_files([min(with_results or self.written)])
        self.common: Mapping[str, Any] = self.folder.common(first)
        self.kind = self.common.get("kind", "text")
        if self.kind == "sources":
            raise DataError(f"{folder}: sources of completions, which have no words to summarise; query the shards")
        self.of_answers = "sentence_verdicts" in CORPUS[self.kind]
        self._connection = self._duckdb.connect()
        self._connection.execute("SET preserve_insertion_order = false")
        with suppress(self._duckdb.InvalidInputException):  # in Jupyter without ipywidgets it is neither drawn nor set
            self._connection.execute("SET enable_progress_bar = false")
        schema = self._dataset().schema
        self.kinds = dict(zip(schema.names, schema.types, strict=True))
        self.unit = SIGNALS.get(self.kind, "words" if "words" in self.kinds else "tokens")
        self.register("shards", self.shards())

    def described(self) -> dict[str, Any]:
        """Return the fields that all summaries have."""
        ((model, method),) = self.ask("SELECT any_value(model), any_value(method) FROM shards")
        return {
            "folder": self.folder.location,
            "model": model or self.manifest.model,
            "method": method or "",
            "errors": sum(shard.errors for shard in self.written.values()),
            "complete": self.manifest.complete and len(self.written) >= self.manifest.shards,
        }

    def _dataset(self, schema: Any = None) -> Any:
        """Return the shards as a data set with the columns of the files, none from their paths.

        Args:
            schema: The columns to read and their types; by default all.
        """
        dataset = optional_module("pyarrow.dataset", "")
        options = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        form = dataset.ParquetFileFormat(default_fragment_scan_options=options)
        system = None if self.folder.local else self.folder.system
        try:
            return dataset.dataset(self._files, schema=schema, format=form, filesystem=system, partitioning=None)
        except (OSError, ValueError, arrow_module().ArrowException) as error:
            raise self._damage(error) from None

    def shards(self, kept_column: str | None = None) -> Any:
        """Return the shards with the run's own columns and at most one kept column."""
        arrow = arrow_module()
        kinds = {name: kind for name, kind in self.kinds.items() if name in (*CORPUS[self.kind], kept_column)}
        if kept_column is not None and arrow.types.is_floating(kinds[kept_column]):
            kinds[kept_column] = arrow.float64()  # DuckDB does not read half precision
        return self._dataset(arrow.schema(list(kinds.items())))

    def read_rows(self, rows: Sequence[int]) -> Any:
        """Return some rows in their order as an Arrow table, from which results can be read."""
        field = optional_module("pyarrow.dataset", "").field("row")
        try:
            return self._dataset().to_table(filter=field.isin(list(rows))).sort_by("row")
        except (OSError, ValueError, arrow_module().ArrowException) as error:
            raise self._damage(error) from None

    def ids_and_texts(self, rows: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """Return the ids of some rows, and their texts if the run kept them.

        Of rows that share an id each is called by its number too.
        """
        if not rows:
            return {}
        text = "text" if "text" in self.kinds else "NULL"
        query = f"SELECT row, id, {text} FROM shards WHERE row IN (SELECT unnest(?)) ORDER BY row"  # noqa: S608
        row_id_text = self.ask(query, list(rows))
        repeated = self.ask(
            "SELECT id FROM shards WHERE id IN (SELECT unnest(?)) GROUP BY id HAVING count(*) > 1",
            list({name for _, name, _ in row_id_text}),
        )
        repeated_ids = {name for (name,) in repeated}
        return {row: (f"{name} (row {row})" if name in repeated_ids else name, text) for row, name, text in row_id_text}

    def with_kept(self, name: str) -> str:
        """Register a kept column of the shards for queries, and return its name in them."""
        shards = self.shards(name)
        self.register("shards", shards)
        # DuckDB ignores case: it calls "Target" beside "target" something else.
        index = shards.schema.names.index(name)
        described: str = self.ask("DESCRIBE SELECT * FROM shards")[index][0]
        return '"' + described.replace('"', '""') + '"'

    def register(self, name: str, table: Any) -> None:
        """Register an Arrow table or data set under a name for queries.

        Raises:
            DataError: If DuckDB does not know the type of a column.
        """
        try:
            self._connection.register(name, table)
        except self._duckdb.Error as error:
            raise self._damage(error) from None

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            DataError: If it cannot be answered, such as from a damaged file; the message names that.
        """
        try:
            rows: list[tuple[Any, ...]] = self._connection.execute(query, list(values)).fetchall()
        except (self._duckdb.OutOfMemoryException, MemoryError):
            raise
        except (self._duckdb.Error, UnicodeError) as error:
            raise self._damage(error) from None
        return rows

    def _damage(self, error: Exception) -> DataError:
        """Return the error of the first damaged file; if no file is damaged, the error of the query."""
        try:
            for path in self._files:
                self.folder.check(path)
        except DataError as damaged:
            return damaged
        reason = reason_of(error)
        return DataError(f"{self.folder.location}: the results cannot be summarised: {reason}")

    def close(self) -> None:
        """Close the files."""
        self._connection.close()
