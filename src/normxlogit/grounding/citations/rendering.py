"""Conversations as the messages of chat templates."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ..documents.conversations import Message, parsed_arguments


class ChatMessage(NamedTuple):
    """A message of a chat template, made of one or several messages of the conversation.

    Attributes:
        message: The message as chat templates expect it.
        indices: The messages that it is made of, in the order of their texts; calls of tools come last.
    """

    message: dict[str, Any]
    indices: tuple[int, ...]


def chat_messages(messages: Sequence[Message], *, tools_as_text: bool, two_roles: bool) -> list[ChatMessage]:
    """Return a conversation as messages of a chat template.

    Args:
        messages: The conversation.
        tools_as_text: Whether calls and results of tools are texts of the assistant and the user.
        two_roles: Whether system messages are the user's, and messages of one role in a row are one.
    """
    chat: list[ChatMessage] = []
    call_ids = list(dict.fromkeys(message.call for message in messages if message.call))
    for (_, role), group in groupby(enumerate(messages), key=lambda step: (step[1].number, step[1].role)):
        steps = dict(group)
        row: dict[str, Any] = {"role": role}
        calls = [] if tools_as_text else [message for message in steps.values() if message.kind == "tool call"]
        texts = [message for message in steps.values() if message not in calls]
        row["content"] = _content(texts, tools_as_text)
        if calls:
            row["tool_calls"] = [_call(message, call_ids) for message in calls]
        if role == "tool" and tools_as_text:
            row["role"] = "user"
        elif role == "tool":
            (result,) = texts
            row |= {"name": result.name, "tool_call_id": _call_id(result, call_ids)}
        if role == "system" and two_roles:
            row["role"] = "user"
        chat.append(ChatMessage(row, tuple(steps)))
    return _joined(chat) if two_roles else chat


def as_parts(content: Any) -> list[Any]:
    """Return a content as a list of parts."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def wrapping(message: Message, *, tools_as_text: bool) -> tuple[str, str]:
    """Return the text before and after a message in a content."""
    if message.kind == "tool call" and tools_as_text:
        return f"{message.name}(", ")"
    if message.kind == "tool result" and tools_as_text:
        return f"Result of {message.name or 'the tool'}:\n", ""
    return ("<think>\n", "\n</think>\n\n") if message.kind == "reasoning" else ("", "")


def _content(messages: Iterable[Message], tools_as_text: bool) -> Any:
    """Return texts as one, each on a line of its own; with pictures and sounds among them parts."""
    parts: list[Any] = []
    for message in messages:
        before, after = wrapping(message, tools_as_text=tools_as_text)
        parts.append(message.part or {"type": "text", "text": f"{before}{message.text}{after}"})
    if any(part["type"] != "text" for part in parts):
        return parts
    texts = [part["text"] for part in parts]
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts[:-1]) + "".join(texts[-1:])


def _joined(chat: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Join consecutive messages of one role."""
    joined: list[ChatMessage] = []
    for role, group in groupby(chat, key=lambda each: each.message["role"]):
        rows = list(group)
        contents = [row.message["content"] for row in rows]
        if all(isinstance(content, str) for content in contents):
            content: Any = "\n\n".join(contents)
        else:
            content = [part for each in contents for part in as_parts(each)]
        joined.append(ChatMessage({"role": role, "content": content}, tuple(i for row in rows for i in row.indices)))
    return joined


def _call(message: Message, call_ids: Sequence[str]) -> dict[str, Any]:
    """Return a call of a tool."""
    function = {"name": message.name, "arguments": parsed_arguments(message.text)}
    return {"type": "function", "id": _call_id(message, call_ids), "function": function}


def _call_id(message: Message, call_ids: Sequence[str]) -> str:
    """Return an id for a tool call, of nine letters and digits, which the strictest templates demand."""
    return f"call{call_ids.index(message.call) if message.call else len(call_ids):05d}"
