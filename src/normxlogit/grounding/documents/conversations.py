"""Conversations of any common format as plain messages: texts, reasoning, tool calls and tool results.

Formats are recognised by their shape; no package is imported. Read are OpenAI's chat completions and responses,
Anthropic's messages, Gemini's contents, messages of LangChain and LangGraph, LlamaIndex, Haystack, ShareGPT and
transformers' chat templates, and the traces of `normxlogit.grounding.documents.traces`.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal

from ...errors import InputError
from ...inputs.texts import whole_number
from ...media.inputs.items import json_value, medium_type
from ...media.inputs.pictures import holds_picture
from .traces import messages_in, parse_json, read_trace, to_plain_data

MessageKind = Literal["system", "user", "assistant", "tool call", "tool result", "reasoning", "picture", "sound"]
"""The kind of a message."""

REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Keys of a message for reasoning outside its content."""

THINKING = re.compile(r"\s*(?:<think>)?(.*?)</think>(.*)", re.DOTALL)
"""A text that begins with reasoning; its opening tag may be missing, as templates write that themselves."""

UNREAD = "message {} holds a part of type {!r}, which is not read"
"""The note of what no model reads, or the reader does not."""

LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class Message:
    """One step of a conversation; an original message with text and tool calls becomes several of them.

    Attributes:
        kind: What it is.
        text: What it says: of a tool call its arguments and of a tool result what was returned, usually as JSON.
        name: Name of the tool; of other messages empty.
        number: Which message of the conversation it is in, counted from 0.
        call: Id of the tool call; empty if the format has none.
        part: The part of the message that is a picture or a sound, which says no text; None for others.
        author: The role of who showed that.
    """

    kind: MessageKind
    text: str
    name: str = ""
    number: int = 0
    call: str = ""
    part: Any = field(default=None, compare=False)
    author: str = ""

    @property
    def role(self) -> str:
        """The role of its author: "system", "user", "assistant" or "tool"."""
        roles = {"tool call": "assistant", "tool result": "tool", "reasoning": "assistant"}
        return self.author or roles.get(self.kind, self.kind)


@dataclass(frozen=True)
class Conversation:
    """The messages of a conversation.

    Attributes:
        messages: The messages, in their order.
        tools: Definitions of the tools for a chat template; None if there are none.
        notes: What of the conversation is not read.
    """

    messages: tuple[Message, ...]
    tools: list[Any] | None = field(default=None, compare=False)
    notes: tuple[str, ...] = ()

    def with_readable_media(self, reads: Callable[[str], bool]) -> "Conversation":
        """Return the conversation without the pictures and sounds that a model does not read, with a note of each.

        Args:
            reads: Whether it reads a "picture" or a "sound".
        """
        unread = [message for message in self.messages if message.part is not None and not reads(message.kind)]
        notes = [UNREAD.format(message.number, message.part["type"]) for message in unread]
        remaining = tuple(message for message in self.messages if message not in unread)
        return Conversation(remaining, self.tools, (*self.notes, *dict.fromkeys(notes))) if unread else self

    def until(self, turn: int | None = None) -> "tuple[Conversation, Message | None]":
        """Return the conversation before an answer, and the answer.

        Args:
            turn: Which of the assistant's texts is the answer, counted from 0, negative from the end; None for the
                last.

        Returns:
            The conversation before the answer, and the answer; None if the assistant has not said anything.

        Raises:
            InputError: If there is no such turn, or nothing before it.
        """
        answers = [place for place, message in enumerate(self.messages) if message.kind == "assistant"]
        if turn is None and not answers:
            return self, None
        number = whole_number(-1 if turn is None else turn)
        if number is None:
            raise InputError(f"turn= is a number, not {turn!r}")
        if not -len(answers) <= number < len(answers):
            raise InputError(
                f"no turn {number}: the assistant has {len(answers)} texts in this conversation, from 0 on"
            )
        place, notes = answers[number], self.notes
        if not place:
            raise InputError("the answer is the first message; a conversation has messages before the answer")
        if after := sum(message.kind not in ("tool call", "reasoning") for message in self.messages[place + 1 :]):
            notes = (*notes, f"messages after the answer are not read ({after})")
        return Conversation(self.messages[:place], self.tools, notes), self.messages[place]


