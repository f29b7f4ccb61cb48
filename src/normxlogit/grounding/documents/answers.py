"""The text of an answer in what clients of language models return: messages, responses, streamed chunks.

They are recognised by their shape; no package is imported.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .traces import message_of, to_plain_data

CHOICES = ("choices", "candidates", "replies")
"""Keys of several answers, of which the first is taken: of OpenAI, Gemini and Haystack."""

TEXTS = ("message", "output", "content", "parts", "blocks", "text", "response", "answer", "result", "data", "refusal")
"""Keys of an answer, of a part of it and of its text: of all clients, and of the chains of LangChain and LlamaIndex."""

NOT_TEXT = re.compile(r"reason|think|thought|tool|call|function")
"""In the types of parts and items that are not the text of an answer."""

TEXT_EVENTS = ("content_block_delta", "response.output_text.delta")
"""Types of the events in a stream that add text, of Anthropic and OpenAI."""

OTHER_EVENTS = re.compile(r"(message|content_block|response)[_.].+|.*_event|ping")
"""Types of other events, which repeat text or have none."""


def answer_text(answer: Any) -> Any:
    """Return the text of a message, a response or a result; anything else unchanged."""
    if isinstance(answer, str | bytes | Iterator) or hasattr(answer, "dtype"):
        return answer
    text = _text_in(to_plain_data(answer), TEXTS)
    return answer if text is None else text


def question_text(question: Any) -> Any:
    """Return the text of a message object; anything else unchanged."""
    message = message_of(question)
    return question if message is question or isinstance(question, tuple) else answer_text(message)


def piece_text(piece: Any) -> Any:
    """Return the text that a chunk of a stream adds, "" if it adds none; anything else unchanged."""
    if isinstance(piece, str):
        return piece
    chunk = to_plain_data(piece)
    if isinstance(chunk, dict) and "snapshot" in chunk:  # of Anthropic's client, beside its events
        return ""
    type_ = str(chunk.get("type")) if isinstance(chunk, dict) else ""
    if type_ in TEXT_EVENTS:
        return _text_in(chunk["delta"], TEXTS) or ""
    if OTHER_EVENTS.fullmatch(type_):
        return ""
    text = _text_in(chunk, ("delta", *TEXTS))
    if text is None and isinstance(chunk, dict) and any(key in chunk for key in (*CHOICES, "delta", "content")):
        return ""
    return piece if text is None else text


def _text_in(value: Any, keys: tuple[str, ...]) -> str | None:
    """Return the text of plain data; None if it has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [text for item in value if isinstance(item, dict) and (text := _text_in(item, keys)) is not None]
        return "".join(texts) if texts else None
    if not isinstance(value, Mapping) or value.get("thought") is True:
        return None
    if NOT_TEXT.search(str(value.get("type") or value.get("block_type") or "")):
        return None
    if isinstance(value.get("kwargs"), dict) and "lc" in value:  # a dump of LangChain
        return _text_in(value["kwargs"], keys)
    for key in CHOICES:
        if isinstance(value.get(key), list) and value[key]:
            first = value[key][0]
            return first if isinstance(first, str) else _text_in(first, keys)
    fields = (_text_in(value[key], keys) for key in keys if isinstance(value.get(key), str | list | dict))
    return next((text for text in fields if text is not None), None)
