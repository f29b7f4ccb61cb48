"""The base class of results: fields, equality, JSON and Parquet files, tables and pages."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from ..errors import DataError, InputError
from ..extending import import_registered, references
from .storage.files import write_json, write_text, written
from .storage.schema import FORMAT_VERSION, Fields, State, abbreviated, check, checked_version, freeze, plain, same
from .storage.tables import Columns, Row, text_row, to_csv, to_pandas, unit_columns
from .units.characters import one_line

if TYPE_CHECKING:
    from pandas import DataFrame
    from typing_extensions import Self

    from .attribution import Attribution


class Exports(ABC):
    """The exports of a result or a collection: files, tables and drawings."""

    @abstractmethod
    def to_dict(self) -> Fields:
        """Return everything as plain Python values, ready for `json.dumps`."""

    @abstractmethod
    def _results(self) -> "Sequence[Record]":
        """Return the results; of a result itself that one alone."""

    @abstractmethod
    def _columns(self) -> Columns:
        """Return the table with a row for each unit, target and layer."""

    @abstractmethod
    def _text_columns(self) -> Columns:
        """Return the table with a row for each text."""

    def export(self, name: str, **options: Any) -> Any:
        """Return what an extension makes of the result or the collection.

        Args:
            name: Which export, such as "latex".
            **options: Arguments of it.

        Raises:
            DataError: If no extension that is installed has it.
        """
        if name not in references("exports"):
            raise DataError(f"no extension exports {name!r}; there are {', '.join(references('exports'))}")
        return import_registered("exports", name)(self, **options)

    def save(self, path: str | Path) -> None:
        """Write a file: `.json` and `.parquet` can be loaded again, `.csv` is the table of scores.

        Raises:
            DataError: If the name ends in something else, the file cannot be written, or pyarrow is missing.
        """
        suffix = Path(path).suffix.lower()
        if suffix == ".csv":
            write_text(self.to_csv(), path)
        elif suffix == ".parquet":
            from .storage.columns import write_parquet

            write_parquet(self._results(), path, single=isinstance(self, Record))
        elif suffix == ".json":
            write_json(self.to_dict(), path)
        else:
            drawings = "to_html writes pages, plot().savefig figures"
            raise DataError(f"cannot write {path}: the name must end in .json, .parquet or .csv; {drawings}")

    def to_pandas(self, level: Literal["token", "text"] = "token") -> "DataFrame":
        """Return the scores as a pandas table.

        In the table of a collection, `text_index` says which text a row is of. Where there are results of several
        methods, those of one text have one index, and a column says which method a row is of.

        Args:
            level: "token", a row for each unit, target and layer, of words after `group("word")`; or "text", a row for
                each text: the text, the prediction and its probability, the three words with the highest and with the
                lowest scores, whether the text was truncated, and the notes.

        Raises:
            DataError: If pandas is missing, or a row for each text is asked for and a result has several targets or
                layers; choose first.
            InputError: If there is no such level.
        """
        if level not in ("token", "text"):
            raise InputError(f'level must be "token" or "text", not {level!r}; words are rows of group("word")')
        if level == "text":
            return to_pandas(self._text_columns())
        return to_pandas(self._columns())

    def to_csv(self) -> str:
        """Return the table of `to_pandas` as CSV, without control characters."""
        return to_csv(self._columns())

    def to_shap(self) -> Any:
        """Return the scores as a `shap.Explanation`, on which SHAP's plots work; of several results a row for each.

        The base value is the `bias`, with which the scores add up to what is explained. It is 0 where there is no
        bias: the scores of such a method do not add up to the model's output, and neither do SHAP's plots.

        Raises:
            DataError: If shap is missing, there is no result, one is not of one text, or there is a layer axis; choose
                with `layer(...)`.
        """
        return self.export("shap")

    def to_latex(self) -> str:
        """Return a table for papers as LaTeX, with the rules of its package booktabs.

        Of one result it has a row for each unit; of several methods on one text a column for each method; of several
        texts a row for each, with its prediction and its strongest words.

        Raises:
            DataError: If pandas is missing, or a result has several targets or layers; choose first.
        """
        return str(self.export("latex"))

    def to_dataset(self) -> Any:
        """Return a `datasets.Dataset` of one row a result, with the columns of the Parquet file.

        Raises:
            DataError: If datasets or pyarrow is missing.
        """
        from .storage.columns import to_dataset

        return to_dataset(self._results())

    @overload
    def to_html(self, path: None = None, *, title: str | None = None) -> str: ...

    @overload
    def to_html(self, path: str | Path, *, title: str | None = None) -> None: ...

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str | None:
        """Return a self-contained HTML page, or write it to `path` if given.

        Args:
            path: Where to write it.
            title: Heading of the page.

        Raises:
            DataError: If the file cannot be written.
        """
        return written(self.export("html", title=title), path)

    def _repr_html_(self) -> str:
        return str(self.export("notebook"))

    def __str__(self) -> str:
        return str(self.export("terminal"))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Record(Exports):
    """The base of a result: a frozen dataclass whose type hints are the schema of its files.

    Attributes:
        kind: Its name in files.
        described: What an error calls it.
        columns: Columns of its files beside those of the attribution that it holds, with their types.
        format_version: Version of the files' format.
    """

    kind: ClassVar[str]
    described: ClassVar[str]
    columns: ClassVar[Mapping[str, Any]] = {}

    format_version: int = FORMAT_VERSION

    @property
    def error(self) -> str | None:
        """Why the input was not explained; None of an explained one."""
        return None

    @property
    @abstractmethod
    def scored(self) -> "Attribution":
        """The attribution that the result is, or holds."""

    def short_text(self) -> str:
        """Return the summary that `repr` shows behind the name of the class; by default the attribution's."""
        return self.scored.short_text()

    def heading(self) -> str:
        """Return the heading of the result where several are drawn; by default the attribution's."""
        return self.scored.heading()

    def text_row(self) -> Row:
        """Return its row in a table of texts, a value for each column; by default the attribution's."""
        return text_row(self.scored)

    def column_values(self) -> Fields:
        """Return the values of its `columns`, by their names; in files they go before the attribution's."""
        return {}

    def validate(self) -> None:
        """Check that the fields fit together, which their types do not say; by default those of the attribution.

        It is called with what a file held. A result that holds an attribution calls this one first.

        Raises:
            ValueError: If they do not, such as scores for too few tokens; the message begins with the field.
        """
        self.scored.validate()

    def __post_init__(self) -> None:
        """Freeze the arrays, and keep settings and diagnostics as files hold them, so that what is loaded is equal.

        A list becomes a tuple, and a number of numpy one of Python.
        """
        freeze(self)
        for name in ("settings", "diagnostics"):
            if name in vars(self):
                object.__setattr__(self, name, check(Any)(plain(getattr(self, name))))

    def __eq__(self, other: object) -> bool:
        """Return whether every field is equal; NaN equals NaN."""
        if type(other) is not type(self):
            return NotImplemented
        return all(same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]  # an array inside: compare, do not hash

    def to_dict(self) -> Fields:
        """Return everything as plain Python values, ready for `json.dumps`; `from_dict` reads it back.

        Numbers that are not finite, which JSON lacks, become the strings "NaN", "Infinity" and "-Infinity".
        """
        return {"kind": self.kind, **plain(self)}

    @classmethod
    def from_dict(cls, state: State) -> "Self":
        """Rebuild a result from `to_dict`'s output.

        Raises:
            DataError: If the format is another version's, a field is missing or of another type, or the fields do not
                fit together.
        """
        state = checked_version(state)
        if state.get("kind") != cls.kind:
            raise DataError(f"not {cls.described}: expected one of {cls.kind}, got {abbreviated(state.get('kind'))}")
        try:
            result: Self = check(cls)(state)
            result.validate()
        except ValueError as error:
            raise DataError(f"not {cls.described}: {error}") from None
        return result

    def __repr__(self) -> str:
        """Return one line without control characters, whatever the file held that was loaded."""
        return one_line(f"{type(self).__name__}({self.short_text()})")

    def _columns(self) -> Columns:
        return unit_columns(self.scored)

    def _text_columns(self) -> Columns:
        return {name: [value] for name, value in self.text_row().items()}

    def _results(self) -> "Sequence[Record]":
        return (self,)


def for_kind_of(result: Any, field: str) -> Any:
    """Return what extensions have for the kind of a result, or else for that of a base class.

    Args:
        result: A result, or a collection.
        field: The field of `Extension`, such as "drawers".

    Raises:
        DataError: If no extension that is installed has anything.
    """
    kinds = [vars(cls)["kind"] for cls in type(result).__mro__ if "kind" in vars(cls)]  # the own one, then of bases
    kind = next((kind for kind in kinds if kind in references(field)), None)
    if kind is None:
        raise DataError(f"no extension has {field} of {kinds[0]}")
    return import_registered(field, kind)
