"""Results as Parquet files and data sets: one row a result."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import DataError
from .columns import METADATA, SOURCE_KINDS, results_of, source_table
from .fields import plain
from .files import json_text, replacing
from .tables import optional_module

if TYPE_CHECKING:
    from .base import Result

__all__ = ["UNREADABLE", "read_parquet", "reading", "to_dataset", "write_parquet"]

PLAIN = ("kind", "text", "text_pair", "completion", "tokens", "token_ids", "method", "model")
"""Fields with a column of their own."""

_NO_ARROW = "Parquet and datasets need pyarrow: pip install pyarrow"
_TYPES: dict[str, str | tuple[str]] = {
    "text": "string",
    "text_pair": "string",
    "completion": "string",
    "label": "string",
    "probability": "float64",
    "target": ("string",),
    "contrast": "string",
    "method": "string",
    "model": "string",
    "tokens": ("string",),
    "token_ids": ("int64",),
    "scores": ("float32",),
    "shape": ("int64",),
    "kind": "string",
    "rest": "string",
}


UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What reading a file that is damaged, or something else, may raise."""


def write_parquet(results: "Sequence[Result]", path: str | Path) -> None:
    """Write results to a Parquet file, whole or not at all, with checksums of its pages.

    Raises:
        DataError: If the file cannot be written, sources are among other results, or pyarrow is missing.
    """
    parquet = optional_module("pyarrow.parquet", _NO_ARROW)
    table = _arrow(results)
    with replacing(path) as beside:
        parquet.write_table(table, beside, write_page_checksum=True)


def to_dataset(results: "Sequence[Result]") -> Any:
    """Return results as a `datasets.Dataset`.

    Raises:
        DataError: If datasets or pyarrow is missing, or sources are among other results.
    """
    datasets = optional_module("datasets", "a dataset needs datasets: pip install datasets")
    return datasets.Dataset(datasets.table.InMemoryTable(_arrow(results)))


@contextmanager
def reading(open_file: Callable[[], Any], name: str | Path, advice: str = "") -> Iterator[Any]:
    """Open a Parquet file, whose pages are compared with their checksums.

    Args:
        open_file: Opens the file in binary mode.
        name: What errors call it.
        advice: What to do about a damaged file.

    Yields:
        A `pyarrow.parquet.ParquetFile`.

    Raises:
        DataError: If it cannot be opened, or anything in it is not what the block expects; names the file.
    """
    parquet = optional_module("pyarrow.parquet", _NO_ARROW)
    arrow_errors = optional_module("pyarrow", _NO_ARROW).ArrowException
    try:
        with open_file() as file:
            yield parquet.ParquetFile(file, page_checksum_verification=True)
    except (*UNREADABLE, arrow_errors) as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"cannot read {name}: {error.strerror}") from None
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        what = f"not Parquet of normxlogit, or damaged ({type(error).__name__}: {reason})"
        raise DataError(f"{name}: {what}" + (f"; {advice}" if advice else "")) from None


def read_parquet(path: str | Path) -> list[dict[str, Any]]:
    """Return the states of the results in a file, of `write_parquet` or of a corpus, as `from_dict` reads them.

    Raises:
        DataError: If it is not such a file, or pyarrow is missing.
    """
    with reading(lambda: Path(path).open("rb"), path) as file:
        table = file.read()
        table.validate(full=True)
        if METADATA in (table.schema.metadata or {}):  # of a corpus
            return results_of(table)
        return [_state(row, place) for place, row in enumerate(table.to_pylist())]


def _state(row: dict[str, Any], place: int) -> dict[str, Any]:
    """Return the state of a result.

    Raises:
        DataError: If the row is something else.
    """
    try:
        state: dict[str, Any] = json.loads(row["rest"]) | {name: row[name] for name in PLAIN if row[name] is not None}
        values = np.asarray(row["scores"], dtype=np.float32).reshape(row["shape"])
    except UNREADABLE as error:
        raise DataError(f"result {place}: not an attribution: {error!r}") from None
    return {"text": None, "text_pair": None} | state | {"scores": plain(values)}


def _arrow(results: "Sequence[Result]") -> Any:
    """Return one row a result; sources in the columns of a corpus.

    Raises:
        DataError: If sources are among other results, or a text is not one that Parquet holds.
    """
    arrow = optional_module("pyarrow", _NO_ARROW)
    kinds = {result.kind in SOURCE_KINDS for result in results}
    if len(kinds) > 1:
        raise DataError("sources have columns of their own in Parquet: save them apart from others, or all as .json")
    try:
        return source_table(arrow, cast(Any, results)) if kinds == {True} else _rows(arrow, results)
    except (ValueError, UnicodeError) as error:  # half a surrogate pair
        raise DataError(f"cannot be written as Parquet: {error}") from None


def _rows(arrow: Any, results: "Sequence[Result]") -> Any:
    """Return one row a result: what is asked for often in columns, everything else as JSON."""
    columns: dict[str, list[Any]] = {name: [] for name in _TYPES}
    for result in results:
        state = result.to_dict()
        said = state.get("prediction") or {}
        target = state["target"] if "target" in state else state["targets"][0]
        columns["label"].append(said.get("label"))
        columns["probability"].append(None if said.get("probability") is None else float(said["probability"]))
        columns["target"].append(target["labels"])
        columns["contrast"].append(target["contrast"])
        for name in PLAIN:
            columns[name].append(state.pop(name, None))
        columns["scores"].append(result.scores.reshape(-1))
        columns["shape"].append(list(result.scores.shape))
        del state["scores"]
        columns["rest"].append(json_text(state))
    types = {
        name: getattr(arrow, kind)() if isinstance(kind, str) else arrow.list_(getattr(arrow, kind[0])())
        for name, kind in _TYPES.items()
    }
    return arrow.table({name: arrow.array(columns[name], types[name]) for name in _TYPES})
