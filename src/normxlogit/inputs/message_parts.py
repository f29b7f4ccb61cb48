"""Parts of messages: texts, pictures and sounds, in the formats of common clients."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..media.inputs.items import is_opened_picture, medium_type
from ..media.inputs.pictures import Picture, holds_picture, read_picture
from ..media.inputs.sounds import Sound, read_sound

TEXT_TYPES = ("text", "input_text", "output_text")
"""Types of text parts, in templates and OpenAI's clients."""

UNREADABLE_TYPES = frozenset(("video", "video_url"))
"""Types of parts that templates may silently leave out."""


def typed_messages(
    messages: Sequence[dict[str, Any]], images: Sequence[Any], rate: int | None
) -> tuple[list[dict[str, Any]], tuple[Picture | Sound, ...]]:
    """Return messages whose parts have the types of chat templates, and their pictures and sounds.

    Args:
        messages: With a role and a content: a text, a picture, or parts of these and of sounds; pictures under "images"
            stand before it, as Ollama has them.
        images: Pictures beside the messages, as data sets have them: those of the parts {"type": "image"} in their
            order; without such parts they stand before the first message of the user.
        rate: Samples a second that the model reads; None if it reads no sounds.

    Raises:
        InputError: If a part is neither a text nor a picture nor a sound, or a picture is missing or left over.
    """
    typed = [_with_typed_parts(message, index) for index, message in enumerate(messages)]
    parts = [part for message in typed if isinstance(message.get("content"), list) for part in message["content"]]
    places = [part for part in parts if _is_picture(part) and not holds_picture(part)]
    if images and not places:
        first = next((index for index, message in enumerate(typed) if message["role"] == "user"), 0)
        typed[first] = _with_typed_parts({**typed[first], "images": images}, first)
    elif images and len(places) != len(images):
        raise InputError(f"the messages have places for {len(places)} pictures, and {len(images)} are beside them")
    beside, media = iter(images if places else ()), list[Picture | Sound]()
    for message in typed:
        if not isinstance(message.get("content"), list):
            continue
        content = []
        for part in message["content"]:
            if _is_picture(part):
                picture = read_picture(part if holds_picture(part) else next(beside, part))
                media.append(picture)
                part = {"type": "image", "image": picture.image}
            elif isinstance(part, Mapping) and part.get("type") == "audio":
                sound = read_sound(part, rate, sum(medium.kind == "sound" for medium in media))
                media.append(sound)
                part = {"type": "audio", "audio": sound.samples}
            content.append(part)
        message["content"] = content
    return typed, tuple(media)


def with_other_media(messages: Sequence[Mapping[str, Any]], media: Sequence[Picture | Sound]) -> list[dict[str, Any]]:
    """Return messages, as `typed_messages` returns them, with others in the places of their pictures and sounds."""
    pictures = iter([medium for medium in media if isinstance(medium, Picture)])
    sounds = iter([medium for medium in media if isinstance(medium, Sound)])

    def replaced(part: Any) -> Any:
        if not isinstance(part, Mapping):
            return part
        if part.get("type") == "image":
            return {**part, "image": next(pictures).image}
        return {**part, "audio": next(sounds).samples} if part.get("type") == "audio" else part

    return [
        {**message, "content": list(map(replaced, message["content"]))}
        if isinstance(message.get("content"), list)
        else dict(message)
        for message in messages
    ]


def text_of_part(part: Any) -> str | None:
    """Return the text of a part of a message; None if it is another part."""
    text = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") in TEXT_TYPES else part
    return text if isinstance(text, str) else None


def texts_of(message: Mapping[str, Any]) -> list[str]:
    """Return the texts of a message: its content, or those of its parts. Characters count as in lines of them."""
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else [content]
    return [text for part in parts if (text := text_of_part(part)) is not None]


def _with_typed_parts(message: dict[str, Any], index: int) -> dict[str, Any]:
    """Return a message whose content, unless it is one text, is a list of parts with types."""
    content, images = message.get("content"), message.get("images")
    has_images = isinstance(images, list | tuple) and len(images) > 0
    if isinstance(content, list | tuple):
        parts = [_typed_part(part, index) for part in content]
    elif is_opened_picture(content):
        parts = [_typed_part(content, index)]
    elif has_images:
        parts = [_typed_part(content, index)] if content else []
    else:
        return message
    pictures = [{"type": "image", "image": image} for image in images or ()] if has_images else []
    return {**{key: value for key, value in message.items() if key != "images"}, "content": [*pictures, *parts]}


def _typed_part(part: Any, index: int) -> Any:
    """Return a part of a message with its type; what templates know besides texts and pictures stays as it is.

    Raises:
        InputError: If it cannot be told what it is, or it is a video.
    """
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if is_opened_picture(part):
        return {"type": "image", "image": part}
    if not isinstance(part, Mapping):
        raise InputError(
            f"message {index} holds a {type(part).__name__} among its parts; expected texts, pictures and sounds"
        )
    kind = part.get("type")
    if kind in UNREADABLE_TYPES:
        raise InputError(f"message {index} holds a part of type {kind!r}; texts, pictures and sounds are read")
    if kind in TEXT_TYPES:
        return {**part, "type": "text"}
    if (medium := medium_type(part)) is not None:
        return {**part, "type": medium}
    if kind is not None:
        return part
    if holds_picture(part):
        return {**part, "type": "image"}
    if isinstance(part.get("text"), str):
        return {**part, "type": "text"}
    raise InputError(
        f"message {index} holds a part without a type ({', '.join(map(str, part)) or 'it is empty'}); a text is "
        "{'type': 'text', 'text': ...}, a picture {'type': 'image', 'image': ...}, and a sound {'type': 'audio', "
        "'audio': ...}"
    )


def _is_picture(part: Any) -> bool:
    """Return whether a typed part is a picture."""
    return isinstance(part, Mapping) and part.get("type") == "image"
