"""Conversations as the messages of chat templates, with where each step stands in them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...inputs.message_parts import texts_of
from .conversations import Message, parsed_arguments

AS_TEXT: dict[str, str] = {
    "tool call": "tool calls",
    "tool result": "results of tools",
    "system": "system messages",
    "reasoning": "reasoning",
}
"""Kinds of messages that chat templates may not render, in the order in which they are rendered as text instead."""

ALTERNATE = "messages of one role in a row"
"""A further change for templates: roles joined."""


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


def chat_messages(messages: Sequence[Message], as_text: frozenset[str] = frozenset()) -> list[ChatMessage]:
    """Return a conversation as messages of a chat template.

    Args:
        messages: The conversation.
        as_text: What is written as text: values of `AS_TEXT`; and `ALTERNATE`, which joins messages of one role.
    """
    chat: list[ChatMessage] = []
    for place, message in enumerate(messages):
        plain = AS_TEXT.get(message.kind) in as_text
        if place and _are_parts_of_one(messages[place - 1], message):
            part = message.part or {"type": "text", "text": message.text}
            if message.part is None:
                character = sum(len(text) + 1 for text in texts_of(chat[-1].message))
                chat[-1] = replace(chat[-1], places=(*chat[-1].places, (place, character)))
            chat[-1].message["content"] = [*as_parts(chat[-1].message["content"]), part]
        elif message.part is not None:
            role = "user" if message.role == "system" and AS_TEXT["system"] in as_text else message.role
            chat.append(ChatMessage({"role": role, "content": [message.part]}))
        elif message.kind == "tool call" and not plain:
            call = {"name": message.name, "arguments": parsed_arguments(message.text)}
            tool_call = {"type": "function", "id": _call_id(message, messages), "function": call}
            if chat and chat[-1].message["role"] == "assistant":
                chat[-1].message.setdefault("tool_calls", []).append(tool_call)
                chat[-1] = replace(chat[-1], calls=(*chat[-1].calls, place))
            else:
                chat.append(
                    ChatMessage({"role": "assistant", "content": "", "tool_calls": [tool_call]}, calls=(place,))
                )
        elif message.kind == "tool result" and not plain:
            call = {"name": message.name, "tool_call_id": _call_id(message, messages)}
            chat.append(ChatMessage({"role": "tool", **call, "content": message.text}, ((place, 0),)))
        elif message.role == "assistant":
            before, after = wrapping(message, plain=plain)
            follows = message.kind == "tool call" or (bool(chat) and _ends_with_reasoning(chat[-1], messages))
            if chat and follows and chat[-1].message["role"] == "assistant" and _is_text(chat[-1]):
                _extend(chat, place, before, message.text, after)
            else:
                content = before + message.text + after
                chat.append(ChatMessage({"role": "assistant", "content": content}, ((place, len(before)),)))
        else:
            role = "user" if plain else message.role  # also of a system message
            before = f"Result of {message.name or 'the tool'}:\n" if message.kind == "tool result" else ""
            chat.append(ChatMessage({"role": role, "content": before + message.text}, ((place, len(before)),)))
    system = AS_TEXT["system"] in as_text
    return _joined(chat, messages, everything=ALTERNATE in as_text) if system or ALTERNATE in as_text else chat


def _are_parts_of_one(previous: Message, following: Message) -> bool:
    """Return whether two in a row are a picture or a sound and what stands beside it in a message."""
    return (
        (previous.part is not None or following.part is not None)
        and previous.number == following.number
        and previous.role == following.role
    )


def as_parts(content: Any) -> list[Any]:
    """Return a content as a list of parts."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _extend(chat: list[ChatMessage], place: int, before: str, text: str, after: str) -> None:
    """Append a message to the content of the last one of a chat."""
    content = chat[-1].message["content"]
    gap = "\n" if content and not content.endswith("\n") else ""
    content += gap + before
    chat[-1] = replace(chat[-1], places=(*chat[-1].places, (place, len(content))))
    chat[-1].message["content"] = content + text + after


def _ends_with_reasoning(last: ChatMessage, messages: Sequence[Message]) -> bool:
    return bool(last.places) and not last.calls and messages[last.places[-1][0]].kind == "reasoning"


def wrapping(message: Message, *, plain: bool) -> tuple[str, str]:
    """Return the text before and after a message of the assistant in a content."""
    if message.kind == "tool call":
        return f"{message.name}(", ")"
    if message.kind == "reasoning":
        return ("Reasoning: ", "\n\n") if plain else ("<think>\n", "\n</think>\n\n")
    return "", ""


def _joined(chat: Sequence[ChatMessage], messages: Sequence[Message], *, everything: bool) -> list[ChatMessage]:
    """Join consecutive messages of one role: all of them, or only system messages that are written as the user's."""
    joined: list[ChatMessage] = []
    for current in chat:
        previous = joined[-1] if joined else None
        if previous is None or not _may_join(previous, current, messages, everything=everything):
            joined.append(current)
            continue
        content = current.message["content"]
        if _is_text(previous) and isinstance(content, str):
            content = f"{previous.message['content']}\n\n{content}"
        else:
            content = [*as_parts(previous.message["content"]), *as_parts(content)]
        shift = sum(len(text) + 1 for text in texts_of(previous.message))  # texts are joined by a character
        if isinstance(content, str):  # by two
            shift += 1
        places = (*previous.places, *((message_index, offset + shift) for message_index, offset in current.places))
        joined[-1] = ChatMessage({**previous.message, **current.message, "content": content}, places, current.calls)
    return joined


def _is_text(chat_message: ChatMessage) -> bool:
    """Return whether something can be written at the end of a message: it is a text, without tool calls."""
    return isinstance(chat_message.message["content"], str) and not chat_message.calls


def _may_join(previous: ChatMessage, current: ChatMessage, messages: Sequence[Message], *, everything: bool) -> bool:
    """Return whether two messages in a row are written as one."""
    same_role = previous.message["role"] == current.message["role"] != "tool"
    system = bool(previous.places) and messages[previous.places[-1][0]].kind == "system"
    return same_role and not previous.calls and (everything or system)


def _call_id(message: Message, messages: Sequence[Message]) -> str:
    """Return an id for a tool call, of nine letters and digits, which the strictest templates demand."""
    calls = list(dict.fromkeys(m.call for m in messages if m.call))
    return f"call{calls.index(message.call) if message.call else len(calls):05d}"
