"""Conversations as prompts, with the sentences of each message as sources.

The question is no source: as with documents, sources are what an answer could be taken from.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import InputError
from ...inputs.chat import Content, ReadPrompt, has_chat_template, read_prompt
from ...model.task_model import TaskModel
from ...pipeline.completions.reasoning import opens_reasoning, reasoning_marks
from ...results.units.sentences import sentence_spans
from ...results.units.spans import MessageSpan
from ...tasks.base import generating_task
from .rendering import ChatMessage, as_parts, chat_messages, wrapping
from ..documents.conversations import Conversation, Message

Spans = dict[str, tuple[int, ...]]
"""Spans of sources by name: (start, end) in a text, or (message, start, end) in messages."""

AS_TEXT = {"tool call": "tool calls", "tool result": "results of tools", "system": "system messages"}
"""Kinds of messages that chat templates may not render, and that are written as text then."""

QUESTION_MARKS = "?？؟՞\N{GREEK QUESTION MARK}"
"""Characters at the end of a question."""

CLOSING = "\"'”’»)]"
"""Characters that may follow the punctuation at the end of a sentence."""

JSON_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)\s*(:?)')
"""A text or another scalar in JSON, and whether it is a key."""

TITLES: dict[str, str] = {
    "system": "System",
    "user": "User",
    "assistant": "Assistant",
    "reasoning": "Reasoning",
    "tool call": "Assistant",
}
"""The headings of messages in a plain text; others are the results of tools."""


@dataclass(frozen=True)
class ConversationPrompt:
    """A conversation as a prompt.

    Attributes:
        prompt: All before the answer, as one text.
        spans: Spans of the sources by name, as `Completed.with_sources` takes them; those of the question only where
            nothing else was said.
        answer: The answer, with its reasoning; None if the model has to write it.
        reasoning: Spans of the reasoning in the answer.
        question: The last message of the user before it.
        messages: All messages that the prompt holds, in its order.
    """

    prompt: ReadPrompt
    spans: Spans
    answer: str | None
    question: str
    messages: tuple[MessageSpan, ...]
    reasoning: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Rendering:
    """A conversation as a chat template renders it.

    Attributes:
        prompt: The rendered text.
        starts: Where the text of each message begins in it, by the message's place; messages not rendered are left out.
    """

    prompt: ReadPrompt
    starts: Mapping[int, int] = field(default_factory=dict)


def conversation_prompt(
    model: TaskModel, conversation: Conversation, turn: int | None = None, answer: str | None = None
) -> ConversationPrompt:
    """Write the messages before an answer as a prompt whose sources are all their sentences but the question.

    What the assistant thought right before the answer is the answer's reasoning, which no prompt holds.

    Args:
        model: A language model, which reads the prompt.
        conversation: The conversation.
        turn: Which of the assistant's texts is the answer, counted from 0; None for the last.
        answer: The answer to all of the conversation, instead of one in it.

    Raises:
        InputError: If there is no such turn, both are given, or the chat template refuses the messages.
    """
    thoughts: list[str] = []
    if answer is None:
        conversation, message = conversation.until(turn)
        answer = None if message is None else message.text
        while message is not None and conversation.messages and conversation.messages[-1].kind == "reasoning":
            thoughts.insert(0, conversation.messages[-1].text)
            conversation = replace(conversation, messages=conversation.messages[:-1])
    elif turn is not None:
        raise InputError("turn= picks an answer of the conversation; pass it or answer=")
    has_template = has_chat_template(model.reader)
    conversation = conversation.with_readable_media(
        generating_task(model).reads_medium if has_template else lambda _: False
    )
    messages = conversation.messages
    if not messages:
        raise InputError("the conversation has no text before the answer, and the reader reads nothing else of it")
    rendering = _render(model, conversation) if has_template else _as_one_text(conversation)
    notes = [*conversation.notes, *rendering.prompt.notes]
    question, question_spans = _question_of(messages)
    spans: Spans = {}
    question_sources: Spans = {}
    counts: Counter[str] = Counter()
    contents, source_messages = [], []
    for message_index, name in enumerate(message_names(messages)):
        if messages[message_index].part is not None:
            continue
        if (start := rendering.starts.get(message_index)) is None:
            notes.append(f"{name} is not in the prompt as the chat template writes it, so it is not among the sources")
            continue
        message, end = messages[message_index], start + len(messages[message_index].text)
        contents.append(Content(message.role, start, end, message_index))
        source_messages.append(MessageSpan(message.kind, start, end, name, message.name))
        for source, first_character, end_character in pieces_of(messages[message_index]):
            source_name = f"{name}:{source}"
            counts[source_name] += 1
            source_name += f" ({counts[source_name]})" if counts[source_name] > 1 else ""
            is_question = (message_index, first_character, end_character) in question_spans
            target_spans = question_sources if is_question else spans
            target_spans[source_name] = (
                (message_index, first_character, end_character)
                if has_template
                else (start + first_character, start + end_character)
            )
    prompt = replace(
        rendering.prompt, contents=tuple(contents) if has_template else None, notes=tuple(dict.fromkeys(notes))
    )
    source_messages.sort(key=lambda message: message.start)
    if not prompt.media:  # which are sources themselves
        spans = spans or question_sources
    answer, reasoning = _with_reasoning(model, prompt.text, answer, thoughts)
    return ConversationPrompt(prompt, spans, answer, question, tuple(source_messages), reasoning)


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
    """Return what the user's last message says, and its sentences that are questions: (message, start, end)."""
    number = max((message.number for message in messages if message.kind == "user"), default=None)
    places = [place for place, message in enumerate(messages) if (message.kind, message.number) == ("user", number)]
    question = "\n\n".join(messages[place].text for place in places)
    spans, first = set(), 0
    for place in places:  # several texts stand between pictures
        last = first + len(messages[place].text)
        spans |= {(place, a - first, b - first) for a, b in question_spans(question) if first <= a < last}
        first = last + 2
    return question, spans


