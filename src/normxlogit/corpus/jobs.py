"""Jobs, the kinds of corpus runs: predictions, completions, answers with documents, answers in conversations."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Generic, TypeVar, get_args

from ..errors import DataError, InputError
from ..inputs.chat import Prompt
from ..inputs.documents.conversations import read_conversation
from ..inputs.encoder import LongText
from ..inputs.texts import WORDS, positive_integer
from ..model.task_model import TaskModel
from ..pipeline.arguments import checked_methods
from ..pipeline.citations.cite import Answered, ask, ask_in, cite_answered
from ..pipeline.completions.completed_prompts import Completed, encode_prompt, read_completion
from ..pipeline.completions.sources import explain_sources
from ..pipeline.options import Options, Verify, checked_verify
from ..results.attribution import Attribution
from ..results.citations import Citations
from ..results.storage.columns import CONVERSATION, TESTED
from ..results.units.spans import PartKind, PartSpec, SourceKind, SourceSpec
from ..results.units.words import MERGES, Merge
from ..tasks.targets import All, Choice, Layers, TargetSpec
from .rows.cells import conversation_cell, documents_cell, prompt_cell, split_cell, text_cell, words_cell
from .rows.media import BESIDE, DEFAULTS
from .rows.shards import InputColumns, TextColumn

Row = TypeVar("Row", Completed, Answered)


class Job(ABC):
    """The base of jobs: the columns of the input, and how a row is explained.

    Attributes:
        shard_rows: Rows of a shard by default: what is written at once, and the most that a kill can cost.
    """

    shard_rows: ClassVar[int] = 64

    @abstractmethod
    def with_columns(self, names: Sequence[str], *, media: bool) -> "Job":
        """Return the job with a name for each column that was not given one.

        Args:
            names: The columns of the input; none for a stream.
            media: Whether the model reads pictures or sounds alone.

        Raises:
            DataError: If the usual names are not among those of the input.
            InputError: If the job is not one for such a model.
        """

    @abstractmethod
    def columns(self, *, media: bool) -> InputColumns:
        """Return the columns that are read from the input, beside ids and kept columns; all of them must be named."""

    @abstractmethod
    def result_kind(self, task_kind: str) -> str:
        """Return the kind of the results; their columns are `CORPUS[kind]`.

        Args:
            task_kind: That of a prediction of the model.
        """

    @abstractmethod
    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of its kind that the results do not have."""

    def options(self) -> dict[str, Any]:
        """Return the settings that are fields of `Options`."""
        return {name: getattr(self, name) for name in fields_of(type(self)) if name in fields_of(Options)}

    def described(self) -> dict[str, Any]:
        """Return the job's settings as plain values, by their public names."""
        values = {name: _plain(getattr(self, name)) for name in fields_of(type(self))}
        return {"job": type(self).__name__, **values}


class CompletionJob(Job, Generic[Row]):
    """The base of jobs whose rows are prompts with completions; a `Row` is one as the model reads it.

    Attributes:
        max_new_tokens: Most tokens that the model writes after each; None if they are written already.
    """

    max_new_tokens: int | None = None

    @abstractmethod
    def read(self, model: TaskModel, cells: Mapping[str, Any]) -> Row | Prompt:
        """Return a row with its completion, or a prompt for the model to complete.

        Args:
            model: A language model.
            cells: The row of a shard by column; a picture under "image", a sound under "audio".

        Raises:
            InputError: If it cannot be read.
        """

    @abstractmethod
    def completed(self, row: Row) -> Completed:
        """Return the prompt and the completion of a row."""

    @abstractmethod
    def division(self, row: Row) -> tuple[SourceSpec, PartSpec]:
        """Return how the prompt of a row is divided into sources, and its completion into parts."""

    @abstractmethod
    def explain(self, model: TaskModel, row: Row, options: Options) -> Attribution | Citations:
        """Return the result of a row."""