def read_conversation(value: Any) -> Conversation:
    """Return a conversation of any format.

    Args:
        value: A list of messages, objects or mappings of any format; a trace that holds them; or the path of a file of
            JSON or JSON lines with either.

    Raises:
        InputError: If it is not one conversation.
        DataError: If a file cannot be read.
    """
    if isinstance(value, PathLike):
        try:
            return read_conversation(read_trace(value))
        except InputError as error:
            raise InputError(f"{value}: {error}") from None
    value = to_plain_data(value)
    raw, tools = messages_in(value)
    images = value.get("images") if isinstance(value, dict) else None
    reader = _Reader(images if isinstance(images, list) else [])
    for number, message in enumerate(raw):
        reader.read(message, number)
    if reader.images:
        raise InputError(f"the messages have no places for the last {len(reader.images)} pictures beside them")
    if not reader.messages:
        raise InputError(f"the conversation of {len(raw)} messages has no text")
    for part in reader.messages:
        if LONE_SURROGATE.search(part.text + part.name):
            raise InputError(f"message {part.number} holds half a character (a lone surrogate)")
    return Conversation(tuple(reader.messages), tools, tuple(dict.fromkeys(reader.notes)))


class _Reader:
    """Collects the messages of a conversation.

    Attributes:
        messages: The messages that were read so far.
        notes: What was not read.
        images: Pictures beside the messages that no part {"type": "image"} stood for yet.
    """

    def __init__(self, images: list[Any]) -> None:
        self.images = images
        self.messages: list[Message] = []
        self.notes: list[str] = []
        self._number = 0
        self._tools: dict[str, str] = {}  # names by the ids of calls

    def read(self, raw: Mapping[str, Any], number: int) -> None:
        """Read one message of any format, or one item of the responses API."""
        self._number = number
        if raw.get("role") not in ("system", "user", "assistant", "tool"):
            self._read_part(raw, "assistant")
            return
        kind: MessageKind = "tool result" if raw["role"] == "tool" else raw["role"]
        additional: dict[str, Any] = raw["additional_kwargs"] if isinstance(raw.get("additional_kwargs"), dict) else {}
        for key in REASONING_KEYS:
            if text := _reasoning(raw.get(key) or additional.get(key)):
                self._add_message("reasoning", text)
                break
        content = _first_filled(raw, "content", "parts", "blocks", "text")
        if isinstance(content, dict) and "parts" in content:
            content = content["parts"]
        content = [content] if medium_type(content) else content
        if isinstance(images := raw.get("images"), list):  # of Ollama, before the text
            content = [*({"type": "image", "image": image} for image in images), *_as_parts(content)]
        call_id = _first_text(raw, "tool_call_id", "id") or _first_text(additional, "tool_call_id")
        if kind == "tool result" and not _is_list_of_parts(content):
            self._read_result(
                content, _first_text(raw, "name", "tool_name") or _first_text(additional, "name", "tool_name"), call_id
            )
        else:
            for part in _as_parts(content):
                self._read_part(
                    part, kind, name=_first_text(raw, "name") or _first_text(additional, "name"), call_id=call_id
                )
        for tool_call in _calls(raw) or _calls(additional):
            self._read_call(tool_call)

    def _read_part(self, part: Any, kind: MessageKind, name: str = "", call_id: str = "") -> None:
        """Read a part of a message's content."""
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        part = _unwrapped(part)
        type_ = str(part.get("type") or part.get("block_type") or _type_by_keys(part))
        if type_ in ("text", "input_text", "output_text", "refusal", "summary_text"):
            text = next((part[key] for key in ("text", "content", "refusal") if isinstance(part.get(key), str)), "")
            if kind == "tool result":
                self._read_result(text, name, call_id)
            else:
                self._read_text(kind, text)
        elif type_ in ("thinking", "reasoning", "thought"):
            self._add_message("reasoning", _reasoning(part))
        elif type_ in ("tool_use", "server_tool_use", "tool_call", "function_call", "custom_tool_call", "functionCall"):
            self._read_call(part)
        elif type_ in ("functionResponse", "function_response"):
            inner = part[type_] if isinstance(part.get(type_), dict) else {}
            self._read_result(_first_filled(inner, "response"), _first_text(inner, "name"), _first_text(inner, "id"))
        elif type_.endswith(("tool_result", "_call_output", "tool_call_response")):
            content = _first_filled(part, "content", "output", "response", "result")
            origin = part["origin"] if isinstance(part.get("origin"), dict) else {}  # the call, of Haystack
            name = _first_text(part, "name") or _first_text(origin, "tool_name")
            call = _first_text(part, "tool_use_id", "call_id", "tool_call_id", "id") or _first_text(origin, "id")
            self._read_result(content, name, call)
        elif type_ == "document" and isinstance(part.get("source"), dict) and part["source"].get("type") == "text":
            self._add_message(kind, str(part["source"].get("data", "")))
        elif type_.endswith("_call"):  # a built-in tool of the service, with its result
            self._read_service_call(part, type_.removesuffix("_call"))
        elif medium_type(part):
            self._read_medium(part, "user" if kind == "tool result" else kind)
        elif type_ != "redacted_thinking":
            self.notes.append(UNREAD.format(self._number, type_))

    def _read_service_call(self, part: Mapping[str, Any], tool: str) -> None:
        """Read a call of a built-in tool that the service runs itself, such as a web search."""
        name = _first_text(part, "name") or tool
        arguments = _first_filled(part, "arguments", "action", "queries", "query", "code")
        self._read_call({"name": name, "arguments": arguments, "id": part.get("id")})
        if (output := _first_filled(part, "output", "results", "outputs")) is not None:
            self._read_result(output, name, _first_text(part, "id"))

    def _read_call(self, part: Mapping[str, Any]) -> None:
        """Read a tool call of any format, once even if a message repeats it outside its content."""
        inner = next(
            (part[key] for key in ("function", "functionCall", "function_call") if isinstance(part.get(key), dict)),
            part,
        )
        name = _first_text(inner, "name", "tool_name") or _first_text(part, "name", "tool_name") or "tool"
        call_id = _first_text(part, "call_id", "tool_call_id", "tool_id", "id") or _first_text(inner, "id")
        arguments = _first_filled(inner, "arguments", "args", "input", "tool_kwargs", "parameters")
        arguments = {} if arguments is None else arguments
        tool_call = Message("tool call", _as_text(parse_json(arguments)), name, self._number, call_id)
        for message in self._of_this_message():
            if message == tool_call or (call_id and message.call == call_id and message.kind == "tool call"):
                return
        if call_id:
            self._tools[call_id] = name
        self.messages.append(tool_call)

    def _read_result(self, content: Any, name: str, call_id: str) -> None:
        """Read the result of a tool; several texts of one message are one result."""
        media: list[Any] = []
        content = [content] if medium_type(content) else content
        if _is_list_of_parts(content):
            texts = [part if isinstance(part, str) else part.get("text") or part.get("content") for part in content]
            media = [part for part in content if medium_type(part)]
            unread = [part for part in content if isinstance(part, dict) and _has_media(part) and not medium_type(part)]
            self.notes += [UNREAD.format(self._number, part["type"]) for part in unread]
            content = "\n".join(text for text in texts if isinstance(text, str))
        text = _as_text(content).strip()
        if not (call_id and text and self._join("tool result", text, call_id)):
            self._add_message("tool result", text, self._tools.get(call_id, "") or name, call_id)
        for part in media:
            self._read_medium(part, "user")

    def _read_medium(self, part: Mapping[str, Any], author: str) -> None:
        """Read a picture or a sound; what a tool returned is shown by the user, as few templates have it in results."""
        medium = medium_type(part)
        if medium == "image" and self.images and not holds_picture(part):
            part = {"image": self.images.pop(0)}
        kind: MessageKind = "picture" if medium == "image" else "sound"
        self.messages.append(Message(kind, "", number=self._number, part={**part, "type": medium}, author=author))

    def _read_text(self, kind: MessageKind, text: str) -> None:
        """Read a text, and the reasoning in an assistant's text; consecutive texts of one message are joined."""
        if kind == "assistant" and (match := THINKING.fullmatch(text)):
            self._add_message("reasoning", match[1])
            text = match[2]
        if not (text.strip() and self._join(kind, text.strip())):
            self._add_message(kind, text)

    def _join(self, kind: MessageKind, text: str, call: str = "") -> bool:
        """Join a text to the message before, and return whether that is of the same original message, kind and call."""
        last = self.messages[-1] if self.messages else None
        if last is None or (last.number, last.kind, last.call) != (self._number, kind, call):
            return False
        self.messages[-1] = replace(last, text=f"{last.text}\n{text}")
        return True

    def _add_message(self, kind: MessageKind, text: str, name: str = "", call: str = "") -> None:
        """Append a message unless its text is empty."""
        if text.strip():
            self.messages.append(Message(kind, text.strip(), name, self._number, call))

    def _of_this_message(self) -> list[Message]:
        """Return the messages that were read so far from the current original message."""
        return [message for message in self.messages if message.number == self._number]


