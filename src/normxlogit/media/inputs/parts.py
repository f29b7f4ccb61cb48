"""Pictures and sounds among the parts of messages, in the formats of common clients."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...inputs.message_parts import Message, PartReader, ReadPart
from ...inputs.texts import plain_cell
from .items import MEDIA_TYPES, SUFFIXES, is_opened_picture, medium_type
from .pictures import holds_picture, names_picture, read_picture
from .sounds import read_sound, sampling_rate_of


def read_parts(messages: Sequence[Message], prompt: Any, reader: Any) -> tuple[list[Message], tuple[ReadPart, ...]]:
    """Return messages as chat templates take them, and the pictures and sounds that they hold, read.

    Args:
        messages: With a role and a content: a text, a picture, or parts of these and of sounds; pictures under "images"
            stand before it, as Ollama has them.
        prompt: The mapping that holds the messages, with "images" beside them as data sets have them: those of the
            parts {"type": "image"} in their order; without such parts they stand before the first message of the user.
        reader: The processor; its sampling rate is that of sounds.

    Returns:
        New messages, and their pictures and sounds in the order of the messages.

    Raises:
        InputError: If one cannot be read, or the messages have more or fewer places than "images" has pictures.
    """
    typed_messages = [_with_typed_parts(message) for message in messages]
    unplaced_images = iter(_images_for_places(typed_messages, prompt))
    media: list[ReadPart] = []  # what `_read_part` appends to
    for message in typed_messages:
        if isinstance(message.get("content"), list):  # only a copy has a list: the caller's message stays as it is
            message["content"] = [_read_part(part, unplaced_images, reader, media) for part in message["content"]]
    return typed_messages, tuple(media)


def _images_for_places(messages: list[Message], prompt: Any) -> Sequence[Any]:
    """Return the pictures beside messages, one for each place in these.

    Messages without places get the pictures in front of the first message of the user, in the list of messages itself;
    then none is left, and nothing is returned.
    """
    images = plain_cell(prompt.get("images")) if isinstance(prompt, Mapping) else None
    if not isinstance(images, list | tuple) or not images:
        return ()
    place_count = sum(_place_count(message.get("content")) for message in messages)
    if not place_count:
        # Without a message of the user it is the first one.
        user_index = next((index for index, message in enumerate(messages) if message["role"] == "user"), 0)
        messages[user_index] = _with_typed_parts({**messages[user_index], "images": images})
        return ()
    if place_count != len(images):
        raise InputError(f"the messages have places for {place_count} pictures, and {len(images)} are beside them")
    return images


def _read_part(part: Any, unplaced_images: Iterator[Any], reader: Any, media: list[ReadPart]) -> Any:
    """Return a part of a message as chat templates take it.

    Args:
        part: The part, with its type.
        unplaced_images: The pictures beside the messages that have not got their places yet.
        reader: The processor.
        media: A list to which a picture or a sound is appended.
    """
    if _is_picture(part):
        # A place without a picture left for it is read itself, which raises the error.
        picture = read_picture(part if holds_picture(part) else next(unplaced_images, part))
        media.append(picture)
        return {"type": "image", "image": picture.image}
    if isinstance(part, Mapping) and part.get("type") == "audio":
        sounds_before = sum(medium.kind == "sound" for medium in media)
        sound = read_sound(part, sampling_rate_of(reader), place=sounds_before)
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
    beside=("images",),
    keys=("images", *MEDIA_TYPES),
    hint="a picture or a sound stands in a message: [{'role': 'user', 'content': [{'type': 'image', 'image': picture}, "
    "{'type': 'text', 'text': question}]}], of a sound {'type': 'audio', 'audio': sound}",
    of_file=part_of_file,
)
"""The reader of pictures and sounds, for messages."""


def with_other_media(messages: Sequence[Message], media: Sequence[ReadPart]) -> list[Message]:
    """Return messages with other pictures and sounds in the places of their own.

    Args:
        messages: Messages as `read_parts` returns them.
        media: As many pictures and sounds as they have, those of a kind in their order.
    """
    pictures, sounds = map(iter, pictures_and_sounds(media))
    changed = [dict(message) for message in messages]
    for message in changed:
        if isinstance(message.get("content"), list):
            message["content"] = [_with_next_medium(part, pictures, sounds) for part in message["content"]]
    return changed


def _with_next_medium(part: Any, pictures: Iterator[Any], sounds: Iterator[Any]) -> Any:
    """Return a part with the next picture or sound in its place; a part of text unchanged."""
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "image":
        return {**part, "image": next(pictures).image}
    return {**part, "audio": next(sounds).samples} if part.get("type") == "audio" else part


def pictures_and_sounds(media: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the pictures among the media of a prompt, and the sounds, each in their order.

    Args:
        media: Pictures and sounds.
    """
    by_kind = {kind: [medium for medium in media if medium.kind == kind] for kind in ("picture", "sound")}
    return by_kind["picture"], by_kind["sound"]


def _with_typed_parts(message: Message) -> Message:
    """Return a message whose content is a list of parts with types; one of a text alone unchanged.

    Pictures that stand beside the content, as Ollama has them, become its first parts.
    """
    content = message.get("content")
    images = message.get("images")
    images = images if isinstance(images, list | tuple) else ()
    parts: Any = content
    if is_opened_picture(content):
        parts = [content]
    elif not isinstance(content, list | tuple):  # a text, or None
        if not images:
            return message
        parts = [content] if content else []
    pictures = [{"type": "image", "image": image} for image in images]
    other_fields = {key: value for key, value in message.items() if key != "images"}
    return {**other_fields, "content": [*pictures, *map(_typed_part, parts)]}


def _typed_part(part: Any) -> Any:
    """Return a picture or a sound with its type; any other part unchanged."""
    if is_opened_picture(part):
        return {"type": "image", "image": part}
    if not isinstance(part, Mapping):
        return part
    if (medium := medium_type(part)) is not None:
        return {**part, "type": medium}
    is_untyped = part.get("type") is None and not isinstance(part.get("text"), str)
    # A row of a data set has a picture without a key of its own, such as {"bytes": ..., "path": ...}.
    return {**part, "type": "image"} if is_untyped and holds_picture(part) else part


def _place_count(content: Any) -> int:
    """Return how many parts of a content are {"type": "image"} alone: places for pictures beside the messages."""
    parts = content if isinstance(content, list) else ()
    return sum(_is_picture(part) and not holds_picture(part) for part in parts)


def _is_picture(part: Any) -> bool:
    """Return whether a typed part is a picture."""
    return isinstance(part, Mapping) and part.get("type") == "image"
