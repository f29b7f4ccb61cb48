"""Conversations in steps: texts, reasoning, calls of tools and what they returned, pictures and sounds.

What is read are messages as `normxlogit.inputs.message_parts` describes them; `examples/messages.py` converts others.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError
from ...inputs.chat import messages_of
from ...inputs.message_parts import UNREADABLE_TYPES, is_message, part_type, text_of_part
from ...pipeline.completions.reasoning import REASONING_KEYS
from ...results.storage.files import read_json

KINDS = {role: role for role in ("system", "user", "assistant")} | {"developer": "system", "tool": "tool result"}
"""Kinds of messages that say something, by their roles."""

KINDS_OF_PARTS = {"image": "picture", "audio": "sound"}
"""Kinds of messages by the types of parts that say nothing; others are called by their type."""

THINKING = re.compile(r"\s*(?:<think>)?(.*?)</think>(.*)", re.DOTALL)
"""A text that begins with reasoning; its opening tag may be missing, as templates write that themselves."""

UNREAD = "message {} holds a part of type {!r}, which is not read"
"""The note of what no model reads, or the reader does not."""

EXPECTED = "a list of messages, each with a role (system, user, assistant, tool) and a content"


RawMessage = Mapping[str, Any]
"""A message as it was given."""


@dataclass(frozen=True)
class Message:
    """One step of a conversation; an original message with text and tool calls becomes several of them."""

    kind: str  # one of `KINDS`, "tool call" or "reasoning", or what a part is that says nothing, such as "picture"
    text: str  # of a tool call its arguments and of a tool result what was returned, usually as JSON
    role: str  # of its author: "system", "user", "assistant" or "tool"
    number: int  # which message of the conversation it is in, counted from 0
    name: str = ""  # of the tool; of other messages empty
    call: str = ""  # the id of the tool call; empty if the format has none
    part: Any = field(default=None, compare=False)  # a picture or a sound, which says no text


@dataclass(frozen=True)
class Conversation:
    """The messages of a conversation."""

    messages: tuple[Message, ...]
    tools: list[Any] | None = field(default=None, compare=False)  # their definitions, for a chat template
    notes: tuple[str, ...] = ()  # what of the conversation is not read

    @property
    def ends_with_call(self) -> bool:
        """Whether the last step is a call of a tool."""
        return self.messages[-1].kind == "tool call"

    def until(self, turn: int | None) -> "UpToAnswer":
        """Return the conversation before an answer, and the answer with the assistant's thoughts right before it.

        Args:
            turn: Which of the assistant's texts is the answer, counted from 0; None for the last one, if there is any.
        """
        answers = [place for place, message in enumerate(self.messages) if message.kind == "assistant"]
        if turn is None:
            if not answers:  # the model writes the answer
                return UpToAnswer(self)
            turn = -1
        problem = f"no turn {turn!r}: the assistant has {len(answers)} texts, counted from 0"
        place, notes = picked_step(answers, turn, "answer", problem), self.notes
        # Calls and reasoning behind it may be of the answer's own message.
        if after := sum(message.kind not in ("tool call", "reasoning") for message in self.messages[place + 1 :]):
            notes = (*notes, f"messages after the answer are not read ({after})")
        first = place
        while first and self.messages[first - 1].kind == "reasoning":  # of several messages, several steps
            first -= 1
        thoughts = tuple(message.text for message in self.messages[first:place])
        return UpToAnswer(Conversation(self.messages[:first], self.tools, notes), self.messages[place].text, thoughts)


def picked_step(places: Sequence[int], index: Any, noun: str, problem: str) -> int:
    """Return the place of a step among the messages of a conversation.

    Args:
        places: The places of all steps of its kind.
        index: Which of them, negative from the end.
        noun: What the step is called, for errors.
        problem: The error if there is no such step.

    Raises:
        InputError: If there is no such step, or nothing before it.
    """
    try:
        place = places[index]
    except (IndexError, TypeError):  # no such place, or no number
        raise InputError(problem) from None
    if not place:
        raise InputError(f"the {noun} is the first message; a conversation has messages before the {noun}")
    return place


class UpToAnswer(NamedTuple):
    """A conversation up to one of the assistant's texts."""

    conversation: Conversation  # what was said before
    answer: str | None = None  # None if the assistant has not said anything
    thoughts: tuple[str, ...] = ()  # what the assistant thought right before