PART_TYPES = re.compile(
    r"(input_|output_)?(text|image|audio|file|video)|image_url|audio_url|video_url|media|refusal|thinking"
    r"|redacted_thinking|reasoning|thought|document|blob|uri|.*tool_use|.*tool_call|.*tool_result|tool_call_response"
    r"|summary_text|citable|citation|cache|computer_screenshot"
)
"""Types of the parts of a content."""


def _is_list_of_parts(content: Any) -> bool:
    """Return whether a content is a list of parts rather than data that a tool returned."""
    return isinstance(content, list) and bool(content) and all(map(_is_part, content))


def _as_parts(content: Any) -> list[Any]:
    """Return the parts of a content, which may have no types; of one that is not a list of parts its text."""
    are_parts = isinstance(content, list) and all(_is_part(part) or medium_type(part) for part in content)
    return content if are_parts else [_as_text(content)]


def _is_part(part: Any) -> bool:
    """Return whether a value is a text or a typed part of a content."""
    if isinstance(part, str):
        return True
    if not isinstance(part, dict):
        return False
    part = _unwrapped(part)
    type_ = part.get("type") or part.get("block_type") or _type_by_keys(part)
    return (isinstance(type_, str) and PART_TYPES.fullmatch(type_) is not None) or type_ in GEMINI


