"""A job: what is called for each row of a corpus, the columns that it reads, and those that come out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...errors import DataError, HeadMismatchError, InputError, NormXLogitError, UnsupportedModelError
from ...inputs.chat import ChatTemplateError
from ...model.task_model import TaskModel
from ...pipeline.options import Options
from ...results.base import Record
from ...tasks.targets import All, Choice
from ..rows.shards import InputColumns, Shard

if TYPE_CHECKING:
    from typing_extensions import Self

GIVE_UP = 8
"""If so many rows fail before any succeeds, the model is at fault, and the error is raised."""

TextColumns = Callable[[], Sequence[str]]
"""Returns the columns of the input that hold texts."""


class Column(NamedTuple):
    """A column that a job reads.

    Attributes:
        usual: Its usual names, of which the first is taken that the input has; none where it need not be there.
        content: A description of its content, for errors.
        is_media: Whether it holds pictures or sounds.
    """

    usual: Sequence[str] = ()
    content: str = ""
    is_media: bool = False


@dataclass
class ShardRows:
    """The rows of a shard on their way from the input to the output, each by its place in the shard.

    Attributes:
        shard: The shard.
        inputs: Those that can be read, as the model reads them: encodings, or prompts with completions.
        targets: The target of each input; empty without a column of targets.
        results: Their results.
        problems: Why the others have no result.
        tokens: How many tokens were explained.
    """

    shard: Shard
    inputs: dict[int, Any] = field(default_factory=dict)
    targets: dict[int, Choice] = field(default_factory=dict)
    results: dict[int, Record] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    tokens: int = 0


class Together:
    """Works on rows together, and on each half where that fails, until the rows that fail stand alone.

    It counts over all shards: when the first rows all fail, the model or the settings are at fault.
    """

    def __init__(self) -> None:
        self._done = self._failed = 0

    def __call__(
        self,
        work: Callable[[list[int]], Any],
        rows: Sequence[int],
        problems: dict[int, str],
        *,
        at_once: int = 0,
        own: type[NormXLogitError] | tuple[type[NormXLogitError], ...] = (),
    ) -> None:
        """Work on rows, and enter the reasons of those that fail.

        Args:
            work: Works on some of the rows.
            rows: The rows.
            problems: Where the reasons are entered.
            at_once: How many rows are worked on together; 0 for all.
            own: Errors that are of a row itself, and do not count as a fault of the model.
        """
        step = at_once or max(len(rows), 1)
        for part in (list(rows[start : start + step]) for start in range(0, len(rows), step)):
            try:
                work(part)
                self._done += len(part)
            except (HeadMismatchError, UnsupportedModelError):  # noqa: PERF203  # of each part alone
                raise
            except NormXLogitError as error:
                if len(part) > 1:
                    self(work, part, problems, at_once=(len(part) + 1) // 2, own=own)
                    continue
                if not isinstance(error, own) or isinstance(error, ChatTemplateError):  # which is of the model
                    self._failed += 1
                    if not self._done and self._failed >= GIVE_UP:
                        raise
                problems[part[0]] = str(error)


class Job(ABC):
    """The base of jobs.

    Attributes:
        shard_rows: Rows of a shard by default: what is written at once, and the most that a kill can cost.
        kind: The kind of the results, whose columns are `CORPUS[kind]`; empty for that of the model's predictions.
    """

    shard_rows: ClassVar[int] = 64
    kind: ClassVar[str] = ""

    @abstractmethod
    def reads(self, *, media: bool) -> dict[str, Column]:
        """Return what is read, by the setting that names the column; `media` says that it is pictures or sounds."""

    @abstractmethod
    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of its kind that the results do not have."""

    @abstractmethod
    def model_of(self, model: TaskModel) -> TaskModel:
        """Return the model that the job calls.

        Raises:
            UnsupportedModelError: If it is not one for the job.
            InputError: If a setting would fail in every row.
        """

    @abstractmethod
    def read(
        self, model: TaskModel, cells: Mapping[int, Mapping[str, Any]], rows: ShardRows, together: Together
    ) -> None:
        """Tokenise rows, and enter their inputs and what is wrong with them.

        Args:
            model: The model.
            cells: The cells of each row that can be read, by their roles, such as "prompt" of `prompt_column`.
            rows: Where they are entered.
            together: Works on rows where one that fails must not stop the others.
        """

    @abstractmethod
    def explain(self, model: TaskModel, rows: ShardRows, options: Options, together: Together) -> None:
        """Run the model and the method over the inputs of rows, and enter their results and what is wrong with them.

        Raises:
            NormXLogitError: If the model or the settings are at fault, not single rows.
        """

    def with_columns(self, names: Sequence[str], columns_of_text: TextColumns, *, media: bool) -> "Self":
        """Return the job with a name for each column that was not given one.

        Where one column is needed and has none of the usual names, it is the only one that holds texts.

        Args:
            names: The columns of the input; none for a stream.
            columns_of_text: Returns those that hold texts.
            media: Whether the model reads pictures or sounds alone.

        Raises:
            DataError: If a column cannot be told.
            InputError: If the job is not one for such a model.
        """
        found: dict[str, Any] = {}
        required = {setting: reads for setting, reads in self.reads(media=media).items() if reads.usual}
        for setting, reads in required.items():
            value = getattr(self, setting)
            if not isinstance(value, str | None):
                raise InputError(f"{setting}= is the name of a column, not {value!r}")
            column = value or next((name for name in reads.usual if name in names), None if names else reads.usual[0])
            if column is None and len(required) == 1 and not media:
                of_text = names if len(names) == 1 else columns_of_text()
                column = of_text[0] if len(of_text) == 1 else None
            if column is None:
                option = f"{setting} (--column {role_of(setting)}=...)"
                raise DataError(f"which column holds the {reads.content}? give {option}, one of {', '.join(names)}")
            found[setting] = column
        return replace(self, **found)  # type: ignore[type-var]

    def columns(self, *, media: bool) -> InputColumns:
        """Return the columns that are read from the input, beside ids and kept columns."""
        given = {setting: getattr(self, setting) for setting in self.reads(media=media)}
        media_roles = [role_of(name) for name, column in self.reads(media=media).items() if column.is_media]
        cells = {role_of(setting): name for setting, name in given.items() if name}
        return InputColumns(cells, [role for role in media_roles if role in cells])

    def options(self) -> dict[str, Any]:
        """Return the settings that are fields of `Options`."""
        return {name: getattr(self, name) for name in fields_of(type(self)) if name in fields_of(Options)}

    def described(self) -> dict[str, Any]:
        """Return the job's settings as plain values, by their public names."""
        return {"job": type(self).__name__, **{name: _plain(getattr(self, name)) for name in fields_of(type(self))}}