class CitationJob(CompletionJob[Answered]):
    """The base of jobs that cite each sentence of an answer.

    Attributes:
        verify: How the citations are tested; None if they are not.
    """

    verify: Verify = None

    def result_kind(self, task_kind: str) -> str:
        """Return that the results are citations."""
        return Citations.kind

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of tests and texts that were not asked for."""
        return [*([] if keep_text else TEXTS_OF_SOURCES), *(TESTED if self.verify is None else [])]

    def completed(self, row: Answered) -> Completed:
        """Return the prompt and the answer."""
        return row.completed

    def division(self, row: Answered) -> tuple[SourceSpec, PartSpec]:
        """Return the named sources, and sentences as the parts of the answer."""
        return row.completed.named_sources, "sentence"

    def explain(self, model: TaskModel, row: Answered, options: Options) -> Citations:
        """Return the answer with its citations."""
        return cite_answered(model, row, options)


@checked_methods
@dataclass(frozen=True)
class Predictions(Job):
    """The model's predictions for texts, pairs of texts, pictures or sounds, as `Explainer.__call__` explains them.

    Pictures and sounds are paths of files, which start at the working directory, what such files hold, or what is in
    memory.

    Attributes:
        text_column: The column of the texts, or of lists of their words, "text" by default, or "tokens"; of pictures
            and sounds "path", "image", "audio" or "file".
        pair_column: The column of second texts, for models of pairs.
        target_column: A column with the label, token or index to explain in each row.
        target: As in `Explainer.__call__`.
        contrast: As in `Explainer.__call__`.
        layers: As in `Explainer.__call__`.
        long_text: As in `Explainer.__call__`; with "error" long texts are rows among the errors.
        words: Whether to write words with their scores beside the tokens.
        merge: How a word's score comes from its tokens'; by default as fits the method.

    Raises:
        InputError: If an argument has an invalid value.
    """

    shard_rows: ClassVar[int] = 4096

    text_column: str | None = None
    _: KW_ONLY
    pair_column: str | None = None
    target_column: str | None = None
    target: TargetSpec = None
    contrast: Choice | None = None
    layers: Layers = None
    long_text: LongText = "truncate"
    words: bool = False
    merge: Merge | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        _check_choice("merge", self.merge, MERGES)
        if self.merge is not None and not self.words:
            raise InputError("merge says how tokens make words, and there are none without words: give words too")
        if self.target_column is not None and self.target is not None:
            raise InputError("give a target for all rows or a column with one for each, not both")

    def with_columns(self, names: Sequence[str], *, media: bool) -> "Predictions":
        """Return the job with the column of the texts, pictures or sounds."""
        unfit = {
            "pair_column": self.pair_column is not None,
            "words": self.words,
            "long_text": self.long_text != "truncate",
        }
        for name, is_set in unfit.items():
            if media and is_set:
                raise InputError(f"{name} is for texts, not for pictures and sounds")
        usual, content = (DEFAULTS, "pictures or sounds, or their paths") if media else (("text", WORDS), "texts")
        return replace(self, text_column=_column(self.text_column, "text_column", usual, names, content))

    def columns(self, *, media: bool) -> InputColumns:
        """Return the column of the texts, pictures or sounds, and those beside it."""
        if media:
            return InputColumns({}, {"": str(self.text_column)}, target=self.target_column)
        texts = {"text": self.text_column, "text_pair": self.pair_column}
        columns = {name: TextColumn((column,), split_cell) for name, column in texts.items() if column is not None}
        columns |= {f"{name} words": TextColumn(column.names, words_cell) for name, column in columns.items()}
        return InputColumns(columns, target=self.target_column)

    def result_kind(self, task_kind: str) -> str:
        """Return the kind of the model's predictions."""
        return task_kind

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of words and texts that were not asked for."""
        absent = [] if self.words else ["words", "word_scores"]
        absent += [] if keep_text else ["text"]
        return absent if keep_text and self.pair_column is not None else [*absent, "text_pair"]


@checked_methods
@dataclass(frozen=True)
class Completions(CompletionJob[Completed]):
    """Which sources of its prompt a completion rests on, as `Explainer.explain_completion` explains them.

    Attributes:
        prompt_column: The column of the prompts, texts or lists of chat messages; "prompt" by default.
        completion_column: The column of the completions; "completion" by default.
        max_new_tokens: Let the model generate the completions instead, each of at most this many tokens.
        sources: How a prompt is divided into sources: "word", "sentence", "paragraph" or "message".
        parts: How a completion is divided into parts, each of which is explained: "token", "word", "sentence" or
            "paragraph"; by default it is explained as a whole.
        image_column: The column of a picture for each prompt, for models that read pictures beside words. Prompts that
            are chat messages hold their pictures and sounds themselves.
        audio_column: The same of a sound.

    Raises:
        InputError: If an argument has an invalid value.
    """

    prompt_column: str | None = None
    completion_column: str | None = None
    _: KW_ONLY
    max_new_tokens: int | None = None
    sources: SourceKind = "sentence"
    parts: PartKind | None = None
    image_column: str | None = None
    audio_column: str | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        _check_choice("sources", self.sources, get_args(SourceKind), optional=False)
        _check_choice("parts", self.parts, get_args(PartKind))
        if self.max_new_tokens is not None:
            positive_integer(self.max_new_tokens, "max_new_tokens")
            if self.completion_column is not None:
                raise InputError("completions come from a column or from the model: give one of the two, not both")

    def with_columns(self, names: Sequence[str], *, media: bool) -> "Completions":
        """Return the job with the columns of the prompts and the completions."""
        usual = ("text",) if list(names) == ["text"] else ("prompt",)
        prompts = _column(self.prompt_column, "prompt_column", usual, names, "prompts")
        if self.max_new_tokens is not None:
            return replace(self, prompt_column=prompts)
        completions = _column(
            self.completion_column,
            "completion_column",
            ("completion",),
            names,
            "completions (max_new_tokens lets the model generate them)",
        )
        return replace(self, prompt_column=prompts, completion_column=completions)

    def columns(self, *, media: bool) -> InputColumns:
        """Return the columns of the prompts, their pictures and sounds, and the completions."""
        columns = {"text": TextColumn((str(self.prompt_column),), prompt_cell)}
        if self.completion_column is not None:
            columns["completion"] = TextColumn((self.completion_column,), text_cell)
        media_columns = zip(BESIDE.values(), (self.image_column, self.audio_column), strict=True)
        return InputColumns(columns, {prefix: name for prefix, name in media_columns if name is not None})

    def result_kind(self, task_kind: str) -> str:
        """Return that the results are sources."""
        return "sources"

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of texts, if they were not asked for."""
        return [] if keep_text else [*TEXTS_OF_SOURCES]

    def read(self, model: TaskModel, cells: Mapping[str, Any]) -> Completed | Prompt:
        """Return the prompt with its completion, or alone if the model generates it."""
        prompt: Prompt = json.loads(cells["text"])
        if media := [{"type": kind, kind: cells[kind]} for kind in BESIDE if kind in cells]:
            if not isinstance(prompt, str):
                raise InputError(
                    "the prompt is chat messages, which hold their pictures and sounds themselves, and not in a column"
                )
            prompt = [{"role": "user", "content": [*media, {"type": "text", "text": prompt}]}]
        if self.max_new_tokens is None:
            return read_completion(model, prompt, cells["completion"])
        encode_prompt(model, prompt)  # raises InputError for a prompt that cannot be continued
        return prompt

    def completed(self, row: Completed) -> Completed:
        """Return the prompt and the completion."""
        return row

    def division(self, row: Completed) -> tuple[SourceSpec, PartSpec]:
        """Return the division that the caller asked for."""
        return self.sources, self.parts

    def explain(self, model: TaskModel, row: Completed, options: Options) -> Attribution:
        """Return the sources of a completion."""
        return explain_sources(model, row, options, self.sources, self.parts)


