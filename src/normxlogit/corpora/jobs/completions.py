"""Completions of prompts, answers with documents, and answers in conversations: which sources they rest on."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Generic, TypeVar, get_args

from ...errors import InputError
from ...grounding.citations.cite import Answered, ask, ask_in, cite_answered
from ...grounding.columns import CONVERSATION, TESTED
from ...grounding.documents.conversations import read_conversation
from ...grounding.result import Citations
from ...inputs.chat import ChatTemplateError, Prompt
from ...inputs.texts import positive_integer
from ...media.rows import BESIDE, MEDIUM
from ...model.task_model import TaskModel
from ...pipeline.arguments import checked_methods
from ...pipeline.completions.completed_prompts import Completed, encode_prompt, generate_each, read_completion
from ...pipeline.completions.sources import explain_sources, sources_and_parts
from ...pipeline.options import Options, VerifyCount, checked_count
from ...results.attribution import Attribution
from ...results.units.spans import PartKind, PartSpec, SourceKind, SourceSpec
from ..rows.cells import conversation_cell, documents_cell, prompt_cell, text_cell
from .base import ExplainedRows, Job, ReadRows, Reads, Together, check_choice

Row = TypeVar("Row", Completed, Answered)

GENERATED_AT_ONCE = 8
"""Prompts that are completed in one batch."""

TEXTS_OF_SOURCES = ("text", "units", "target", "question")
"""Columns of results that hold text of the input."""


class CompletionJob(Job, Generic[Row]):
    """The base of jobs whose rows are prompts with completions; a `Row` is one as the model reads it.

    Attributes:
        max_new_tokens: Most tokens that the model generates for each; None if completions are written already.
        verify: How citations are tested; None if they are not.
    """

    kind: ClassVar[str] = Citations.kind
    max_new_tokens: int | None = None
    verify: VerifyCount = None

    @abstractmethod
    def row(self, model: TaskModel, cells: Mapping[str, Any]) -> Row | Prompt:
        """Return a row with its completion, or a prompt for the model to complete.

        Raises:
            InputError: If it cannot be read.
        """

    @abstractmethod
    def divided(self, row: Row) -> tuple[Completed, SourceSpec, PartSpec]:
        """Return the prompt with its completion, and how the two are divided into sources and into parts."""

    @abstractmethod
    def result(self, model: TaskModel, row: Row, options: Options) -> Attribution | Citations:
        """Return the result of a row."""

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of tests and texts that were not asked for."""
        return [*([] if keep_text else TEXTS_OF_SOURCES), *(TESTED if self.verify is None else [])]

    def model_of(self, model: TaskModel) -> TaskModel:
        """Return the part of the model that generates."""
        model = model.generating()
        model.task.check_generates(model)
        return model

    def read(self, model: TaskModel, rows: list[dict[str, Any]], together: Together) -> ReadRows:
        """Tokenise prompts, with the completions of the input."""
        read_rows: dict[int, Any] = {}
        problems: dict[int, str] = {}

        def read(places: list[int]) -> None:
            try:
                read_rows[places[0]] = self.row(model, rows[places[0]])
            except ChatTemplateError:
                raise  # the model's fault and not the row's
            except InputError as error:
                problems[places[0]] = str(error)

        together(read, range(len(rows)), problems.__setitem__, at_once=1)
        return ReadRows([*read_rows.values()], problems)

    def explain(self, model: TaskModel, rows: ReadRows, options: Options, together: Together) -> ExplainedRows:
        """Generate the completions that the input lacks, and explain the sources of each."""
        completed: dict[int, Any] = dict(enumerate(rows.inputs))
        problems: dict[int, str] = {}
        results: dict[int, Attribution | Citations] = {}
        tokens: list[int] = []

        def generate(places: list[int]) -> None:
            generated = generate_each(
                model, [rows.inputs[place] for place in places], {"max_new_tokens": self.max_new_tokens}
            )
            completed.update(zip(places, generated, strict=True))

        def explain(places: list[int]) -> None:
            row = completed[places[0]]
            prompt, sources, parts = self.divided(row)
            try:
                sources_and_parts(prompt, sources, parts)
            except InputError as error:  # the row's fault, however many there are
                problems[places[0]] = str(error)
                return
            results[places[0]] = self.result(model, row, options)
            tokens.append(len(prompt.encoding))

        if self.max_new_tokens is not None:
            together(generate, [*completed], problems.__setitem__, at_once=GENERATED_AT_ONCE)
        together(explain, [i for i in completed if i not in problems], problems.__setitem__, at_once=1)
        return ExplainedRows([], [], results, problems, sum(tokens))


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

    kind: ClassVar[str] = "sources"

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
        check_choice("sources", self.sources, get_args(SourceKind), optional=False)
        check_choice("parts", self.parts, get_args(PartKind))
        if self.max_new_tokens is not None:
            positive_integer(self.max_new_tokens, "max_new_tokens")
            if self.completion_column is not None:
                raise InputError("completions come from a column or from the model: give one of the two, not both")

    def reads(self, *, media: bool) -> dict[str, Reads]:
        """Return the prompts, their pictures and sounds, and the completions."""
        content = "completions (max_new_tokens lets the model generate them)"
        written = {"completion_column": Reads("completion", text_cell, ("completion",), content)}
        return {
            "prompt_column": Reads("text", prompt_cell, ("prompt",), "prompts"),
            **(written if self.max_new_tokens is None else {}),
            "image_column": Reads(BESIDE["image"]),
            "audio_column": Reads(BESIDE["audio"]),
        }

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of texts, if they were not asked for."""
        return [] if keep_text else [*TEXTS_OF_SOURCES]

    def row(self, model: TaskModel, cells: Mapping[str, Any]) -> Completed | Prompt:
        """Return the prompt with its completion, or alone if the model generates it."""
        prompt: Prompt = json.loads(cells["text"])
        media = [{"type": kind, kind: cells[name + MEDIUM]} for kind, name in BESIDE.items() if name + MEDIUM in cells]
        if media and not isinstance(prompt, str):
            raise InputError(
                "the prompt is chat messages, which hold their pictures and sounds themselves, and not in a column"
            )
        if media:
            prompt = [{"role": "user", "content": [*media, {"type": "text", "text": prompt}]}]
        if self.max_new_tokens is None:
            return read_completion(model, prompt, cells["completion"])
        encode_prompt(model, prompt)  # raises InputError for a prompt that cannot be continued
        return prompt

    def divided(self, row: Completed) -> tuple[Completed, SourceSpec, PartSpec]:
        """Return the prompt with its completion, and the division that the caller asked for."""
        return row, self.sources, self.parts

    def result(self, model: TaskModel, row: Completed, options: Options) -> Attribution:
        """Return the sources of a completion."""
        return explain_sources(model, row, options, self.sources, self.parts)


class CitationJob(CompletionJob[Answered]):
    """The base of jobs that cite each sentence of an answer."""

    def divided(self, row: Answered) -> tuple[Completed, SourceSpec, PartSpec]:
        """Return the prompt with the answer, the named sources, and sentences as the parts of the answer."""
        return row.completed, row.completed.named_sources, "sentence"

    def result(self, model: TaskModel, row: Answered, options: Options) -> Citations:
        """Return the answer with its citations."""
        return cite_answered(model, row, options)


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
    verify: VerifyCount = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        object.__setattr__(self, "verify", checked_count(self.verify))

    def reads(self, *, media: bool) -> dict[str, Reads]:
        """Return the questions, the answers and their documents."""
        return {
            "question_column": Reads("text", text_cell, ("question",), "questions"),
            "answer_column": Reads("completion", text_cell, ("answer",), "answers"),
            "documents_column": Reads("documents", documents_cell, ("documents",), "documents"),
        }

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of conversations too."""
        return [*CONVERSATION, *super().absent_columns(keep_text=keep_text)]

    def row(self, model: TaskModel, cells: Mapping[str, Any]) -> Answered:
        """Return the answer with its question and documents."""
        question, documents = cells["text"], json.loads(cells["documents"])
        return Answered(ask(model, question, documents, answer=cells["completion"], longer=True), question)


