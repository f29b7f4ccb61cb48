"""The shards of a corpus run as a table that DuckDB queries."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError, optional_module, reason_of
from ...long_runs.tables import arrow_module
from ...results.storage.schema import plain
from ...text.same import common_spelling, word_key
from ..columns import CORPUS
from ..folder import MANIFEST, REPAIR, Folder, Manifest
from .units import SIGNALS

COLUMNS_OF_ALL = ("row", "id", "model", "method", "notes")
"""Columns that every summary asks for."""

COLUMNS_OF_PREDICTIONS = ("prediction", "prediction_id", "probability", "target", "units", "scores", "sequence_ids")
"""Columns that a summary of predictions asks for as well."""

COLUMNS_OF_ANSWERS = ("completion", "sentence_verdicts")
"""Columns that a summary of answers asks for as well."""


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The base of summaries of a run.

    Attributes:
        folder: Where the results are.
        rows: Rows with a result: texts, pictures, sounds or answers.
        errors: Rows without one.
        complete: Whether the run was finished, so that these are all rows.
    """

    folder: str
    model: str
    method: str
    rows: int
    errors: int
    complete: bool

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return plain(self)


LISTED_WORD = "coalesce(spellings.word, lower(trim({unit})))"
"""The word that lists have for a unit, in SQL, where its spelling is joined from `spellings`, see `make_spellings`.

`{unit}` is the column with the unit as it stands in texts.
"""


def _listed_word(key: str, spellings: Counter[str]) -> str:
    """Return how lists write a word: as its key if that has ASCII letters and digits alone, else as most texts do.

    Args:
        key: The key of the word, see `word_key`.
        spellings: How often texts have each of its spellings.
    """
    return key if key.isascii() and key.isalnum() else common_spelling(spellings)


def _why_empty(manifest: Manifest) -> str:
    """Return why a run has no shard."""
    if manifest.shards:
        return f"{MANIFEST} counts {manifest.shards} shards, and none of them is there; {REPAIR}"
    return "the input of this run has no row" if manifest.complete else "no shard is written yet"


