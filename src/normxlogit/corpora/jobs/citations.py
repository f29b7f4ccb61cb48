"""Answers with documents, and answers in conversations: which sources each of their sentences rests on.

Functions import the wing `grounding`, which reads and cites them, so that all other jobs work without it.
"""

import json
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from ...errors import InputError
from ...leave_out.picking import Verify
from ...long_runs.cells import text_of
from ...model.task_model import TaskModel
from ...pipeline.arguments import checked_methods
from ...pipeline.options import Options, checked_verify
from ...results.base import Record
from .base import column
from .completions import Cells, CompletionJob


class CitationJob(CompletionJob):
    """The base of jobs that cite each sentence of an answer."""

    kind: ClassVar[str] = "citations"
    verify: Verify = None  # a field of each job, which declares it in its own order

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        object.__setattr__(self, "verify", checked_verify(self.verify))  # as jobs are frozen dataclasses

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of tests and texts that were not asked for."""
        from ...grounding.columns import TESTED

        return [*super().absent_columns(keep_text=keep_text), *(TESTED if self.verify is None else [])]

    def result(self, model: TaskModel, row: Any, options: Options) -> tuple[Record, int]:
        """Return the answer with its citations, and the number of tokens of prompt and answer; rows are `Answered`."""
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
        # What ends with a call of a tool has this call as its answer; otherwise one would be generated.
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
    except (ValueError, RecursionError):  # not JSON, or nested too deep
        return text
