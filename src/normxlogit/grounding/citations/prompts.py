"""A question and its documents as a prompt whose sources are the documents' sentences."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...errors import InputError
from ...inputs.chat import ReadPrompt, has_chat_template
from ...inputs.encoding import Spans
from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ...results.units.spans import MessageSpan
from ...tasks.base import generating_task
from ...text.boundaries import sentence_spans
from ...text.characters import Span, moved
from ..documents.conversations import Conversation, Message
from ..documents.documents import read_documents
from .rendering import render

SourceSpans = dict[str, Span]
"""Spans of sources by name, in characters of the prompt."""


class OtherAnswer(NamedTuple):
    """An answer to the same prompt that a call of a tool is explained against.

    Attributes:
        text: The answer in the words of the chat template.
        described: What it is called: another tool, another call of the same tool, or words.
    """

    text: str
    described: str


class CallParts(NamedTuple):
    """The parts of an answer that is a call of a tool.

    Attributes:
        tool: The name of the tool.
        spans: Where its beginning, its name and the values of its arguments are, in characters of the answer, by name.
        own_words: The names of the messages in which the assistant reasons or speaks right before it.
        other: What it is explained against; None for nothing.
    """

    tool: str
    spans: Mapping[str, tuple[int, int]]
    own_words: Strings = ()
    other: OtherAnswer | None = None


class SourcedPrompt(NamedTuple):
    """A prompt whose sources are known."""

    prompt: ReadPrompt  # all before the answer, as one text
    spans: SourceSpans  # of the sources; those of the question of a conversation only where nothing else was said
    question: str  # of a conversation the last message of the user
    messages: tuple[MessageSpan, ...] = ()  # of a conversation, those that the prompt holds
    answer: str | None = None  # in a conversation, with its reasoning; None if the model has to write it
    reasoning: Spans = ()  # spans of the reasoning in the answer
    unread: str = ""  # the names of the documents; of a conversation the texts of messages that the prompt lacks
    call: CallParts | None = None  # of an answer that is a call of a tool


def question_prompt(model: TaskModel, question: str | None, documents: Any, system: str | None) -> SourcedPrompt:
    """Write a question with its documents as a prompt, whose sources are the documents' sentences: "notes.txt:3".

    Pictures among the documents stand before the text.
    """
    question, system = _text("question", question), _text("system message", system)
    if not question.strip():
        raise InputError("the question is empty")
    named, pictures = read_documents(documents)
    text, spans = _with_documents(named)
    if not spans and not pictures:
        raise InputError("the documents hold no sentence")
    text += f"Question: {question.strip()}"
    if not has_chat_template(model.reader):
        if pictures:
            raise InputError("pictures among documents stand in messages, and the model has no chat template for these")
        before = model.pipeline.prefix + (f"{system.strip()}\n\n" if system else "")
        # None: the prompt is one text, without messages.
        prompt, shift = ReadPrompt(f"{before}{text}\nAnswer:", None), len(before)
    else:
        prompt, shift = _as_chat(model, text, pictures.values(), system)
    placed = {name: moved(span, shift) for name, span in spans.items()}
    return SourcedPrompt(prompt, placed, question, unread="\n".join(named))


def _text(name: str, value: str | None) -> str:
    """Return a text that was given, or an empty one."""
    if not isinstance(value, str | None):
        raise InputError(f"a {name} is a text, not {type(value).__name__}: call cite for each of several")
    return value or ""  # None where it was not given


def _with_documents(named: Mapping[str, str]) -> tuple[str, SourceSpans]:
    """Return documents as one text, each under its name if there are several, and where their sentences are in it."""
    text, spans = "", SourceSpans()
    for name, document in named.items():
        text += f"{name}:\n" if len(named) > 1 else ""
        for number, span in enumerate(sentence_spans(document), start=1):
            spans[f"{name}:{number}"] = moved(span, len(text))
        text += document.rstrip() + "\n\n"  # no span moves: white space at the end is in no sentence
    return text, spans


def with_heading(text: str, name: str, start: int) -> int:
    """Return where a document begins in a prompt, with its name above it if that stands there.

    Args:
        text: The prompt.
        name: The name of the document.
        start: Where its first sentence begins.
    """
    before = text[:start].rstrip()
    return len(before) - len(name) - 1 if before.endswith(f"{name}:") else start  # 1 of the colon


def _as_chat(model: TaskModel, text: str, pictures: Iterable[Any], system: str) -> tuple[ReadPrompt, int]:
    """Render a text as a message of the user, and return the prompt and where the text begins in it."""
    shown = [Message("picture", "", "user", 1, part={"type": "image", "image": picture}) for picture in pictures]
    instructions = [Message("system", system, "system", 0)] if system else []
    messages = (*instructions, *shown, Message("user", text, "user", 1))
    prompt, starts, _ = render(model, Conversation(messages))
    for medium in prompt.media:
        generating_task(model).check_reads(model, medium.kind)
    if (start := starts.get(len(messages) - 1)) is None:
        raise InputError("the chat template does not write the message with the documents once and as it is")
    return prompt, start