def role_of(setting: str) -> str:
    """Return the role of the column that a setting names."""
    return setting.removesuffix("_column")


def text_of(value: Any, column: str | None) -> str:
    """Return a text, or UTF-8 bytes as text.

    Args:
        value: The content of the cell.
        column: The name of the column, for errors.

    Raises:
        InputError: If it is no text.
    """
    if value is None:
        raise InputError(f"no text: column {column!r} is null")
    if not isinstance(value, str | bytes):
        raise InputError(f"not text: column {column!r} holds {str(value)[:80]!r}")
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else value.encode("utf-8").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not text: bytes that are not UTF-8, at {error.start}") from None
    except UnicodeEncodeError:
        raise InputError("not text: half a character (a lone surrogate)") from None


def fields_of(kind: Any) -> list[str]:
    """Return the names of the fields of a job or of another dataclass."""
    return [each.name for each in fields(kind)]


def check_choice(name: str, value: object, choices: Sequence[str], *, optional: bool = True) -> None:
    """Refuse a setting that is not among its choices."""
    if value not in (*choices, *([None] if optional else [])):
        raise InputError(f"{name} must be {', '.join(map(repr, choices))}{' or None' * optional}, not {value!r}")


def _plain(value: Any) -> Any:
    """Return a setting as plain values for JSON."""
    if isinstance(value, All):
        return {"all": True}  # a label may be called "all"
    if value is None or isinstance(value, str | bool):
        return value
    return int(value) if hasattr(value, "__index__") else [_plain(part) for part in value]
