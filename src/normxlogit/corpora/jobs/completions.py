"""Completions of prompts, and answers with documents or in conversations: which sources each rests on.

Functions of the latter import the wing `grounding`, which reads and cites them, so that all other jobs work without it.
"""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, get_args

from ...errors import InputError, check_choice
from ...inputs.chat import Prompt
from ...inputs.texts import positive_integer
from ...leave_out.picking import Verify
from ...long_runs.cells import text_of
from ...model.task_model import TaskModel
from ...pipeline.arguments import checked_methods
from ...pipeline.completions.completed_prompts import encode_prompt, generate_each, read_completion
from ...pipeline.completions.sources import explain_sources
from ...pipeline.options import Options, checked_verify
from ...results.base import Record
from ...results.units.kinds import PartKind, SourceKind
from ...tasks.base import generating_task
from .base import Job, column
from .steps import Step

Cells = Mapping[str, Any]
"""What a job reads of a row, by the roles of the columns."""

GENERATED_AT_ONCE = 8
"""Prompts that are completed in one batch."""

TEXTS_OF_SOURCES = ("text", "units", "target", "question", "sentence_missing", "result_json")
"""Columns of results that hold text of the input."""


class CompletionJob(Job):
    """The base of jobs whose rows are prompts with completions."""

    max_new_tokens: int | None = None

    @abstractmethod
    def row(self, model: TaskModel, cells: Cells) -> Any:
        """Return a row with its completion, or a prompt for the model to complete.

        Args:
            model: The model.
            cells: The cells of the row, by role.
        """

    @abstractmethod
    def result(self, model: TaskModel, row: Any, options: Options) -> tuple[Record, int]:
        """Return the result of a row with its completion, and how many tokens were explained.

        Args:
            model: The model.
            row: The row with its completion.
            options: How it is explained.
        """

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of texts, if they were not asked for."""
        return [] if keep_text else [*TEXTS_OF_SOURCES]

    def model_of(self, model: TaskModel) -> TaskModel:
        """Return the part of the model that generates."""
        model = model.generating()
        generating_task(model)
        return model

    def steps(self, model: TaskModel, options: Options) -> Sequence[Step]:
        """Return the steps: a prompt is tokenised, completed if the input has no completions, and explained."""
        settings = {"max_new_tokens": self.max_new_tokens}
        read = Step(lambda rows: [self.row(model, cells) for cells in rows], at_once=1, row_errors=InputError)
        generate = Step(lambda prompts: generate_each(model, prompts, settings), at_once=GENERATED_AT_ONCE)
        explain = Step(
            lambda rows: [self.result(model, row, options) for row in rows], at_once=1, row_errors=InputError
        )
        return [read, explain] if self.max_new_tokens is None else [read, generate, explain]


@checked_methods
@dataclass(frozen=True)
class Completions(CompletionJob):
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

    prompt_column: str | None = column("prompt")
    completion_column: str | None = column("completion")
    _: KW_ONLY
    max_new_tokens: int | None = None
    sources: SourceKind = "sentence"
    parts: PartKind | None = None
    image_column: str | None = column(is_media=True)
    audio_column: str | None = column(is_media=True)

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        check_choice("sources", self.sources, get_args(SourceKind), optional=False)
        check_choice("parts", self.parts, get_args(PartKind))
        if self.max_new_tokens is not None:
            positive_integer(self.max_new_tokens, "max_new_tokens")
            if self.completion_column is not None:
                raise InputError("completions come from a column or from the model: give one of the two, not both")

    def roles(self, *, reads_media: bool) -> dict[str, Sequence[str]]:
        """Return the prompts, their pictures and sounds, and the completions unless the model generates them."""
        roles = super().roles(reads_media=reads_media)
        if self.max_new_tokens is not None:
            del roles["completion"]
        return roles

    def row(self, model: TaskModel, cells: Cells) -> Any:
        """Return the prompt with its completion, or alone if the model generates it."""
        cell = cells["prompt"]
        prompt: Prompt = cell if isinstance(cell, list) else text_of(cell, self.prompt_column)
        media = [{"type": kind, kind: cells[kind]} for kind in ("image", "audio") if kind in cells]
        if media and not isinstance(prompt, str):
            raise InputError("chat messages hold their pictures and sounds themselves, and not in a column")
        if media:
            prompt = [{"role": "user", "content": [*media, {"type": "text", "text": prompt}]}]
        if self.max_new_tokens is None:
            return read_completion(model, prompt, text_of(cells["completion"], self.completion_column))
        encode_prompt(model, prompt)  # raises InputError for a prompt that cannot be continued
        return prompt

    def result(self, model: TaskModel, row: Any, options: Options) -> tuple[Record, int]:
        """Return the sources of a completion."""
        return explain_sources(model, row, options, self.sources, self.parts), len(row.encoding)


class CitationJob(CompletionJob):
    """The base of jobs that cite each sentence of an answer."""

    kind: ClassVar[str] = "citations"
    verify: Verify = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        object.__setattr__(self, "verify", checked_verify(self.verify))

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of tests and texts that were not asked for."""
        from ...grounding.columns import TESTED

        return [*super().absent_columns(keep_text=keep_text), *(TESTED if self.verify is None else [])]

    def result(self, model: TaskModel, row: Any, options: Options) -> tuple[Record, int]:
        """Return the answer with its citations."""
        from ...grounding.citations.cite import cite_answered

        return cite_answered(model, row, options), len(row.completed.encoding)


