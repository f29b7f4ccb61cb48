"""Conversations as the messages of chat templates, with where each step stands in them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...inputs.message_parts import texts_of
from .conversations import Message, parsed_arguments


@dataclass(frozen=True)
class ChatMessage:
    """A message of a chat template, made of one or several messages of the conversation.

    Attributes:
        message: The message as chat templates expect it.
        places: For each message in its content, where the text begins: (message, character).
        calls: The messages that are tool calls and not in the content.
    """

    message: dict[str, Any]
    places: tuple[tuple[int, int], ...] = ()
    calls: tuple[int, ...] = ()


def chat_messages(messages: Sequence[Message], *, tools_as_text: bool, two_roles: bool) -> list[ChatMessage]:
    """Return a conversation as messages of a chat template.

    Args:
        messages: The conversation.
        tools_as_text: Whether calls and results of tools are texts of the assistant and the user.
        two_roles: Whether system messages are the user's, and messages of one role in a row are one.
    """
    chat: list[ChatMessage] = []
    for place, message in enumerate(messages):
        role = "user" if two_roles and message.role == "system" else message.role
        previous = messages[place - 1] if place else None
        same_message = previous is not None and (previous.number, previous.role) == (message.number, message.role)
        if same_message and previous is not None and (previous.part is not None or message.part is not None):
            part = message.part or {"type": "text", "text": message.text}
            if message.part is None:
                character = sum(len(text) + 1 for text in texts_of(chat[-1].message))
                chat[-1] = replace(chat[-1], places=(*chat[-1].places, (place, character)))
            chat[-1].message["content"] = [*as_parts(chat[-1].message["content"]), part]
        elif message.part is not None:
            chat.append(ChatMessage({"role": role, "content": [message.part]}))
        elif message.kind == "tool call" and not tools_as_text:
            if not chat or chat[-1].message["role"] != "assistant":
                chat.append(ChatMessage({"role": "assistant", "content": ""}))
            call = {"name": message.name, "arguments": parsed_arguments(message.text)}
            tool_call = {"type": "function", "id": _call_id(message, messages), "function": call}
            chat[-1].message.setdefault("tool_calls", []).append(tool_call)
            chat[-1] = replace(chat[-1], calls=(*chat[-1].calls, place))
        elif message.kind == "tool result" and not tools_as_text:
            call = {"name": message.name, "tool_call_id": _call_id(message, messages)}
            chat.append(ChatMessage({"role": "tool", **call, "content": message.text}, ((place, 0),)))
        else:
            before, after = wrapping(message)
            earlier = chat[-1].message["content"] if chat else None
            if same_message and role == "assistant" and not chat[-1].calls and isinstance(earlier, str):
                before = earlier + ("" if not earlier or earlier.endswith("\n") else "\n") + before
                places = chat.pop().places
            else:
                places = ()
            row = {"role": "user" if role == "tool" else role, "content": before + message.text + after}
            chat.append(ChatMessage(row, (*places, (place, len(before)))))
    return _joined(chat) if two_roles else chat


def as_parts(content: Any) -> list[Any]:
    """Return a content as a list of parts."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def wrapping(message: Message) -> tuple[str, str]:
    """Return the text before and after a message in a content."""
    if message.kind == "tool call":
        return f"{message.name}(", ")"
    if message.kind == "tool result":
        return f"Result of {message.name or 'the tool'}:\n", ""
    return ("<think>\n", "\n</think>\n\n") if message.kind == "reasoning" else ("", "")


def _joined(chat: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Join consecutive messages of one role."""
    joined: list[ChatMessage] = []
    for current in chat:
        previous = joined[-1] if joined else None
        if previous is None or previous.message["role"] != current.message["role"]:
            joined.append(current)
            continue
        first, second = previous.message["content"], current.message["content"]
        shift = sum(len(text) + 1 for text in texts_of(previous.message))  # texts are joined by a character
        if isinstance(first, str) and isinstance(second, str):
            content: Any = f"{first}\n\n{second}"
            shift += 1
        else:
            content = [*as_parts(first), *as_parts(second)]
        places = (*previous.places, *((place, character + shift) for place, character in current.places))
        joined[-1] = ChatMessage({**previous.message, "content": content}, places)
    return joined


def _call_id(message: Message, messages: Sequence[Message]) -> str:
    """Return an id for a tool call, of nine letters and digits, which the strictest templates demand."""
    calls = list(dict.fromkeys(m.call for m in messages if m.call))
    return f"call{calls.index(message.call) if message.call else len(calls):05d}"
