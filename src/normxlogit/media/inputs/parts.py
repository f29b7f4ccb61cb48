"""Pictures and sounds among the parts of messages, in the formats of common clients."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...inputs.message_parts import PartReader, ReadPart
from .items import MEDIA_TYPES, SUFFIXES, is_opened_picture, medium_type
from .pictures import holds_picture, names_picture, read_picture
from .sounds import read_sound, sampling_rate_of

Message = dict[str, Any]
"""A message of a chat: a role and a content."""


def read_parts(messages: Sequence[Message], reader: Any) -> tuple[list[Message], tuple[ReadPart, ...]]:
    """Return messages with their pictures and sounds as chat templates take them, and these.

    Args:
        messages: With a role and a content: a text, a picture, or parts of these and of sounds.
        reader: The processor; its sampling rate is that of sounds.
    """
    media: list[ReadPart] = []
    typed: list[Message] = []
    for message in messages:
        if message.get("images"):
            raise InputError("pictures stand in the contents of messages, as {'type': 'image', 'image': ...}")
        content = message.get("content")
        parts = [content] if is_opened_picture(content) else content
        if isinstance(parts, list | tuple):
            message = {**message, "content": [_read_part(_typed_part(part), reader, media) for part in parts]}
        typed.append(message)
    return typed, tuple(media)


def _read_part(part: Any, reader: Any, media: list[ReadPart]) -> Any:
    """Return a part of a message as chat templates take it; a picture or a sound is appended to the media."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "image":
        picture = read_picture(part)
        media.append(picture)
        return {"type": "image", "image": picture.image}
    if kind == "audio":
        sound = read_sound(part, sampling_rate_of(reader), sum(medium.kind == "sound" for medium in media))
        media.append(sound)
        return {"type": "audio", "audio": sound.samples}
    return part


def part_of_file(path: str) -> dict[str, Any] | None:
    """Return the file of a picture or of a sound as a part of a message; None of another."""
    if Path(path).suffix.casefold() not in SUFFIXES:
        return None
    return {"type": "image", "image": path} if names_picture(path) else {"type": "audio", "audio": path}


READER = PartReader(
    type_of=medium_type,
    read=read_parts,
    keys=("images", *MEDIA_TYPES),
    hint="a picture or a sound stands in a message: [{'role': 'user', 'content': [{'type': 'image', 'image': picture}, "
    "{'type': 'text', 'text': question}]}], of a sound {'type': 'audio', 'audio': sound}",
    of_file=part_of_file,
)
"""The reader of pictures and sounds, for messages."""


def with_other_media(messages: Sequence[Message], media: Sequence[ReadPart]) -> list[Message]:
    """Return messages, as `read_parts` returns them, with others in the places of their pictures and sounds.

    Args:
        messages: Messages as `read_parts` returns them.
        media: The pictures, and the sounds, in their order.
    """
    pictures, sounds = map(iter, pictures_and_sounds(media))

    def replaced(part: Any) -> Any:
        if not isinstance(part, Mapping):
            return part
        if part.get("type") == "image":
            return {**part, "image": next(pictures).image}
        return {**part, "audio": next(sounds).samples} if part.get("type") == "audio" else part

    changed = [dict(message) for message in messages]
    for message in changed:
        if isinstance(message.get("content"), list):
            message["content"] = list(map(replaced, message["content"]))
    return changed


def pictures_and_sounds(media: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the pictures among media of a prompt, and the sounds, each in their order."""
    by_kind = {kind: [medium for medium in media if medium.kind == kind] for kind in ("picture", "sound")}
    return by_kind["picture"], by_kind["sound"]


def _typed_part(part: Any) -> Any:
    """Return a picture or a sound with its type; any other part unchanged."""
    if is_opened_picture(part):
        return {"type": "image", "image": part}
    if not isinstance(part, Mapping):
        return part
    if (medium := medium_type(part)) is not None:
        return {**part, "type": medium}
    untyped = part.get("type") is None and not isinstance(part.get("text"), str)
    return {**part, "type": "image"} if untyped and holds_picture(part) else part
