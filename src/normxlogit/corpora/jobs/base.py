"""A job: what is called for each row of a corpus, the columns that it reads, and those that come out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import DataError
from ...methods import Method
from ...methods.defaults import completion_methods
from ...model.task_model import TaskModel
from ...pipeline.options import Options
from ...results.base import Record
from ...tasks.targets import All
from ..columns import corpus_row
from ..rows.shards import InputColumns
from .steps import Step

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...explainer import Explainer

TextColumns = Callable[[], Sequence[str]]
"""Returns the columns of the input that hold texts."""


def column(*usual: str, is_media: bool = False) -> Any:
    """Return a setting of a job that names a column of the input, such as `text_column` for the role "text".

    Args:
        *usual: Usual names of the column, of which the first is taken that the input has; none where the column need
            not be there.
        is_media: Whether it holds pictures or sounds.
    """
    return field(default=None, metadata={"usual": usual, "is_media": is_media})


class Job(ABC):
    """The base of jobs."""

    shard_rows: ClassVar[int] = 64  # what is written at once by default, and the most that a kill can cost
    kind: ClassVar[str] = ""  # of the results, whose columns are `CORPUS[kind]`; empty for the model's predictions

    def roles(self, *, reads_media: bool) -> dict[str, Sequence[str]]:
        """Return the usual names of the columns that are read, by the roles of the columns.

        A column without usual names need not be there.

        Args:
            reads_media: Whether the model reads pictures or sounds, for which `Predictions` alone has other columns.
        """
        settings = fields(self)  # type: ignore[arg-type]  # every job is a dataclass
        return {role_of(setting.name): setting.metadata["usual"] for setting in settings if setting.metadata}

    @abstractmethod
    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns that results of this kind may have, and those of this job do not have.

        Args:
            keep_text: Whether the texts are written, too.
        """

    @abstractmethod
    def model_of(self, model: TaskModel) -> TaskModel:
        """Return the model that the job calls, which may be a part of the caller's; refuse one that it cannot call."""

    @abstractmethod
    def steps(self, model: TaskModel, options: Options) -> Sequence[Step]:
        """Return the steps from the cells of rows to results: one that tokenises, then those that run the model.

        Args:
            model: The model that the job calls.
            options: How rows are explained.
        """

    def methods(self, explainer: "Explainer", method: str | Method | None) -> tuple[Method, Method | None]:
        """Return the method, and the method of prompts with pictures and sounds, None if it is the same.

        Args:
            explainer: Explains the rows.
            method: The caller's method; None for the default.
        """
        method_arguments = completion_methods(method)
        return method_arguments["method"], method_arguments["media_method"]

    def cells(self, result: Record, kind: str) -> dict[str, Any]:
        """Return the cells of a result by its columns, without `row` and `id`.

        Args:
            result: The result of a row.
            kind: The kind of results, whose columns are `CORPUS[kind]`.
        """
        return corpus_row(result, kind)

    def shared(self, model: TaskModel, results: Sequence[Record]) -> dict[str, Any]:
        """Return the values that all results of a run share, beside those of every job.

        Args:
            model: The model that the job calls.
            results: Results of the run.
        """
        return {}

    def with_columns(self, names: Sequence[str], columns_of_text: TextColumns, *, reads_media: bool) -> "Self":
        """Return the job with a name for each column that must be there: the caller's, or a usual one that is there.

        If there is neither, and one column of texts is needed, the only column that holds texts is taken.

        Args:
            names: The columns of the input.
            columns_of_text: Returns those whose cells are mostly texts; it reads the first rows.
            reads_media: Whether the model reads pictures or sounds.

        Raises:
            DataError: If it is not clear which column is meant.
        """
        roles = self.roles(reads_media=reads_media)
        usual_names = {role: usual for role, usual in roles.items() if usual}  # of columns that must be there
        columns_by_setting: dict[str, Any] = {}
        for role, usual in usual_names.items():
            column = getattr(self, f"{role}_column") or _usual_column(usual, names)
            if column is None and len(usual_names) == 1 and not reads_media:
                column = _only(names) or _only(columns_of_text())  # an only column is taken without reading its rows
            if column is None:
                raise _unclear_column(role, names, reads_media=reads_media)
            columns_by_setting[f"{role}_column"] = column
        return replace(self, **columns_by_setting)  # type: ignore[type-var]

    def columns(self, *, reads_media: bool) -> InputColumns:
        """Return the columns that are read from the input, beside ids and kept columns.

        Args:
            reads_media: Whether the model reads pictures or sounds, whose role is then "text".
        """
        names = {role: getattr(self, f"{role}_column") for role in self.roles(reads_media=reads_media)}
        cells = {role: name for role, name in names.items() if name}
        settings = fields(self)  # type: ignore[arg-type]
        media_roles = {role_of(setting.name) for setting in settings if setting.metadata.get("is_media")}
        if reads_media:
            media_roles.add("text")
        return InputColumns(cells, [role for role in cells if role in media_roles])

    def options(self) -> dict[str, Any]:
        """Return those settings of the job that are also fields of `Options`."""
        return {name: getattr(self, name) for name in fields_of(type(self)) if name in fields_of(Options)}

    def described(self) -> dict[str, Any]:
        """Return the job's settings as plain values, by their public names."""
        settings = {name: _plain(getattr(self, name)) for name in fields_of(type(self))}
        return {"job": type(self).__name__, **settings}


def _usual_column(usual: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the first of some usual names that is the name of a column; None if no column has any."""
    if not names:  # an input without rows, such as an empty list, has no columns, and none is read of it
        return usual[0]
    return next((name for name in usual if name in names), None)


def _only(columns: Sequence[str]) -> str | None:
    """Return the only column; None if there are several, or none."""
    return columns[0] if len(columns) == 1 else None


def _unclear_column(role: str, names: Sequence[str], *, reads_media: bool) -> DataError:
    """Return the error for a column that is not named."""
    content = role if role.endswith("s") else f"{role}s"  # the "documents", but the "prompts"
    if reads_media:
        content = "pictures or sounds, or their paths"
    option = f"{role}_column (--column {role}=...)"
    return DataError(f"which column holds the {content}? give {option}, one of {', '.join(names)}")


def role_of(setting: str) -> str:
    """Return the role of the column that a setting names."""
    return setting.removesuffix("_column")


def fields_of(kind: Any) -> list[str]:
    """Return the names of the fields of a job or of another dataclass."""
    return [setting.name for setting in fields(kind)]


def _plain(value: Any) -> Any:
    """Return a setting as plain values for JSON."""
    if isinstance(value, All):
        return {"all": True}  # and not "all", as a label may be called
    if value is None or isinstance(value, str | bool):
        return value
    if hasattr(value, "__index__"):  # any integer type
        return int(value)
    return [_plain(item) for item in value]  # such as several targets or layers
