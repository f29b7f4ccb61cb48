"""Pictures and sounds among the parts of messages, in the formats of common clients."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...inputs.message_parts import PartReader, ReadPart
from ...inputs.texts import plain_cell
from .items import MEDIA_TYPES, SUFFIXES, is_opened_picture, medium_type
from .pictures import Picture, holds_picture, names_picture, read_picture
from .sounds import Sound, read_sound, sampling_rate_of


def read_parts(
    messages: Sequence[dict[str, Any]], prompt: Any, reader: Any
) -> tuple[list[dict[str, Any]], tuple[ReadPart, ...]]:
    """Return messages with their pictures and sounds as chat templates take them, and these.

    Args:
        messages: With a role and a content: a text, a picture, or parts of these and of sounds; pictures under "images"
            stand before it, as Ollama has them.
        prompt: The mapping that holds the messages, with "images" beside them as data sets have them: those of the
            parts {"type": "image"} in their order; without such parts they stand before the first message of the user.
        reader: The processor; its sampling rate is that of sounds.
    """
    images = plain_cell(prompt.get("images")) if isinstance(prompt, Mapping) else None
    images = images if isinstance(images, list | tuple) else ()
    typed = [_with_typed_parts(message) for message in messages]
    parts = [part for message in typed if isinstance(message.get("content"), list) for part in message["content"]]
    places = [part for part in parts if _is_picture(part) and not holds_picture(part)]
    if images and not places:
        first = next((index for index, message in enumerate(typed) if message["role"] == "user"), 0)
        typed[first] = _with_typed_parts({**typed[first], "images": images})
    elif images and len(places) != len(images):
        raise InputError(f"the messages have places for {len(places)} pictures, and {len(images)} are beside them")
    unplaced_images, media = iter(images if places else ()), list[ReadPart]()
    for message in typed:
        if not isinstance(message.get("content"), list):
            continue
        content = []
        for part in message["content"]:
            if _is_picture(part):
                picture = read_picture(part if holds_picture(part) else next(unplaced_images, part))
                media.append(picture)
                part = {"type": "image", "image": picture.image}
            elif isinstance(part, Mapping) and part.get("type") == "audio":
                sound = read_sound(part, sampling_rate_of(reader), sum(medium.kind == "sound" for medium in media))
                media.append(sound)
                part = {"type": "audio", "audio": sound.samples}
            content.append(part)
        message["content"] = content
    return typed, tuple(media)


def part_of_file(path: str) -> dict[str, Any] | None:
    """Return the file of a picture or of a sound as a part of a message; None of another."""
    if Path(path).suffix.casefold() not in SUFFIXES:
        return None
    return {"type": "image", "image": path} if names_picture(path) else {"type": "audio", "audio": path}


READER = PartReader(
    type_of=medium_type,
    read=read_parts,
    beside=("images",),
    keys=("images", *MEDIA_TYPES),
    hint="a picture or a sound stands in a message: [{'role': 'user', 'content': [{'type': 'image', 'image': picture}, "
    "{'type': 'text', 'text': question}]}], of a sound {'type': 'audio', 'audio': sound}",
    of_file=part_of_file,
)
"""The reader of pictures and sounds, for messages."""


def with_other_media(messages: Sequence[Mapping[str, Any]], media: Sequence[ReadPart]) -> list[dict[str, Any]]:
    """Return messages, as `read_parts` returns them, with others in the places of their pictures and sounds."""
    pictures = iter([medium for medium in media if isinstance(medium, Picture)])
    sounds = iter([medium for medium in media if isinstance(medium, Sound)])

    def replaced(part: Any) -> Any:
        if not isinstance(part, Mapping):
            return part
        if part.get("type") == "image":
            return {**part, "image": next(pictures).image}
        return {**part, "audio": next(sounds).samples} if part.get("type") == "audio" else part

    return [
        {**m, "content": list(map(replaced, m["content"]))} if isinstance(m.get("content"), list) else dict(m)
        for m in messages
    ]


def _with_typed_parts(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with a picture as its content, or pictures beside it, as parts, and its media with types."""
    content, images = message.get("content"), message.get("images")
    images = images if isinstance(images, list | tuple) else ()
    is_picture = is_opened_picture(content)
    if not (isinstance(content, list | tuple) or is_picture or images):
        return message
    parts = content if isinstance(content, list | tuple) else [content] if is_picture or content else []
    pictures = [{"type": "image", "image": image} for image in images]
    rest = {key: value for key, value in message.items() if key != "images"}
    return {**rest, "content": [*pictures, *map(_typed_part, parts)]}


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


def _is_picture(part: Any) -> bool:
    """Return whether a typed part is a picture."""
    return isinstance(part, Mapping) and part.get("type") == "image"