def is_tool_part(part: Any) -> bool:
    """Return whether a value is a tool call or a tool's result among the parts of a content."""
    if not isinstance(part, dict):
        return False
    part = _unwrapped(part)
    type_ = str(part.get("type") or part.get("block_type") or _type_by_keys(part))
    return type_ in GEMINI or re.fullmatch(r".*(tool_use|tool_call|tool_result|tool_call_response)", type_) is not None


WRAPPED = ("tool_call", "tool_call_result", "reasoning")
"""Keys of Haystack for the only field of a part."""


def _unwrapped(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part that Haystack wraps into its key; others unchanged."""
    return next((part[key] for key in WRAPPED if len(part) == 1 and isinstance(part.get(key), dict)), part)


GEMINI = ("functionCall", "function_call", "functionResponse", "function_response")


def _type_by_keys(part: Mapping[str, Any]) -> str:
    """Return the type of a part that is known by its only key, as in Gemini's format."""
    key = next((key for key in GEMINI if part.get(key)), None)
    if key is not None:
        return key
    if part.get("thought") is True:
        return "thought"
    if "reasoning_text" in part:
        return "reasoning"
    if {"result", "origin"} <= part.keys():
        return "tool_result"
    if {"tool_name", "arguments"} <= part.keys():
        return "tool_call"
    return "text" if set(part) <= {"text", "thought", "thoughtSignature", "thought_signature"} else "unknown"


def _has_media(part: Mapping[str, Any]) -> bool:
    """Return whether a part has a type and no text."""
    return "text" not in part and "content" not in part and "type" in part


def _calls(raw: Mapping[str, Any]) -> list[Any]:
    """Return the tool calls of a message that are outside its content."""
    calls = raw.get("tool_calls")
    if isinstance(calls, list) and calls:
        return [call for call in calls if isinstance(call, dict)]
    return [raw["function_call"]] if isinstance(raw.get("function_call"), dict) else []


def _reasoning(value: Any) -> str:
    """Return the text of a reasoning, which may be a text, a list of parts, or a mapping with a summary."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for text in map(_reasoning, value) if text)
    if isinstance(value, dict):
        keys = ("thinking", "reasoning", "reasoning_text", "text", "content", "summary")
        return next((text for key in keys if (text := _reasoning(value.get(key)))), "")
    return ""


def _as_text(value: Any) -> str:
    """Return a text unchanged, and data as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=json_value)


def _first_text(mapping: Mapping[str, Any], *keys: str) -> str:
    """Return the first value under some keys that is a text."""
    return next((mapping[key] for key in keys if isinstance(mapping.get(key), str) and mapping[key]), "")


def _first_filled(mapping: Mapping[str, Any], *keys: str) -> Any:
    """Return the first value under some keys that is not empty; 0 and False do not count as empty."""
    return next((mapping[key] for key in keys if mapping.get(key) not in (None, "", [], {})), None)
