"""What all results share: scores that do not change, equality, JSON files and pages."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import DataError
from .characters import escaped
from .fields import FORMAT_VERSION, Check, FloatArray, choice, document, plain, read, same, setting
from .files import read_json, write_json, write_text
from .parquet import read_parquet, to_dataset, write_parquet
from .tables import Columns, Shap, to_csv, to_pandas, to_shap

if TYPE_CHECKING:
    from pandas import DataFrame
    from typing_extensions import Self

__all__ = ["FORMAT_VERSION", "FloatArray", "Result"]


class Result:
    """The base of a result; a frozen dataclass with these fields derives from it.

    Attributes:
        scores: The scores, which cannot be changed.
        settings: The method's settings.
        diagnostics: What the method measured of itself.
    """

    kind: ClassVar[str]
    """Its name in files."""

    described: ClassVar[str]
    """What an error calls it."""

    scores: FloatArray
    settings: Mapping[str, Any]
    diagnostics: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Freeze scores and bias, and keep settings and diagnostics as files hold them."""
        for f in fields(self):  # type: ignore[arg-type]
            if isinstance(values := getattr(self, f.name), np.ndarray):
                values.flags.writeable = False
        for name in ("settings", "diagnostics"):
            object.__setattr__(self, name, setting(plain(getattr(self, name))))

    def __eq__(self, other: object) -> bool:
        """Return whether every field is equal, scores bit by bit; NaN equals NaN."""
        if type(other) is not type(self):
            return NotImplemented
        return all(same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]  # an array inside: compare, do not hash

    def __repr__(self) -> str:
        """Return a line that is safe to print, whatever a file said."""
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
        return {"kind": self.kind} | {f.name: plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "Self":
        """Rebuild a result from `to_dict`'s output.

        Raises:
            DataError: If the format is another version's, a field is missing or cannot be what it is, or the fields
                do not go together.
        """
        document(state, FORMAT_VERSION)
        try:
            choice(cls.kind)(state.get("kind"))
            result = cls(**read(cls._current(state), cls._checks()))
            result._check()
        except (RecursionError, ValueError) as error:
            raise DataError(f"not {cls.described}: {error or 'nested too deeply'}") from None
        return result

    @classmethod
    def _current(cls, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of a file as this version writes them, of one that an older version wrote."""
        return state

    @classmethod
    def _checks(cls) -> dict[str, Check]:
        """Return what may stand in each field."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise ValueError if the fields do not go together, such as a score for each of too few tokens."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the result to a file: `.json` and `.parquet` can be loaded again, `.csv` is the table of scores.

        Raises:
            DataError: If the name ends in something else, or the file cannot be written.
        """
        suffix = Path(path).suffix.lower()
        if suffix == ".csv":
            write_text(self.to_csv(), path)
        elif suffix == ".parquet":
            write_parquet([self], path)
        elif suffix == ".json":
            write_json(self.to_dict(), path)
        else:
            page = "; to_html writes pages" if suffix in (".html", ".htm") else ""
            raise DataError(f"cannot write {path}: the name must end in .json, .parquet or .csv{page}")

    @classmethod
    def load(cls, path: str | Path) -> "Self":
        """Read a JSON or Parquet file written by `save`, or by a command for one text.

        Raises:
            DataError: If the file is not such a file.
        """
        try:
            parquet = Path(path).suffix.lower() == ".parquet"
            state = {"attributions": read_parquet(path)} if parquet else read_json(path)
            several = state.get("attributions") if isinstance(state, dict) else None
            if isinstance(several, list):
                if len(several) != 1:
                    raise DataError(f"{len(several)} results; read them with Attributions.load")
                state = several[0]
            return cls.from_dict(state)
        except DataError as error:
            raise DataError(str(error) if str(path) in str(error) else f"{path}: {error}") from None

    def to_pandas(self) -> "DataFrame":
        """Return the scores as a pandas table, one row a token; with several labels or layers, one for each of them.

        Raises:
            DataError: If pandas is missing.
        """
        return to_pandas(self._columns())

    def to_csv(self) -> str:
        """Return the table of `to_pandas` as CSV, without control characters."""
        return to_csv(self._columns())

    def to_dataset(self) -> Any:
        """Return the result as a `datasets.Dataset` of one row, with the columns of the Parquet file.

        Raises:
            DataError: If datasets or pyarrow is missing.
        """
        return to_dataset([self])

    def to_shap(self) -> Any:
        """Return the scores as a `shap.Explanation`, on which SHAP's plots work.

        The base value is the `bias`, with which the scores add up to what is explained. It is 0 where there is no
        bias: the scores of such a method do not add up to the model's output, and neither do SHAP's plots.

        Raises:
            DataError: If shap is missing, or the result is not of one text.
            ValueError: If there is a layer axis; choose with `select(layer=...)`.
        """
        return to_shap(self._shap())

    def _columns(self) -> Columns:
        """Return the columns of the table, one entry a token."""
        raise NotImplementedError

    def _shap(self) -> Shap:
        """Return what SHAP shows."""
        raise NotImplementedError

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the result as a self-contained HTML page, also written to `path` if given.

        Raises:
            DataError: If the file cannot be written.
        """
        content = self._page()
        if path is not None:
            write_text(content, path)
        return content

    def _page(self) -> str:
        raise NotImplementedError
