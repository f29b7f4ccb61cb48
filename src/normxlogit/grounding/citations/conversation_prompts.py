"""The messages before an answer as a prompt whose sources are all their sentences but the question."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...errors import InputError
from ...inputs.chat import Content, has_chat_template
from ...inputs.encoding import Spans
from ...inputs.texts import numbered
from ...model.task_model import TaskModel
from ...pipeline.completions.reasoning import opens_reasoning, reasoning_marks
from ...results.units.spans import MessageSpan
from ...tasks.base import generating_task
from ...text.boundaries import sentence_spans
from ...text.characters import Span, moved
from ..documents.conversations import UNREAD, Conversation, Message, UpToAnswer
from ..facts import asks
from .prompts import SourcedPrompt, SourceSpans
from .rendering import Rendering, render

LOST = "{} is not in the prompt as the chat template writes it, so it is not among the sources"
"""The note of a message that is not found in a prompt."""

JSON_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)\s*(:?)')
"""A text or another scalar in JSON, and whether it is a key."""


def conversation_prompt(model: TaskModel, up_to_answer: UpToAnswer) -> SourcedPrompt:
    """Write the messages before an answer as a prompt whose sources are all their sentences but the question.

    What the assistant thought right before the answer is the answer's reasoning, which no prompt holds.
    """
    conversation, answer, thoughts = up_to_answer
    conversation = readable(model, conversation)
    sourced = sourced_messages(conversation, render(model, conversation))
    answer, reasoning = _with_reasoning(model, sourced.prompt.text, answer, thoughts)
    return sourced._replace(answer=answer, reasoning=reasoning)


def sourced_messages(conversation: Conversation, rendering: Rendering, *, with_question: bool = False) -> SourcedPrompt:
    """Return the rendered messages before an answer as a prompt with sources.

    Args:
        conversation: The messages.
        rendering: The prompt, and where each message begins in it.
        with_question: Whether the sentences of the question are sources as well.
    """
    prompt, starts = rendering.prompt, rendering.starts
    messages = conversation.messages
    names = _names_of(messages)
    placed = {index: _placed(messages[index], names[index], start) for index, start in starts.items()}
    unread = _unread(messages, starts)
    question, asked = _question_of(messages, starts)
    sources = _source_spans(messages, placed)
    said = {name: span for name, span in sources.items() if with_question or span not in asked}
    notes = dict.fromkeys([*conversation.notes, *prompt.notes, *(LOST.format(names[index]) for index in unread)])
    contents = None if prompt.contents is None else _contents(messages, placed)  # None of a prompt that is one text
    return SourcedPrompt(
        replace(prompt, notes=tuple(notes), contents=contents),
        spans=said if said or prompt.media else sources,  # the question is all there is: then it is the source
        question=question,
        messages=tuple(placed.values()),
        unread="\n".join(messages[index].text for index in unread),
    )


def _unread(messages: Sequence[Message], starts: Mapping[int, int]) -> list[int]:
    """Return the indices of the texts that are not in a prompt as they were written."""
    return [index for index, message in enumerate(messages) if index not in starts and message.part is None]


def _names_of(messages: Sequence[Message]) -> list[str]:
    """Return the names of messages, such as "tool result search (2)"; none has a colon, which ends it in a source's."""
    return numbered(" ".join([m.kind, *m.name.replace(":", " ").split()]) for m in messages)


def _placed(message: Message, name: str, start: int) -> MessageSpan:
    """Return where a message stands in a prompt, from the character at which it starts."""
    end = start + len(message.text)
    return MessageSpan(role=message.kind, start=start, end=end, name=name, tool=message.name)


def _contents(messages: Sequence[Message], placed: Mapping[int, MessageSpan]) -> tuple[Content, ...]:
    """Return where the messages of a prompt stand, as a prompt holds that."""
    return tuple(Content(messages[index].role, span.start, span.end, message=index) for index, span in placed.items())


