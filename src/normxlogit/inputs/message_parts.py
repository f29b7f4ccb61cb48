"""The one form of a message: a role with a content, calls of tools or both, as transformers' chat templates take it.

A content is a text or a list of parts: {"type": "text", "text": ...}, and those that readers of extensions read, such
as {"type": "image", ...}. A call is {"type": "function", "function": {"name": ..., "arguments": ...}} under
"tool_calls" of the assistant, and what it returned the content of a message of the role "tool". `examples/messages.py`
converts what other services write.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeGuard

from typing_extensions import Self

from ..errors import InputError
from ..extending import registered

Message = dict[str, Any]
"""A message, or a part of one, in the form that chat templates take."""

TEXT_TYPES = ("text", "input_text", "output_text")
"""Types of text parts, in templates and OpenAI's clients."""

UNREADABLE_TYPES = frozenset(("video", "video_url"))
"""Types of parts that templates may silently leave out."""


def is_message(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a message: a mapping with a role, and a content or calls of tools."""
    is_mapping = isinstance(value, Mapping) and isinstance(value.get("role"), str)
    return is_mapping and ("content" in value or "tool_calls" in value)


def message_of(value: Any) -> Any:
    """Return an object with a role and a content, such as a client's, as a mapping; anything else unchanged."""
    is_object = isinstance(getattr(value, "role", None), str) and hasattr(value, "content")
    if isinstance(value, Mapping) or not is_object:
        return value
    is_pydantic = hasattr(value, "model_dump")
    fields: Mapping[str, Any] = value.model_dump() if is_pydantic else vars(value)
    # Clients set unused fields to None; the content stays, which a message with calls of tools may have as None.
    return {name: field for name, field in fields.items() if field is not None or name == "content"}


class ReadPart(Protocol):
    """A part of a prompt that is not text, as a reader has read it."""

    kind: ClassVar[str]
    """What it is, such as "picture"."""

    def without(self, places: Sequence[Sequence[float]]) -> Self:
        """Return it without some places: boxes in pixels, or spans in seconds."""
        ...


@dataclass(frozen=True)
class PartReader:
    """What an extension reads of messages.

    Attributes:
        type_of: Returns the type that chat templates know a part by, such as "image"; None for a part of another's.
        read: Returns messages with its parts as chat templates take them, and these parts as they were read. It is
            called with the messages, the mapping that holds them (None without one), and the tokenizer or processor.
        beside: Keys of what may stand beside messages for it.
        keys: Keys of a row of a data set, or of a mapping without messages, that hold such a part.
        hint: How such a part stands in a message, for errors.
        of_file: Returns the part that a file is, by its path; None of other files.
    """

    type_of: Callable[[Any], str | None]
    read: Callable[[list[Message], Any, Any], tuple[list[Message], tuple[ReadPart, ...]]]
    beside: tuple[str, ...]
    keys: tuple[str, ...]
    hint: str
    of_file: Callable[[str], Message | None] = lambda path: None


def part_readers() -> tuple[PartReader, ...]:
    """Return the readers of all extensions."""
    return tuple(registered("part_readers").values())


def part_type(part: Any) -> str | None:
    """Return the type of a part that an extension reads, such as "image"; None for texts and unknown parts."""
    return next((kind for reader in part_readers() if (kind := reader.type_of(part)) is not None), None)


def part_of_file(path: str) -> Message:
    """Return a file as a part of a message."""
    part = next((part for reader in part_readers() if (part := reader.of_file(path)) is not None), None)
    if part is None:
        raise InputError(f"{path}: no extension reads such a file as a part of a message")
    return part


def hint_for(keys: Any = None) -> str:
    """Return how parts stand in messages, as the end of an error; with keys only where one of them is a part's."""
    hints = [reader.hint for reader in part_readers() if keys is None or any(key in keys for key in reader.keys)]
    return "".join(f"; {hint}" for hint in hints)


def typed_messages(messages: Sequence[Message], prompt: Any, reader: Any) -> tuple[list[Message], tuple[ReadPart, ...]]:
    """Return messages whose parts have the types of chat templates, and those of their parts that are not texts.

    Args:
        messages: The messages.
        prompt: What the caller passed, which may hold pictures beside its messages.
        reader: The model's processor or tokenizer.
    """
    typed = [*messages]
    parts = list[ReadPart]()
    for part_reader in part_readers():  # each leaves what it does not read to the others
        typed, new_parts = part_reader.read(typed, prompt, reader)
        parts += new_parts
    for index, message in enumerate(typed):
        if isinstance(content := message.get("content"), list | tuple):
            typed[index] = {**message, "content": [_typed_text(part, index) for part in content]}
    return typed, tuple(parts)


def text_of_part(part: Any) -> str | None:
    """Return the text of a part of a message; None if it is another part."""
    text = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") in TEXT_TYPES else part
    return text if isinstance(text, str) else None


def texts_of(message: Mapping[str, Any]) -> list[str]:
    """Return the texts of a message: its content, or those of its parts."""
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else [content]
    return [text for part in parts if (text := text_of_part(part)) is not None]


def _typed_text(part: Any, index: int) -> Any:
    """Return a part of a message with its type; what templates know besides texts stays as it is."""
    if (text := text_of_part(part)) is not None:
        return {**(part if isinstance(part, Mapping) else {}), "type": "text", "text": text}
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind is None or kind in UNREADABLE_TYPES:
        described = f"a part of type {kind!r}" if kind else f"a {type(part).__name__} without a type among its parts"
        raise InputError(f"message {index} holds {described}, which is not read{hint_for()}")
    return part
