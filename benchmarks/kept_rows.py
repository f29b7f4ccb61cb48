"""What a model measured, kept as JSON lines, so that a stopped run goes on and tables are printed without the model."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from normxlogit.errors import DataError
from normxlogit.evaluation.datasets import parsed_rows
from normxlogit.long_runs.model_identity import identity_of
from normxlogit.model.task_model import TaskModel
from normxlogit.results.storage.files import write_text

Row = TypeVar("Row")


def check_reader(model: TaskModel, file: Path) -> None:
    """Refuse a file of another model; of a new file the model's digest is kept beside it."""
    digest = identity_of(model).digest
    digest_file = file.with_name(f"{file.name}.model")
    if not file.exists():
        write_text(digest, digest_file)
    elif not digest_file.exists() or digest_file.read_text(encoding="utf-8") != digest:
        raise DataError(f"{file}: another model measured these sentences; name another file with --measured")


def kept_rows(file: Path, record: Callable[..., Row], problem: str) -> list[Row]:
    """Read the rows of a file; none of a file that is not there.

    Args:
        file: JSON lines.
        record: Makes a row of its fields.
        problem: What an error calls a line that is no row.
    """
    return parsed_rows(file, lambda row: record(**row), problem) if file.exists() else []