@checked_methods
@dataclass(frozen=True)
class Answers(CitationJob):
    """Which sentences of the documents each sentence of an answer rests on, as `Explainer.cite` cites them.

    Attributes:
        question_column: The column of the questions, "question" by default.
        answer_column: The column of the answers, "answer" by default.
        documents_column: The column of the documents, "documents" by default: texts, mappings of them by name, or
            lists of what retrievers return.
        verify: Test the citations as `Explainer.cite` does, by the same word. By default nothing is tested.

    Raises:
        InputError: If an argument has an invalid value.
    """

    question_column: str | None = column("question")
    answer_column: str | None = column("answer")
    documents_column: str | None = column("documents")
    _: KW_ONLY
    verify: Verify = None

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of conversations too."""
        from ...grounding.columns import CONVERSATION

        return [*CONVERSATION, *super().absent_columns(keep_text=keep_text)]

    def row(self, model: TaskModel, cells: Cells) -> Any:
        """Return the answer with its question and documents."""
        from ...grounding.citations.cited_answer import read_answered

        question = text_of(cells["question"], self.question_column)
        answer = text_of(cells["answer"], self.answer_column)
        return read_answered(model, question, cells["documents"], answer=answer)


@checked_methods
@dataclass(frozen=True)
class Conversations(CitationJob):
    """Which messages each sentence of an answer in a conversation rests on, as `Explainer.cite` cites them.

    Attributes:
        messages_column: The column of the messages of conversations, as lists, mappings or JSON; "messages" by default.
        tools_column: The column of the definitions of their tools, if they are not beside the messages.
        turn: Which of the assistant's texts is the answer, counted from 0; None for the last.
        verify: As in `Answers`.

    Raises:
        InputError: If an argument has an invalid value.
    """

    messages_column: str | None = column("messages")
    _: KW_ONLY
    tools_column: str | None = column()
    turn: int | None = None
    verify: Verify = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        super().__post_init__()
        if isinstance(self.turn, bool) or not isinstance(self.turn, int | None):
            raise InputError(f"turn is a number, not {self.turn!r}")

    def row(self, model: TaskModel, cells: Cells) -> Any:
        """Return the answer with the conversation before it."""
        from ...grounding.citations.cited_answer import read_answered
        from ...grounding.documents.conversations import read_conversation

        messages = _from_json(cells["messages"], self.messages_column)
        tools = _from_json(cells.get("tools"), self.tools_column)
        if messages is None:
            raise InputError(f"no conversation: column {self.messages_column!r} is null")
        conversation = read_conversation(messages if tools is None else {"messages": messages, "tools": tools})
        if not conversation.ends_with_call and conversation.until(self.turn).answer is None:
            raise InputError("the assistant says nothing in this conversation")
        return read_answered(model, None, messages=conversation, turn=self.turn)


def _from_json(value: Any, column: str | None) -> Any:
    """Return what a cell of JSON holds; anything else unchanged, also text that is not JSON, which others refuse."""
    if not isinstance(value, str | bytes):
        return value
    text = text_of(value, column)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
