"""The base class of results: fields, equality, JSON and Parquet files, tables and pages."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors import DataError, InputError
from .characters import escaped
from .files import read_json, write_json, write_text, written
from .parquet import read_parquet, to_dataset, write_parquet
from .schema import FloatArray, Index, Measured, check, freeze, plain, same, shortened
from .tables import Columns, Shap, to_csv, to_pandas, to_shap
from .versions import FORMAT_VERSION, checked_version

if TYPE_CHECKING:
    from pandas import DataFrame
    from typing_extensions import Self

    from ..render.blocks import Block


class Exports(ABC):
    """The exports of a result or a collection: files and tables."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for `json.dumps`."""

    @abstractmethod
    def _results(self) -> "Sequence[Result]":
        """Return the results, one for each row of a Parquet file."""

    @abstractmethod
    def _columns(self) -> Columns:
        """Return the columns of the table, one entry a token."""

    def _text_columns(self) -> Columns:
        """Return the columns of the table, one entry a result."""
        rows = [result._text_row() for result in self._results()]
        return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}

    def save(self, path: str | Path) -> None:
        """Write a file: `.json` and `.parquet` can be loaded again, `.csv` is the table of scores.

        Raises:
            DataError: If the name ends in something else, the file cannot be written, or pyarrow is missing.
        """
        suffix = Path(path).suffix.lower()
        if suffix == ".csv":
            write_text(self.to_csv(), path)
        elif suffix == ".parquet":
            write_parquet(self._results(), path)
        elif suffix == ".json":
            write_json(self.to_dict(), path)
        else:
            page = "; to_html writes pages" if suffix in (".html", ".htm") else ""
            raise DataError(f"cannot write {path}: the name must end in .json, .parquet or .csv{page}")

    def to_pandas(self, level: Literal["token", "text"] = "token") -> "DataFrame":
        """Return the scores as a pandas table.

        In the table of a collection, `text_index` says which text a row is of. Where there are results of several
        methods, those of one text have one index, and a column says which method a row is of.

        Args:
            level: "token", a row for each token, label and layer; or "text", a row for each text: the text, the
                prediction and its probability, the three words with the highest and with the lowest scores, whether the
                text was truncated, and the notes.

        Raises:
            DataError: If pandas is missing, or a row for each text is asked for and a result has several labels or
                layers; use `select` on it first.
            InputError: If there is no such level.
        """
        if level not in ("token", "text"):
            raise InputError(f'level must be "token" or "text", not {level!r}')
        return to_pandas(self._columns() if level == "token" else self._text_columns())

    def to_csv(self) -> str:
        """Return the table of `to_pandas` as CSV, without control characters."""
        return to_csv(self._columns())

    def to_dataset(self) -> Any:
        """Return a `datasets.Dataset` of one row a result, with the columns of the Parquet file.

        Raises:
            DataError: If datasets or pyarrow is missing.
        """
        return to_dataset(self._results())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result(Exports):
    """The base of a result: a frozen dataclass whose type hints are the schema of its files.

    Attributes:
        scores: float32; arrays of a result cannot be changed.
        method: Name of the method.
        settings: The method's settings.
        model: Name of the model.
        signed: Whether negative scores mean evidence against the target.
        notes: What the reader should know, such as a text cut to the model's length.
        version: Version of the library.
        diagnostics: What the method measured of itself, by name, such as the "convergence_error" of Integrated
            Gradients; a tuple where there are several numbers.
        bias: float32: the contribution that belongs to no token. None where scores do not add up.
        sink: float32, of the shape of `bias`: what attention sinks contribute, which is in no token's score. None
            without sinks.
        sinks: Indices of the tokens that are attention sinks.
        format_version: Version of the files' format.
    """

    kind: ClassVar[str]
    """Its name in files."""

    described: ClassVar[str]
    """What an error calls it."""

    title: ClassVar[str]
    """Heading of its page."""

    scores: FloatArray
    method: str
    settings: Mapping[str, Any]
    model: str
    signed: bool
    notes: tuple[str, ...]
    version: str
    diagnostics: Mapping[str, Measured] = field(default_factory=dict)
    bias: FloatArray | None = None
    sink: FloatArray | None = None
    sinks: tuple[Index, ...] = ()
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        """Freeze the arrays, and keep settings and diagnostics as files hold them."""
        freeze(self)
        for name in ("settings", "diagnostics"):
            object.__setattr__(self, name, check(Any)(plain(getattr(self, name))))

    def __eq__(self, other: object) -> bool:
        """Return whether every field is equal, scores bit by bit; NaN equals NaN."""
        if type(other) is not type(self):
            return NotImplemented
        return all(same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]  # an array inside: compare, do not hash

    def __repr__(self) -> str:
        """Return a line that is safe to print, also of a hostile file."""
        return escaped(f"{type(self).__name__}({self._shown()})")

    def _shown(self) -> str:
        """Return what `repr` shows of the result."""
        raise NotImplementedError

    @property
    def has_label_axis(self) -> bool:
        """Whether the first axis of `scores` runs over labels."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for `json.dumps`; `from_dict` reads it back.

        Numbers that are not finite, which JSON lacks, become the strings "NaN", "Infinity" and "-Infinity".
        """
        return {"kind": self.kind} | {f.name: plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "Self":
        """Rebuild a result from `to_dict`'s output.

        Raises:
            DataError: If the format is another version's, a field is missing or of another type, or the fields do not
                fit together.
        """
        state = checked_version(state)
        if state.get("kind") != cls.kind:
            raise DataError(f"not {cls.described}: expected one of {cls.kind}, got {shortened(state.get('kind'))}")
        try:
            result: Self = check(cls)(state)
            result._validate()
        except (RecursionError, ValueError) as error:
            raise DataError(f"not {cls.described}: {error or 'nested too deeply'}") from None
        return result

    def _validate(self) -> None:
        """Raise ValueError if the fields do not fit together, such as a score for each of too few tokens."""
        raise NotImplementedError

    def _validate_bias(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError if bias or sink are not of a shape, or the sink is there without its tokens."""
        for name, values in (("bias", self.bias), ("sink", self.sink)):
            require(values is None or values.shape == shape, f"{name}: of another shape than the scores")
        require(self.sink is None or len(self.sinks) > 0, "sink: without its tokens")

    def _provenance(self, **changes: Any) -> dict[str, Any]:
        """Return the fields that a result derived from this one inherits, and those that change."""
        names = ("method", "settings", "model", "signed", "notes", "version")
        return {name: getattr(self, name) for name in names} | changes

    @classmethod
    def load(cls, path: str | Path) -> "Self":
        """Read a JSON or Parquet file written by `save`, or by a command for one text.

        Raises:
            DataError: If the file is not such a file.
        """
        with naming(path):
            state = read_state(path)
            several = state.get("attributions") if isinstance(state, dict) else None
            if isinstance(several, list) and len(several) != 1:
                raise DataError(f"{len(several)} results; read them with Attributions.load")
            return cls.from_dict(several[0] if isinstance(several, list) else state)

    def _results(self) -> "list[Result]":
        return [self]

    def to_shap(self) -> Any:
        """Return the scores as a `shap.Explanation`, on which SHAP's plots work.

        The base value is the `bias`, with which the scores add up to what is explained. It is 0 where there is no
        bias: the scores of such a method do not add up to the model's output, and neither do SHAP's plots.

        Raises:
            DataError: If shap is missing, the result is not of one text, or there is a layer axis; choose with
                `select(layer=...)`.
        """
        return to_shap(self._shap())

    def _shap(self) -> Shap:
        """Return the text as SHAP shows it."""
        raise DataError(
            f"SHAP's plots show the tokens of one text, not {self.described}; of generated text take one token with "
            "for_token(...)"
        )

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the result as a self-contained HTML page, also written to `path` if given.

        Raises:
            DataError: If the file cannot be written.
        """
        from ..render.blocks import Card
        from ..render.html import page

        return written(page([Card(self._blocks())], self.title), path)

    def _repr_html_(self) -> str:
        from ..render.html import fragment

        return fragment(self._blocks())

    def __str__(self) -> str:
        from ..render.terminal import text_of_blocks

        return text_of_blocks(self._blocks())

    def _text_row(self) -> Mapping[str, Any]:
        """Return the result as one row of a table."""
        raise NotImplementedError

    def _blocks(self) -> "list[Block]":
        """Return the blocks that drawings of the result consist of."""
        raise NotImplementedError

    def _heading(self) -> str:
        """Return what the result is called among several."""
        return self.title


def read_state(path: str | Path) -> Any:
    """Read a JSON or Parquet file of results into the form that `from_dict` takes.

    Raises:
        DataError: If it is not such a file.
    """
    if Path(path).suffix.lower() == ".parquet":
        return {"format_version": FORMAT_VERSION, "attributions": read_parquet(path)}
    return read_json(path)


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Name a file in the errors of what is read from it."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def require(condition: bool, problem: str) -> None:
    """Refuse fields that do not fit together."""
    if not condition:
        raise ValueError(problem)