def readable(model: TaskModel, conversation: Conversation) -> Conversation:
    """Return a conversation without the pictures and sounds that a model does not read, with a note for each."""
    # Without a chat template nothing says where a picture stands in a text.
    reads_medium = generating_task(model).reads_medium if has_chat_template(model.reader) else lambda _: False
    unread = [m for m in conversation.messages if m.part is not None and not reads_medium(m.kind)]
    # Two messages without a text are equal where kind and number are, and then both are unread.
    messages = tuple(m for m in conversation.messages if m not in unread)
    if not messages:
        raise InputError("the conversation has no text before the answer, and the reader reads nothing else of it")
    notes = [UNREAD.format(m.number, m.part["type"]) for m in unread]
    return replace(conversation, messages=messages, notes=(*conversation.notes, *notes))


def _source_spans(messages: Sequence[Message], placed: Mapping[int, MessageSpan]) -> SourceSpans:
    """Return the sources of messages by name, from where the messages stand in a prompt."""
    names, spans = list[str](), list[Span]()
    for index, message in placed.items():
        for name, span in pieces_of(messages[index]):
            names.append(f"{message.name}:{name}")
            spans.append(moved(span, message.start))
    return dict(zip(numbered(names), spans, strict=True))


def _with_reasoning(
    model: TaskModel, prompt: str, answer: str | None, thoughts: Sequence[str]
) -> tuple[str | None, Spans]:
    """Return an answer with its reasoning before it, in the marks of the chat template, and the reasoning's spans."""
    if not thoughts:
        return answer, ()
    # Where the template has written the opening mark at the end of the prompt, it is not written again.
    opening, ending = reasoning_marks(model.reader)
    before, reasoning = "" if opens_reasoning(prompt, opening) else f"{opening}\n", "\n".join(thoughts)
    return f"{before}{reasoning}\n{ending}\n\n{answer}", ((len(before), len(before) + len(reasoning)),)


def _question_of(messages: Sequence[Message], starts: Mapping[int, int]) -> tuple[str, set[Span]]:
    """Return what the user's last message says, and its sentences that are questions, as spans of the prompt.

    These are not sources of the answer: the sentences that end with a question mark, or the only sentence of a message.
    Punctuation cannot tell an instruction from a fact that the answer rests on, so every other sentence is a source.

    Args:
        messages: The messages, of which one holds several texts between pictures.
        starts: Where each begins in the prompt, by its place.
    """
    number = max((message.number for message in messages if message.kind == "user"), default=None)
    asked = {place: m.text for place, m in enumerate(messages) if (m.kind, m.number) == ("user", number)}
    sentences = {
        moved(span, starts[place]): asked[place][slice(*span)]
        for place in starts.keys() & asked.keys()
        for span in sentence_spans(asked[place])
    }
    marked = {span for span, sentence in sentences.items() if asks(sentence)}
    question = "\n\n".join(asked.values())
    return question, set(sentences) if len(sentences) == 1 else marked  # the only one is what is asked, in any form


def pieces_of(message: Message) -> Iterator[tuple[str, Span]]:
    """Yield the name and the span of each source in a message: its sentences, or those of a tool's fields of JSON."""
    fields = json_fields(message.text) if message.kind in ("tool call", "tool result") else []
    for key, (start, end) in fields or [("", (0, len(message.text)))]:  # without fields, the whole text
        sentences = sentence_spans(message.text[start:end])
        for number, sentence in enumerate(sentences, start=1):
            name = key if key and len(sentences) == 1 else f"{key} {number}".strip()
            yield name, moved(sentence, start)


def json_fields(text: str) -> list[tuple[str, Span]]:
    """Return key and span of each text, number and boolean in JSON; none if it is not an object or an array.

    A field begins with its key: of '{"a": {"b": 1}, "c": ["x"]}' they are "b" with '"b": 1', and "c" with '"x"'.
    """
    try:
        if not isinstance(json.loads(text), dict | list):
            return []
    except (ValueError, RecursionError):
        return []
    fields, key, key_span = [], "", (0, 0)  # the last key that was read
    for token in JSON_TOKEN.finditer(text):
        value = json.loads(token[1])
        if token[2]:
            key, key_span = str(value), token.span()
        elif value is not None and str(value).strip():
            follows_key = not text[key_span[1] : token.start()].strip()  # not a further entry of an array
            start = key_span[0] if follows_key else token.start()
            fields.append((key, (start, token.end(1))))
    return fields
