"""Results as Parquet files and data sets: one row a result, with the columns of `columns.py`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import DataError, reason_of
from .columns import UNREADABLE, metadata_of, result_states, result_table
from .files import replacing
from .schema import FORMAT_VERSION
from .tables import optional_module

if TYPE_CHECKING:
    from ..base import Record


_NO_ARROW = "Parquet and datasets need pyarrow: pip install pyarrow"


def write_parquet(results: "Sequence[Record]", path: str | Path, *, single: bool = False) -> None:
    """Write results to a Parquet file atomically, with checksums of its pages; `single` marks one that is no list."""
    parquet = optional_module("pyarrow.parquet", _NO_ARROW)
    table = result_table(results, single=single)
    with replacing(path) as temporary:
        parquet.write_table(table, temporary, write_page_checksum=True)


def to_dataset(results: "Sequence[Record]") -> Any:
    """Return results as a `datasets.Dataset`."""
    optional_module("pyarrow", _NO_ARROW)
    datasets = optional_module("datasets", "a dataset needs datasets: pip install datasets")
    return datasets.Dataset(datasets.table.InMemoryTable(result_table(results)))


def read_parquet(path: str | Path) -> dict[str, Any]:
    """Return the results in a file, of `write_parquet` or of a corpus, as `Attributions.from_dict` reads them.

    Raises:
        DataError: If it is not such a file, or pyarrow is missing.
    """
    with open_parquet(lambda: Path(path).open("rb"), path) as file:
        table = file.read()
        table.validate(full=True)
        states = result_states(table)
        if metadata_of(table.schema).get("single") and len(states) == 1:
            return states[0]
        return {"format_version": FORMAT_VERSION, "attributions": states}


@contextmanager
def open_parquet(open_file: Callable[[], Any], name: str | Path, advice: str = "") -> Iterator[Any]:
    """Open a Parquet file for reading, with checksums verified and errors as `DataError`.

    Args:
        open_file: Opens the file in binary mode.
        name: The name of the file in errors.
        advice: Advice for a damaged file.

    Yields:
        A `pyarrow.parquet.ParquetFile`.
    """
    parquet = optional_module("pyarrow.parquet", _NO_ARROW)
    arrow_errors = optional_module("pyarrow", _NO_ARROW).ArrowException
    try:
        with open_file() as file:
            yield parquet.ParquetFile(file, page_checksum_verification=True)
    except (*UNREADABLE, arrow_errors) as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"cannot read {name}: {error.strerror}") from None
        reason = reason_of(error)
        what = f"not Parquet of normxlogit, or damaged ({type(error).__name__}: {reason})"
        raise DataError(f"{name}: {what}" + (f"; {advice}" if advice else "")) from None