def question_spans(text: str) -> list[tuple[int, int]]:
    """Return the sentences of a user's message that are questions, and so are not sources of the answer.

    These are the sentences that end with a question mark, or the only sentence of a message. Punctuation cannot tell
    an instruction from a fact that the answer rests on, so every other sentence stays a source.

    Args:
        text: The last message of the user before the answer.
    """
    sentences = sentence_spans(text)
    marked = [
        (start, end) for start, end in sentences if text[start:end].rstrip(CLOSING).endswith(tuple(QUESTION_MARKS))
    ]
    return marked or (sentences if len(sentences) == 1 else [])


def message_names(messages: Sequence[Message]) -> list[str]:
    """Return the name of each message: its kind and tool, with a number if the name stood before."""
    counts: dict[str, int] = {}
    names = []
    for message in messages:
        tool = " ".join(message.name.replace(":", " ").split())
        name = f"{message.kind} {tool}".strip()
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return names


def pieces_of(message: Message) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of the sources in a message: its sentences, or the fields of JSON of a tool.

    A field with several sentences is several sources.
    """
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


def _render(model: TaskModel, conversation: Conversation) -> Rendering:
    """Render a conversation by its chat template; what the template does not render is written as text.

    Reasoning that it leaves out stays out: the model does not read it either.

    Returns:
        The first rendering that holds every message; if there is none, the one that lacks the fewest.

    Raises:
        InputError: If the template refuses the messages however they are written.
    """
    ways = [(False, False), (True, False), (True, True)]  # tools as text, two roles
    ways = ways if "tool" in str(model.reader.chat_template) else ways[1:]
    best: tuple[int, Rendering] | None = None
    refusal: InputError | None = None
    for in_parts in (False, True):
        for tools_as_text, two_roles in ways:
            try:
                rendering = _render_as(model, conversation, tools_as_text, two_roles, in_parts)
            except InputError as error:
                refusal = refusal or error
                continue
            lost = sum(
                message.part is None and message.kind != "reasoning" and place not in rendering.starts
                for place, message in enumerate(conversation.messages)
            )
            if best is None or lost < best[0]:
                best = lost, rendering
            if not lost:
                return rendering
    if best is None:
        raise refusal or InputError("the chat template writes none of the messages")
    return best[1]


def _render_as(
    model: TaskModel, conversation: Conversation, tools_as_text: bool, two_roles: bool, in_parts: bool
) -> Rendering:
    """Render a conversation by the chat template, and find where each message begins in the result.

    Args:
        model: A language model with a chat template.
        conversation: The conversation.
        tools_as_text: As in `chat_messages`.
        two_roles: As in `chat_messages`.
        in_parts: Whether contents are lists of parts.
    """
    messages = conversation.messages
    chat = chat_messages(messages, tools_as_text=tools_as_text, two_roles=two_roles)
    options: dict[str, Any] = {**model.pipeline.chat, "add_generation_prompt": True, "continue_final_message": False}
    rows = [chat_message.message for chat_message in chat]
    if in_parts:
        rows = [{**row, "content": as_parts(row["content"])} for row in rows]
    prompt: dict[str, Any] = {"messages": rows}
    if conversation.tools and not tools_as_text:
        prompt["tools"] = conversation.tools
    rendered = read_prompt(model.reader, prompt, options)
    kinds = {message.kind for message in messages}
    as_text = [
        AS_TEXT[kind] for kind in AS_TEXT if kind in kinds and (two_roles if kind == "system" else tools_as_text)
    ]
    notes = []
    if as_text:
        notes.append(f"the reader's chat template does not render {', '.join(as_text)}: rendered as plain text")
    if conversation.tools and tools_as_text:
        notes.append("the definitions of the tools are not in the prompt: the reader's chat template has none")
    rendered = replace(rendered, notes=tuple(notes))
    return Rendering(rendered, _message_starts(rendered, chat, messages, tools_as_text=tools_as_text))


def _message_starts(
    rendered: ReadPrompt, chat: Sequence[ChatMessage], messages: Sequence[Message], *, tools_as_text: bool
) -> dict[int, int]:
    """Return the character at which each message begins in a rendered prompt, by the message's index.

    A message is found in the content that it is written into, behind the ones before it. A tool call, and a text whose
    content the template changes, is looked for between the contents before and after it, where it must stand once.
    Messages that are not found are left out.

    Args:
        rendered: The prompt.
        chat: The messages of the chat template.
        messages: The messages of the conversation.
        tools_as_text: Whether calls and results of tools stand in contents.
    """
    contents, starts, position = rendered.contents or (), dict[int, int](), 0
    for chat_index, (_, indices) in enumerate(chat):
        own = [content for content in contents if content.message == chat_index]
        following = (content.start for content in contents if content.message > chat_index)
        next_content = min(following, default=len(rendered.text))
        for index in indices:
            message = messages[index]
            in_content = bool(own) and (tools_as_text or message.kind != "tool call")
            before = wrapping(message, tools_as_text=tools_as_text)[0] if in_content else ""
            area = (max(position, own[0].start), own[-1].end) if in_content else (position, next_content)
            if message.kind == "tool call" and own and not in_content:
                area = (max(position, own[-1].end), next_content)
            start = rendered.text.find(before + message.text, *area)
            if start >= 0 and message.text and (in_content or rendered.text.count(message.text, *area) == 1):
                starts[index] = start + len(before)
                position = starts[index] + len(message.text)
    return starts


def _as_one_text(conversation: Conversation) -> Rendering:
    """Write a conversation as one text, for models without a chat template."""
    text, starts = "", {}
    for place, message in enumerate(conversation.messages):
        title = TITLES.get(message.kind) or f"Result of {message.name or 'the tool'}"
        before, after = wrapping(message, tools_as_text=True) if message.kind == "tool call" else ("", "")
        text += f"{title}: {before}"
        starts[place] = len(text)
        text += f"{message.text}{after}\n\n"
    return Rendering(ReadPrompt(text + "Assistant:", None), starts)
