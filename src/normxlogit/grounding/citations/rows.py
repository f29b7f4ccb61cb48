"""The messages of a conversation as those that a chat template takes, and where the text of each stands in them."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ...inputs.message_parts import Message as ChatMessage
from ...results.storage.schema import Strings
from ..documents.conversations import Message, parsed_arguments


class Form(NamedTuple):
    """How messages are written where a chat template does not know all kinds of them.

    Attributes:
        tools_as_text: Whether calls and results of tools are texts of the assistant and the user.
        two_roles: Whether system messages are the user's, and messages of one role in a row are one.
        in_parts: Whether contents are lists of parts.
    """

    tools_as_text: bool
    two_roles: bool
    in_parts: bool

    @property
    def as_text(self) -> list[str]:
        """The kinds of messages that are written as text."""
        return ["tool call", "tool result"] * self.tools_as_text + ["system"] * self.two_roles


class Row(NamedTuple):
    """A message of a chat template.

    Attributes:
        message: The message.
        offsets: Where the text of each message of the conversation that is in it begins in the texts of its content, by
            the message's place; -1 of a call, a picture or a sound, which is no text of it. Calls are last.
    """

    message: ChatMessage
    offsets: Mapping[int, int]


def rows_of(messages: Sequence[Message], form: Form) -> list[Row]:
    """Return a conversation as messages of a chat template, whose calls have ids as the strictest templates demand.

    Args:
        messages: The messages of the conversation.
        form: How they are written.
    """
    calls = dict.fromkeys(message.call for message in messages)
    # Nine letters and digits, as Mistral's templates demand. Messages without an id share the one of "".
    call_ids = {call: f"call{number:05d}" for number, call in enumerate(calls)}
    groups = groupby(enumerate(messages), key=lambda step: _row_key(step[1], form))
    return [_row(key[0], dict(steps), form, call_ids) for key, steps in groups]


def _row_key(message: Message, form: Form) -> Strings:
    """Return the role of the row that a message is in, and what tells this row from its neighbours."""
    # As text, a call is the assistant's, and what a tool or the system says is the user's.
    role = "user" if message.kind in form.as_text and message.kind != "tool call" else message.role
    return (role,) if form.two_roles else (role, message.role, str(message.number))


def _row(role: str, messages: Mapping[int, Message], form: Form, call_ids: Mapping[str, str]) -> Row:
    """Return messages, by their places, as one of a chat template."""
    calls = [m for m in messages.values() if m.kind == "tool call" and not form.tools_as_text]
    texts = {place: message for place, message in messages.items() if message not in calls}  # pictures and sounds too
    content, offsets = _content(texts, form)
    row: ChatMessage = {"role": role, "content": content}
    if calls:
        row["tool_calls"] = [_call(message, call_ids[message.call]) for message in calls]
    if role == "tool":
        result = next(iter(texts.values()))  # a row of a tool is one result
        row |= {"name": result.name, "tool_call_id": call_ids[result.call]}
    return Row(row, dict.fromkeys(messages, -1) | offsets)


def _call(message: Message, call_id: str) -> ChatMessage:
    """Return a call of a tool as chat templates take it."""
    function = {"name": message.name, "arguments": parsed_arguments(message.text)}
    return {"type": "function", "id": call_id, "function": function}


def _content(messages: Mapping[int, Message], form: Form) -> tuple[Any, dict[int, int]]:
    """Return texts as one, each on a line of its own, with pictures and sounds among them or if asked for as parts.

    Args:
        messages: The messages by their places.
        form: How they are written.

    Returns:
        The content, and where the text of each message begins in its texts, which count as lines.
    """
    parts, offsets, last_number = list[Any](), dict[int, int](), -1
    for place, message in messages.items():
        if message.part is not None:
            parts.append(message.part)
        else:
            before, after = _wrapping(message, form)
            # Texts in a row are one part; a picture between them begins another.
            earlier = parts.pop()["text"] if parts and parts[-1]["type"] == "text" else ""
            gap = _gap(earlier, is_same_message=message.number == last_number)
            parts.append({"type": "text", "text": f"{earlier}{gap}{before}{message.text}{after}"})
            offsets[place] = len(_text_of(parts)) - len(after) - len(message.text)
        last_number = message.number
    has_media = any(message.part is not None for message in messages.values())
    if form.in_parts or has_media:
        return parts or [{"type": "text", "text": ""}], offsets  # of a message that is nothing but calls
    return _text_of(parts), offsets


def _gap(earlier: str, *, is_same_message: bool) -> str:
    """Return the white space between two texts of a content; none behind nothing."""
    if not earlier:
        return ""
    if not is_same_message:
        return "\n\n"
    return "" if earlier.endswith("\n") else "\n"


def _text_of(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts of parts as lines."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _wrapping(message: Message, form: Form) -> tuple[str, str]:
    """Return the text before and after a message in a content."""
    if message.kind == "tool call" and form.tools_as_text:
        return f"{message.name}(", ")"
    if message.kind == "tool result" and form.tools_as_text:
        return f"Result of {message.name or 'the tool'}:\n", ""
    return ("<think>\n", "\n</think>\n\n") if message.kind == "reasoning" else ("", "")