def read_conversation(value: Any) -> Conversation:
    """Return a conversation.

    Args:
        value: A list of messages; a mapping that has them under "messages", and "tools" and "images" beside them; or
            the path of a file of JSON with either.

    Raises:
        InputError: If it is not one conversation.
        DataError: If a file cannot be read.
    """
    if isinstance(value, PathLike):
        return _read_file(Path(value))
    messages = messages_of(value)
    if not isinstance(messages, list) or not messages:
        raise InputError(f"expected {EXPECTED}; got {_described(value)}")
    beside = value if isinstance(value, Mapping) else {}
    for number, message in enumerate(messages):
        _check_message(message, number)
    if any(holder.get("images") for holder in (beside, *messages)):
        raise InputError("pictures stand in the contents of messages, as {'type': 'image', 'image': ...}")
    steps, tools = _steps(messages), parsed_arguments(beside.get("tools"))  # data sets have them as a text of JSON
    if not steps:
        raise InputError(f"the conversation of {len(messages)} messages has no text")
    # Rows of data sets have None where there are no tools.
    tools = list(tools) if isinstance(tools, list | tuple) else None
    return Conversation(tuple(steps), tools, tuple(dict.fromkeys(_notes(messages))))


def _read_file(path: Path) -> Conversation:
    """Return the conversation in a file of JSON; errors name the file."""
    content = read_json(path)
    try:
        return read_conversation(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _steps(messages: Sequence[RawMessage]) -> list[Message]:
    """Return the steps of messages, with the names of tools at what they returned."""
    calls = [list(_calls(message, number)) for number, message in enumerate(messages)]
    tool_names = {call.call: call.name for of_message in calls for call in of_message if call.call}
    steps = list[Message]()
    for number, (message, own_calls) in enumerate(zip(messages, calls, strict=True)):
        steps += _joined([*_said(message, number, tool_names), *own_calls])
    # JSON can escape half a character, and no tokenizer reads it.
    for step in steps:
        if re.search("[\ud800-\udfff]", step.text + step.name):
            raise InputError(f"message {step.number} holds half a character (a lone surrogate)")
    return steps


def _check_message(message: Any, number: int) -> None:
    """Refuse what is no message, or one of an unknown role."""
    if not is_message(message) or message["role"] not in KINDS:
        problem = f"has the role {message['role']!r}" if is_message(message) else f"is {_described(message)}"
        raise InputError(f"expected {EXPECTED}; message {number} {problem}")


def _said(message: RawMessage, number: int, tool_names: Mapping[str, str]) -> Iterator[Message]:
    """Yield the steps of a message but its calls of tools: its reasoning and its content.

    What a tool shows is shown by the user, behind what it returned, as few templates have it in results.

    Args:
        message: The message.
        number: Its place in the conversation.
        tool_names: Names of tools by the ids of their calls.
    """
    kind, parts = KINDS[message["role"]], _parts(message)
    said = Message(kind, "", role=kind, number=number)  # what its steps have in common
    if kind == "tool result":
        call_id = _text_under(message, "tool_call_id")
        name = tool_names.get(call_id) or _text_under(message, "name")
        said = Message(kind, "", role="tool", number=number, name=name, call=call_id)
        parts = sorted(parts, key=lambda part: text_of_part(part) is None)  # texts first, else as they are
    thoughts = (_text_under(message, key) for key in REASONING_KEYS)
    yield _thought(next(filter(None, thoughts), ""), number)  # an empty one, where there is none, is left out later
    for part in parts:
        yield from _steps_of_part(part, said)


def _steps_of_part(part: Any, said: Message) -> Iterator[Message]:
    """Yield what a part of a content says, and what was thought before, in steps of a kind.

    Args:
        part: The part.
        said: A step of its message without a text, whose kind, role and names the steps have.
    """
    type_, text = part_type(part), text_of_part(part)
    if text is not None:
        # A user may write of such marks.
        match = THINKING.fullmatch(text) if said.kind == "assistant" else None
        yield _thought(match[1] if match else "", said.number)
        yield replace(said, text=match[2] if match else text)
    elif type_ is not None:
        # A picture itself, without a mapping, stands under its type, as templates and readers look for it.
        typed = {**(part if isinstance(part, Mapping) else {type_: part}), "type": type_}
        role = "user" if said.role == "tool" else said.role
        yield Message(KINDS_OF_PARTS.get(type_, type_), "", role=role, number=said.number, part=typed)
    else:  # a part that is not read, unless it has thoughts, as Anthropic's have
        yield _thought(_text_under(part, "thinking"), said.number)


def _thought(text: str, number: int) -> Message:
    return Message("reasoning", text, role="assistant", number=number)


def _calls(message: RawMessage, number: int) -> Iterator[Message]:
    """Yield a message's calls of tools."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list | tuple) else ():
        # Or the function itself, without a mapping around it.
        function = call.get("function", call) if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise InputError(f"message {number} holds a call of a tool that is {_described(call)}")
        arguments = _as_text(parsed_arguments(function.get("arguments") or {}))
        name = _text_under(function, "name") or "tool"
        call_id = _text_under(call, "id")
        yield Message("tool call", arguments, role="assistant", number=number, name=name, call=call_id)


def _notes(messages: Sequence[RawMessage]) -> Iterator[str]:
    """Yield a note for each part of the messages that is not read."""
    for number, message in enumerate(messages):
        for part in _parts(message):
            if not _is_text_or_medium(part) and not _text_under(part, "thinking"):
                yield UNREAD.format(number, part.get("type") if isinstance(part, Mapping) else part)


def _joined(steps_of_message: Iterable[Message]) -> list[Message]:
    """Join the texts of one kind in a row, of the steps of one original message, and leave out empty ones."""
    joined: list[Message] = []
    for step in steps_of_message:
        text, last = step.text.strip(), joined[-1] if joined else None
        # Each call is a step; so is a picture or a sound, which has no text.
        if step.kind == "tool call" or step.part is not None:
            joined.append(step)
        elif text and last is not None and last.kind == step.kind:
            joined[-1] = replace(last, text=f"{last.text}\n{text}")
        elif text:
            joined.append(replace(step, text=text))
    return joined


def _parts(message: RawMessage) -> Sequence[Any]:
    """Return the parts of a message's content; data that a tool returned, which are not parts, as JSON."""
    content = message.get("content")
    # None beside calls of tools.
    parts = content if isinstance(content, list | tuple) else () if content is None else (content,)
    if message["role"] == "tool" and not (parts and all(map(_is_part_of_result, parts))):
        return (_as_text(content),)
    return parts


def _is_part_of_result(part: Any) -> bool:
    """Return whether a value is a text or a typed part, rather than data that a tool returned."""
    if not isinstance(part, Mapping):
        return _is_text_or_medium(part)
    return isinstance(part.get("type"), str) and (_is_text_or_medium(part) or part["type"] in UNREADABLE_TYPES)


def _is_text_or_medium(part: Any) -> bool:
    """Return whether a part of a content is a text, or a picture or a sound that some extension reads."""
    return text_of_part(part) is not None or part_type(part) is not None


def parsed_arguments(arguments: Any) -> Any:
    """Return the arguments of a call, or tools, which may be a text of JSON, as data; another text unchanged."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def _text_under(mapping: Any, key: str) -> str:
    """Return the text under a key; empty if there is none."""
    value = mapping.get(key) if isinstance(mapping, Mapping) else None
    return value if isinstance(value, str) else ""


def _as_text(value: Any) -> str:
    """Return a text unchanged, and data as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _described(value: Any) -> str:
    """Return a short description of a value, for errors."""
    if isinstance(value, Mapping):
        return f"a mapping with {', '.join(map(repr, list(value)[:6])) or 'nothing'}"
    return repr(value[:40]) if isinstance(value, str) else "an empty list" if value == [] else type(value).__name__
