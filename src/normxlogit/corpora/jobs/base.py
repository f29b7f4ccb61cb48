"""A job: what is called for each row of a corpus, the columns that it reads, and those that come out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import DataError, NormXLogitError
from ...inputs.chat import ChatTemplateError
from ...methods import Method
from ...methods.defaults import completion_methods
from ...model.task_model import TaskModel
from ...pipeline.by_halves import outcomes, reason_alone
from ...pipeline.options import Options
from ...results.base import Record
from ...tasks.targets import All
from ..columns import corpus_row
from ..rows.shards import InputColumns

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...explainer import Explainer

GIVE_UP = 8
"""If so many rows fail before any succeeds, the model is at fault, and the error is raised."""

TextColumns = Callable[[], Sequence[str]]
"""Returns the columns of the input that hold texts."""


Values = dict[int, Any]
"""What the steps so far made of rows, by their places in the shard."""

Problems = dict[int, str]
"""Why the rows that failed have no result, by their places in the shard."""


def column(*usual: str, is_media: bool = False) -> Any:
    """Return a setting of a job that names a column of the input, such as `text_column` for the role "text".

    Args:
        *usual: Usual names of the column, of which the first is taken that the input has; none where the column need
            not be there.
        is_media: Whether it holds pictures or sounds.
    """
    return field(default=None, metadata={"usual": usual, "is_media": is_media})


@dataclass(frozen=True)
class Step:
    """A step of a job: what is called with what the step before made of some rows.

    The first step is called with their cells, by roles such as "prompt" of `prompt_column`; the last returns results,
    each with the number of its tokens.
    """

    call: Callable[[list[Any]], Iterable[Any]]
    at_once: int = 0  # how many rows it is called with; 0 for all of a shard
    row_errors: type[NormXLogitError] | tuple[type[NormXLogitError], ...] = ()  # of a row itself, not of the model
    size: Callable[[Any], int] | None = None  # the size of a row: rows of similar sizes are called together


class StepRun:
    """Calls a step with rows together, and with each half where that fails, until the rows that fail stand alone.

    It counts over all shards: when the first rows all fail, the model or the settings are at fault.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self._has_succeeded = False
        self._failures = 0  # without those of rows themselves

    def __call__(self, values: Values, problems: Problems) -> None:
        """Call the step with all rows: replace their values, or move them to the problems, with the reasons."""
        size = self.step.size
        rows = list(values) if size is None else sorted(values, key=lambda row: size(values[row]))
        at_once = self.step.at_once or max(len(rows), 1)
        for start in range(0, len(rows), at_once):
            self._call(rows[start : start + at_once], values, problems)

    def _call(self, rows: list[int], values: Values, problems: Problems) -> None:
        """Call the step with some rows: replace their values, or move those that fail to the problems."""
        inputs = [values[row] for row in rows]
        for row, outcome in zip(rows, outcomes(self.step.call, inputs), strict=True):
            if isinstance(outcome, NormXLogitError):
                self._check_failure(outcome)
                del values[row]
                problems[row] = reason_alone(outcome)
            else:
                values[row] = outcome
                self._has_succeeded = True

    def _check_failure(self, error: NormXLogitError) -> None:
        """Raise an error that is of the model or the settings: where nothing but failures was seen."""
        is_of_model = isinstance(error, ChatTemplateError)  # an `InputError`, but the template is the model's
        if isinstance(error, self.step.row_errors) and not is_of_model:
            return
        self._failures += 1
        if not self._has_succeeded and self._failures >= GIVE_UP:
            raise error


class Job(ABC):
    """The base of jobs."""

    shard_rows: ClassVar[int] = 64  # what is written at once by default, and the most that a kill can cost
    kind: ClassVar[str] = ""  # of the results, whose columns are `CORPUS[kind]`; empty for the model's predictions

    def roles(self, *, media: bool) -> dict[str, Sequence[str]]:
        """Return the roles of the columns that are read, with the usual names of those that must be there."""
        settings = fields(self)  # type: ignore[arg-type]
        return {role_of(setting.name): setting.metadata["usual"] for setting in settings if setting.metadata}

    @abstractmethod
    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of its kind that the results do not have."""

    @abstractmethod
    def model_of(self, model: TaskModel) -> TaskModel:
        """Return the model that the job calls."""

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

    def with_columns(self, names: Sequence[str], columns_of_text: TextColumns, *, media: bool) -> "Self":
        """Return the job with a name for each column: a usual one, or, where one is needed, the only one of texts.

        Args:
            names: The columns of the input.
            columns_of_text: Returns those whose cells are mostly texts; it reads the first rows.
            media: Whether the model reads pictures or sounds.

        Raises:
            DataError: If it is not clear which column is meant.
        """
        required = {role: usual for role, usual in self.roles(media=media).items() if usual}
        columns_by_setting: dict[str, Any] = {}
        for role, usual in required.items():
            column = getattr(self, f"{role}_column") or _usual_column(usual, names)
            if column is None and len(required) == 1 and not media:
                column = _only(names) or _only(columns_of_text())
            if column is None:
                raise _unclear_column(role, names, media=media)
            columns_by_setting[f"{role}_column"] = column
        return replace(self, **columns_by_setting)  # type: ignore[type-var]

    def columns(self, *, media: bool) -> InputColumns:
        """Return the columns that are read from the input, beside ids and kept columns.

        Args:
            media: Whether the model reads pictures or sounds, whose role is then "text".
        """
        names = {role: getattr(self, f"{role}_column") for role in self.roles(media=media)}
        cells = {role: name for role, name in names.items() if name}
        settings = fields(self)  # type: ignore[arg-type]
        media_roles = {role_of(setting.name) for setting in settings if setting.metadata.get("is_media")}
        if media:
            media_roles.add("text")
        return InputColumns(cells, [role for role in cells if role in media_roles])

    def options(self) -> dict[str, Any]:
        """Return the settings that are fields of `Options`."""
        return {name: getattr(self, name) for name in fields_of(type(self)) if name in fields_of(Options)}

    def described(self) -> dict[str, Any]:
        """Return the job's settings as plain values, by their public names."""
        settings = {name: _plain(getattr(self, name)) for name in fields_of(type(self))}
        return {"job": type(self).__name__, **settings}


def _usual_column(usual: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the first usual name that is a column's; where no column has a name yet, the most usual one."""
    if not names:
        return usual[0]
    return next((name for name in usual if name in names), None)


def _only(columns: Sequence[str]) -> str | None:
    """Return the only column; None if there are several, or none."""
    return columns[0] if len(columns) == 1 else None


def _unclear_column(role: str, names: Sequence[str], *, media: bool) -> DataError:
    """Return the error for a column that is not named."""
    content = role if role.endswith("s") else f"{role}s"  # the "documents", but the "prompts"
    if media:
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
        return {"all": True}  # a label may be called "all"
    if value is None or isinstance(value, str | bool):
        return value
    if hasattr(value, "__index__"):  # any integer type
        return int(value)
    return [_plain(item) for item in value]