@checked_methods
@dataclass(frozen=True)
class Conversations(CitationJob):
    """Which messages each sentence of an answer in a conversation rests on, as `Explainer.cite` cites them.

    Attributes:
        messages_column: The column of the messages of conversations, as lists, mappings or JSON, "messages" by default;
            or several columns, such as ["messages", "tools"].
        turn: Which of the assistant's texts is the answer, counted from 0; None for the last.
        verify: As in `Answers`.

    Raises:
        InputError: If an argument has an invalid value.
    """

    messages_column: str | Sequence[str] | None = None
    _: KW_ONLY
    turn: int | None = None
    verify: VerifyCount = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        names = self.messages_column
        if not isinstance(names, str | None):
            if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
                raise InputError(f"messages_column= is a column or a list of columns, not {names!r}")
            object.__setattr__(self, "messages_column", tuple(dict.fromkeys(names)))
        if isinstance(self.turn, bool) or not isinstance(self.turn, int | None):
            raise InputError(f"turn is a number, not {self.turn!r}")
        object.__setattr__(self, "verify", checked_count(self.verify))

    def reads(self, *, media: bool) -> dict[str, Reads]:
        """Return the conversations."""
        return {"messages_column": Reads("text", conversation_cell, ("messages",), "conversations")}

    def row(self, model: TaskModel, cells: Mapping[str, Any]) -> Answered:
        """Return the answer with the conversation before it."""
        conversation = read_conversation(json.loads(cells["text"]))
        _, answer = conversation.until(self.turn)
        if answer is None:
            raise InputError("the assistant says nothing in this conversation")
        return ask_in(model, conversation, self.turn)