class RunTables:
    """The shards of a run, read by pyarrow with checksums verified, and queried by DuckDB.

    Attributes:
        manifest: What the run was asked for, and how far it came.
        written: The shards that are there, by their numbers.
        common: What all rows of a shard with results share, such as their kind.
        kind: The kind of the results, see `CORPUS`.
        of_answers: Whether the results are answers with their sources.
        column_types: The Arrow types of the columns, by their names.
        unit: What has a score: "words", "tokens", "patches" or "frames".
        units_column: The column with the lists of these units.
        text_column: The column that rows of the same text have in common; pictures and sounds count row by row.
    """

    def __init__(self, folder: str | Path) -> None:
        self._duckdb = optional_module("duckdb", "summaries need DuckDB: pip install 'normxlogit[scale]'")
        self.folder = Folder(folder)
        manifest = self.folder.read_manifest()
        if manifest is None:
            raise DataError(f"{folder}: no corpus run there; make one with `normxlogit attribute`")
        self.manifest = manifest
        self.written = self.folder.written_whole(manifest)
        self._files = self.folder.shard_files(self.written)
        if not self._files:
            raise DataError(f"{folder}: {_why_empty(manifest)}")
        self.common = self._common()
        self.kind = self.common.get("kind", "text")
        if self.kind == "sources":
            raise DataError(f"{folder}: sources of completions, which have no words to summarise; query the shards")
        self.of_answers = "sentence_verdicts" in CORPUS[self.kind]
        self._connection = self._connected()
        with self._naming_damage():
            schema = self._dataset().schema
            self.column_types = dict(zip(schema.names, schema.types, strict=True))
            self._check_columns()
            self._register_shards()
        has_words = "words" in self.column_types
        self.unit = SIGNALS.get(self.kind, "words" if has_words else "tokens")
        self.units_column = "words" if self.unit == "words" else "units"
        # Not the texts themselves, which a run may not have kept.
        self.text_column = "words" if self.unit == "words" else "unit_ids"
        if self.kind in SIGNALS:
            self.text_column = "row"

    def _common(self) -> Mapping[str, Any]:
        """Return what all rows share, from the first shard with a result: a shard without results lacks some of it."""
        with_results = [index for index, shard in self.written.items() if shard.rows > shard.errors]
        (path,) = self.folder.shard_files([min(with_results or self.written)])
        return self.folder.common(path)

    def _connected(self) -> Any:
        """Return a connection to a database in memory, whose queries return rows in any order but that of ORDER BY."""
        connection = self._duckdb.connect()
        connection.execute("SET preserve_insertion_order = false")  # takes less memory
        with suppress(self._duckdb.InvalidInputException):  # in Jupyter without ipywidgets it is neither drawn nor set
            connection.execute("SET enable_progress_bar = false")
        return connection

    def _register_shards(self) -> None:
        """Make the view `shards`, without kept columns: queries may use their names, and DuckDB lacks some types."""
        own_types = {name: column for name, column in self.column_types.items() if name in CORPUS[self.kind]}
        self._connection.register("shards", self._dataset(arrow_module().schema(own_types)))

    def _check_columns(self) -> None:
        """Refuse a run whose shards all lack a column that its summary asks for."""
        columns_of_kind = COLUMNS_OF_ANSWERS if self.of_answers else COLUMNS_OF_PREDICTIONS
        for name in (*COLUMNS_OF_ALL, *columns_of_kind):
            if name not in self.column_types:
                raise DataError(f"{self._files[0]}: no column {name!r}, which a run of predictions or answers has")

    def described(self) -> dict[str, Any]:
        """Return the fields of `RunSummary`."""
        ((rows, model, method),) = self.ask("SELECT count(*), any_value(model), any_value(method) FROM shards")
        return {
            "folder": self.folder.location,
            "model": model or self.manifest.model,  # a run without any result has no model in a row
            "method": method or "",
            "rows": rows,
            "errors": sum(shard.errors for shard in self.written.values()),
            "complete": self.manifest.complete and len(self.written) >= self.manifest.shards,
        }

    def read_rows(self, rows: Sequence[int]) -> Any:
        """Return some rows in their order as an Arrow table, from which results can be read."""
        is_requested = optional_module("pyarrow.dataset", "").field("row").isin(list(rows))
        with self._naming_damage():
            return self._dataset().to_table(filter=is_requested).sort_by("row")

    def make_distinct_texts(self) -> None:
        """Make `distinct_texts`, the rows of `shards` without those that repeat the text and targets of an earlier one.

        A text that stands in twenty rows is evidence once.
        """
        self.ask(
            f"""
            CREATE TEMP TABLE first_rows AS SELECT min(row) AS row FROM shards GROUP BY hash({self.text_column}, target)
            """  # noqa: S608  # a column's name
        )
        self.ask("CREATE TEMP VIEW distinct_texts AS SELECT * FROM shards WHERE row IN (SELECT row FROM first_rows)")

    def make_spellings(self) -> None:
        """Make the table `spellings`: for each `spelling` of a word in texts the `word` as lists write it.

        Words that differ in Unicode's forms, typography or Markdown count as one, as everywhere (`text.same`). A word
        of ASCII letters and digits is not in the table: it is itself in small letters, see `LISTED_WORD`.
        """
        counts = self.ask(
            f"""
            WITH flat AS (SELECT unnest({self.units_column}) AS spelling FROM shards)
            SELECT spelling, count(*) FROM flat
            WHERE NOT regexp_matches(spelling, '^ *[A-Za-z0-9]+ *$') GROUP BY spelling
            """  # noqa: S608  # a column's name
        )
        by_key: dict[str, Counter[str]] = {}
        for spelling, count in counts:
            by_key.setdefault(word_key(spelling), Counter())[spelling] += count
        words = {key: _listed_word(key, spellings) for key, spellings in by_key.items()}
        columns = {
            "spelling": [spelling for spelling, _ in counts],
            "word": [words[word_key(spelling)] for spelling, _ in counts],
        }
        arrow = arrow_module()
        schema = arrow.schema({"spelling": arrow.string(), "word": arrow.string()})
        self._connection.register("listed_spellings", arrow.table(columns, schema=schema))
        self.ask("CREATE TEMP TABLE spellings AS SELECT * FROM listed_spellings")

    def notes_of(self, rows: Sequence[int]) -> dict[int, list[str]]:
        """Return the notes on the results of some rows, such as that the model does not know their words."""
        return dict(self.ask("SELECT row, notes FROM shards WHERE row IN (SELECT unnest(?::BIGINT[]))", list(rows)))

    def register_kept(self, name: str) -> None:
        """Make the view `kept`, with the number of each row and the `kept_value` that it has in a kept column."""
        field, arrow = optional_module("pyarrow.dataset", "").field, arrow_module()
        value = field(name)
        if arrow.types.is_floating(self.column_types[name]):
            value = value.cast(arrow.float64())  # DuckDB does not read half precision
        with self._naming_damage():
            values = self._dataset().to_table({"row": field("row"), "kept_value": value})
            self._connection.register("kept_column", values)
        self.ask("CREATE OR REPLACE TEMP VIEW kept AS FROM kept_column")  # instead of that of another column

    def ids_and_texts(self, rows: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """Return the id and the text of some rows, by the numbers of the rows.

        An id that several rows have stands with the number of the row. The text is None if the run kept no texts.
        """
        text = "text" if "text" in self.column_types else "NULL"
        rows_found = self.ask(
            f"""
            WITH listed AS (SELECT row, id, {text} AS text FROM shards WHERE row IN (SELECT unnest(?::BIGINT[]))),
            ids AS (SELECT id, count(*) AS n FROM shards WHERE id IN (SELECT id FROM listed) GROUP BY id)
            SELECT row, CASE WHEN n > 1 THEN id || ' (row ' || row || ')' ELSE id END, text
            FROM listed JOIN ids USING (id) ORDER BY row
            """,  # noqa: S608  # a column's name
            list(rows),
        )
        return {row: (name, text) for row, name, text in rows_found}

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, whose question marks stand for the values."""
        with self._naming_damage():
            return self._connection.execute(query, list(values)).fetchall()

    def close(self) -> None:
        """Close the files."""
        self._connection.close()

    def _dataset(self, schema: Any = None) -> Any:
        """Return the shards as a data set with the columns of the files, none from their paths."""
        dataset = optional_module("pyarrow.dataset", "")
        options = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        form = dataset.ParquetFileFormat(default_fragment_scan_options=options)
        system = None if self.folder.local else self.folder.system
        return dataset.dataset(self._files, schema=schema, format=form, filesystem=system, partitioning=None)

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        """Turn an error inside the block into a `DataError` that names the first damaged file, or else the folder."""
        try:
            yield
        except (self._duckdb.OutOfMemoryException, MemoryError):  # no file is at fault
            raise
        except (self._duckdb.Error, OSError, ValueError, arrow_module().ArrowException) as error:
            for path in self._files:
                self.folder.check(path)  # raises DataError for a damaged file
            reason = reason_of(error)
            raise DataError(f"{self.folder.location}: the results cannot be summarised: {reason}") from None
