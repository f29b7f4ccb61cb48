"""The messages before an answer as a prompt whose sources are all their sentences but the question."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...errors import InputError
from ...inputs.chat import Content, has_chat_template
from ...inputs.texts import numbered
from ...model.task_model import TaskModel
from ...pipeline.completions.completed_prompts import opens_reasoning, reasoning_marks
from ...results.units.spans import MessageSpan
from ...tasks.base import generating_task
from ...text.boundaries import sentence_spans
from ..documents.conversations import UNREAD, Conversation, Message
from .prompts import SourcedPrompt, SourceSpans
from .rendering import render

QUESTION_MARKS = "?？؟՞\N{GREEK QUESTION MARK}"
"""Characters at the end of a question."""

CLOSING = "\"'”’»)]"
"""Characters that may follow the punctuation at the end of a sentence."""

JSON_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)\s*(:?)')
"""A text or another scalar in JSON, and whether it is a key."""


def conversation_prompt(
    model: TaskModel, conversation: Conversation, turn: int | None = None, answer: str | None = None
) -> SourcedPrompt:
    """Write the messages before an answer as a prompt whose sources are all their sentences but the question.

    What the assistant thought right before the answer is the answer's reasoning, which no prompt holds.
    """
    thoughts, task = list[str](), generating_task(model)
    if answer is None:
        conversation, message = conversation.until(turn)
        answer = None if message is None else message.text
        while message is not None and conversation.messages and conversation.messages[-1].kind == "reasoning":
            thoughts.insert(0, conversation.messages[-1].text)
            conversation = replace(conversation, messages=conversation.messages[:-1])
    elif turn is not None:
        raise InputError("turn= picks an answer of the conversation; pass it or answer=")
    has_template, notes = has_chat_template(model.reader), [*conversation.notes]
    messages = tuple(m for m in conversation.messages if m.part is None or (has_template and task.reads_medium(m.kind)))
    notes += [UNREAD.format(m.number, m.part["type"]) for m in conversation.messages if m not in messages]
    if not messages:
        raise InputError("the conversation has no text before the answer, and the reader reads nothing else of it")
    prompt, starts = render(model, replace(conversation, messages=messages))
    notes += prompt.notes
    question, question_spans = _question_of(messages)
    message_spans, contents = list[MessageSpan](), list[Content]()
    pieces: list[tuple[str, tuple[int, int], bool]] = []  # name, span, whether it is of the question
    called = numbered(" ".join([m.kind, *m.name.replace(":", " ").split()]) for m in messages)
    for index, (message, name) in enumerate(zip(messages, called, strict=True)):
        if message.part is not None:
            continue
        if (start := starts.get(index)) is None:
            notes.append(f"{name} is not in the prompt as the chat template writes it, so it is not among the sources")
            continue
        end = start + len(message.text)
        contents.append(Content(message.role, start, end, index))
        message_spans.append(MessageSpan(message.kind, start, end, name, message.name))
        pieces += [
            (f"{name}:{source}", (start + first, start + last), (index, first, last) in question_spans)
            for source, first, last in pieces_of(message)
        ]
    names = numbered(name for name, *_ in pieces)
    spans: SourceSpans = {name: span for name, (_, span, asked) in zip(names, pieces, strict=True) if not asked}
    known_contents = tuple(contents) if has_template else None
    prompt = replace(prompt, contents=known_contents, notes=tuple(dict.fromkeys(notes)))
    if not spans and not prompt.media:  # which are sources themselves
        spans = {name: span for name, (_, span, _) in zip(names, pieces, strict=True)}
    answer, reasoning = _with_reasoning(model, prompt.text, answer, thoughts)
    by_start = tuple(sorted(message_spans, key=lambda span: span.start))
    return SourcedPrompt(prompt, spans, question, by_start, answer, reasoning)


def _with_reasoning(
    model: TaskModel, prompt: str, answer: str | None, thoughts: Sequence[str]
) -> tuple[str | None, tuple[tuple[int, int], ...]]:
    """Return an answer with its reasoning before it, in the marks of the chat template, and the reasoning's spans."""
    if answer is None or not thoughts:
        return answer, ()
    opening, ending = reasoning_marks(model.reader)
    before, reasoning = "" if opens_reasoning(prompt, opening) else f"{opening}\n", "\n".join(thoughts)
    return f"{before}{reasoning}\n{ending}\n\n{answer}", ((len(before), len(before) + len(reasoning)),)


def _question_of(messages: Sequence[Message]) -> tuple[str, set[tuple[int, int, int]]]:
    """Return what the user's last message says, and its sentences that are questions: (message, start, end).

    These are not sources of the answer: the sentences that end with a question mark, or the only sentence of a message.
    Punctuation cannot tell an instruction from a fact that the answer rests on, so every other sentence is a source.
    """
    number = max((message.number for message in messages if message.kind == "user"), default=None)
    texts = {i: m.text for i, m in enumerate(messages) if (m.kind, m.number) == ("user", number)}
    question, spans, first = "\n\n".join(texts.values()), set(), 0
    sentences = sentence_spans(question)
    marked = [(a, b) for a, b in sentences if question[a:b].rstrip(CLOSING).endswith(tuple(QUESTION_MARKS))]
    for place, text in texts.items():  # several texts stand between pictures
        for start, end in marked or (sentences if len(sentences) == 1 else []):
            spans |= {(place, start - first, end - first)} if first <= start < first + len(text) else set()
        first += len(text) + 2
    return question, spans


def pieces_of(message: Message) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of the sources in a message: its sentences, or those of a tool's fields of JSON."""
    fields = json_fields(message.text) if message.kind in ("tool call", "tool result") else []
    for key, start, end in fields or [("", 0, len(message.text))]:
        sentences = sentence_spans(message.text[start:end])
        for number, (first, last) in enumerate(sentences, start=1):
            name = key if key and len(sentences) == 1 else f"{key} {number}".strip()
            yield name, start + first, start + last


def json_fields(text: str) -> list[tuple[str, int, int]]:
    """Return key, start and end of each text, number and boolean in JSON; none if it is not an object or an array.

    A field begins with its key: of '{"a": {"b": 1}, "c": ["x"]}' they are "b" with '"b": 1', and "c" with '"x"'.
    """
    try:
        if not isinstance(json.loads(text), dict | list):
            return []
    except (ValueError, RecursionError):
        return []
    fields, key, key_span = [], "", (0, 0)
    for token in JSON_TOKEN.finditer(text):
        value = json.loads(token[1])
        if token[2]:
            key, key_span = str(value), token.span()
        elif value is not None and str(value).strip():
            follows_key = not text[key_span[1] : token.start()].strip()
            fields.append((key, key_span[0] if follows_key else token.start(), token.end(1)))
    return fields