TEXTS_OF_SOURCES = ("text", "units", "target", "question")
"""Columns of results that hold text of the input."""


@checked_methods
@dataclass(frozen=True)
class Answers(CitationJob):
    """Which sentences of the documents each sentence of an answer rests on, as `Explainer.cite` cites them.

    Attributes:
        question_column: The column of the questions, "question" by default.
        answer_column: The column of the answers, "answer" by default.
        documents_column: The column of the documents, "documents" by default: texts, mappings of them by name, or
            lists of what retrievers return.
        verify: Test the citations as `Explainer.cite` does: leave out this many of the first sources one at a time, or
            with "auto" until the others can no longer come first; leave out all of them; and put their other values in
            the place of the answer's. By default nothing is tested.

    Raises:
        InputError: If an argument has an invalid value.
    """

    question_column: str | None = None
    answer_column: str | None = None
    documents_column: str | None = None
    _: KW_ONLY
    verify: Verify = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        object.__setattr__(self, "verify", checked_verify(self.verify))

    def with_columns(self, names: Sequence[str], *, media: bool) -> "Answers":
        """Return the job with the columns of the questions, the answers and their documents."""
        return replace(
            self,
            question_column=_column(self.question_column, "question_column", ("question",), names, "questions"),
            answer_column=_column(self.answer_column, "answer_column", ("answer",), names, "answers"),
            documents_column=_column(self.documents_column, "documents_column", ("documents",), names, "documents"),
        )

    def columns(self, *, media: bool) -> InputColumns:
        """Return the columns of the questions, the answers and their documents."""
        return InputColumns(
            {
                "documents": TextColumn((str(self.documents_column),), documents_cell),
                "text": TextColumn((str(self.question_column),), text_cell),
                "completion": TextColumn((str(self.answer_column),), text_cell),
            }
        )

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of conversations, and of tests and texts that were not asked for."""
        return [*CONVERSATION, *super().absent_columns(keep_text=keep_text)]

    def read(self, model: TaskModel, cells: Mapping[str, Any]) -> Answered:
        """Return the answer with its question and documents."""
        question = cells["text"]
        documents = json.loads(cells["documents"])
        return Answered(ask(model, question, documents, answer=cells["completion"], longer=True), question)


@checked_methods
@dataclass(frozen=True)
class Conversations(CitationJob):
    """Which messages each sentence of an answer in a conversation rests on, as `Explainer.cite` cites them.

    Attributes:
        messages_column: The column of conversations or traces of any format that `Explainer.cite` reads, as lists,
            mappings or JSON, "messages" by default; or several columns that make a trace together, such as
            ["input", "output"].
        turn: Which of the assistant's texts is the answer, counted from 0; None for the last.
        verify: As in `Answers`.

    Raises:
        InputError: If an argument has an invalid value.
    """

    messages_column: str | Sequence[str] | None = None
    _: KW_ONLY
    turn: int | None = None
    verify: Verify = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        names = self.messages_column
        if not isinstance(names, str | None):
            if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
                raise InputError(f"messages_column= is a column or a list of columns, not {names!r}")
            object.__setattr__(self, "messages_column", tuple(dict.fromkeys(names)))
        if isinstance(self.turn, bool) or not isinstance(self.turn, int | None):
            raise InputError(f"turn is a number, not {self.turn!r}")
        object.__setattr__(self, "verify", checked_verify(self.verify))

    def with_columns(self, names: Sequence[str], *, media: bool) -> "Conversations":
        """Return the job with the columns of the conversations."""
        if isinstance(self.messages_column, tuple):
            return self
        column = _column(self.messages_column, "messages_column", ("messages",), names, "conversations")
        return replace(self, messages_column=(column,))

    def columns(self, *, media: bool) -> InputColumns:
        """Return the columns of the conversations."""
        return InputColumns({"text": TextColumn(tuple(self.messages_column or ()), conversation_cell)})

    def read(self, model: TaskModel, cells: Mapping[str, Any]) -> Answered:
        """Return the answer with the conversation before it."""
        conversation = read_conversation(json.loads(cells["text"]))
        _, answer = conversation.until(self.turn)
        if answer is None:
            raise InputError("the assistant says nothing in this conversation")
        return ask_in(model, conversation, self.turn)


JOBS: tuple[type[Job], ...] = (Predictions, Completions, Answers, Conversations)


def fields_of(kind: type) -> list[str]:
    """Return the names of the fields of a job or of another dataclass."""
    return [field.name for field in fields(kind)]


def _column(setting: object, name: str, usual: Sequence[str], names: Sequence[str], content: str) -> str:
    """Return the column of a job: the given one, or the first default name among the input's columns.

    Args:
        setting: The caller's value.
        name: The name of the setting.
        usual: The usual columns.
        names: The columns of the input; none for a stream.
        content: A description of the column's content, for the error.
    """
    if setting is not None and not isinstance(setting, str):
        raise InputError(f"{name}= is the name of a column, not {setting!r}")
    if setting:
        return setting
    column = next((column for column in usual if column in names), usual[0])
    if names and column not in names:
        option = name.replace("_", "-")
        raise DataError(f"which column holds the {content}? give {name} (--{option}), one of {', '.join(names)}")
    return column


def _check_choice(name: str, value: object, choices: Sequence[str], *, optional: bool = True) -> None:
    """Refuse a setting that is not among its choices."""
    if value not in (*choices, *([None] if optional else [])):
        raise InputError(f"{name} must be {', '.join(map(repr, choices))}{' or None' * optional}, not {value!r}")


def _plain(value: Any) -> Any:
    """Return a setting as plain values for JSON."""
    if isinstance(value, All):
        return {"all": True}  # a label may be called "all"
    if value is None or isinstance(value, str | bool):
        return value
    if hasattr(value, "__index__"):
        return int(value)
    return [_plain(part) for part in value]
