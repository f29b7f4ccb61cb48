"""Prompts: texts, and chat messages rendered by the tokenizer's template."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from jinja2 import TemplateError

from ..errors import InputError
from .message_parts import (
    Message,
    ReadPart,
    hint_for,
    is_message,
    message_of,
    part_readers,
    text_of_part,
    texts_of,
    typed_messages,
)
from .texts import collected, is_table, named_columns, plain_cell, text_column

Prompt = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A text, or chat messages: mappings with "role" and "content", as chat templates expect them.

A content is a text, or a list of parts: {"type": "text", "text": ...}, {"type": "image", "image": ...} and
{"type": "audio", "audio": ...}. A mapping holds messages with what stands beside them, see `chat_keys`."""


TEMPLATE_ERRORS = (TemplateError, TypeError, KeyError, ValueError)
"""What a chat template raises for messages or options that it does not take."""


class ChatTemplateError(InputError):
    """The tokenizer has no chat template."""


def chat_keys() -> tuple[str, ...]:
    """Return the keys of messages with what is beside them, as data sets of conversations name them."""
    keys = (key for reader in part_readers() for key in reader.beside)
    return ("messages", *keys, "tools", "documents", "chat_template_kwargs")


@dataclass(frozen=True)
class Content:
    """Where a text of a message is in the rendered prompt.

    Attributes:
        role: The role of the message.
        start: Its first character in the prompt, after any white space of the text.
        end: One past its last character.
        message: The index of the message in the chat.
        first: Which character of the message's texts, joined by one character each, stands at `start`.
    """

    role: str
    start: int
    end: int
    message: int = 0
    first: int = 0

    def holds(self, message: int, first: int, last: int) -> bool:
        """Return whether characters of a message's texts, from the first to before the last, are in this one.

        Args:
            message: The place of the message in the chat.
            first: The first character, counted in the texts of the message joined by a character.
            last: One past the last, counted likewise.
        """
        length = self.end - self.start
        start_here, end_here = first - self.first, last - self.first
        return message == self.message and 0 <= start_here < end_here <= length

    def place_of(self, character: int) -> int:
        """Return where a character of the message's texts is in the prompt."""
        return self.start + character - self.first


@dataclass(frozen=True)
class ReadPrompt:
    """A prompt as one text.

    Attributes:
        text: The text.
        contents: Where the texts of its messages are in it; None if it was one text from the start.
        notes: What a reader of its results should know, in lines.
        messages: The messages, as its template was given them; none for a text.
        media: The pictures and sounds in them.
        template_options: The options that its template was given.
    """

    text: str
    contents: tuple[Content, ...] | None
    notes: tuple[str, ...] = ()
    messages: list[Message] = field(default_factory=list)
    media: tuple[ReadPart, ...] = ()
    template_options: dict[str, Any] = field(default_factory=dict)


def messages_of(value: Any) -> Any:
    """Return the messages of a chat as mappings; anything else unchanged."""
    messages = value["messages"] if isinstance(value, Mapping) and "messages" in value else _as_chat(value)
    return list(map(message_of, messages)) if isinstance(messages, list | tuple) else messages


def _as_chat(value: Any) -> Any:
    """Return a single message as a chat; anything else unchanged."""
    message = message_of(value)
    return [message] if is_message(message) else value


def has_chat_template(reader: Any) -> bool:
    """Return whether a tokenizer or a processor can write messages."""
    return bool(getattr(reader, "chat_template", None))


def is_chat(value: Any) -> bool:
    """Return whether a value is one chat."""
    messages = messages_of(value)
    return isinstance(messages, list | tuple) and len(messages) > 0 and all(map(is_message, messages))


def read_chats(inputs: Any, *, pairs: bool) -> tuple[list[Any], bool] | None:
    """Return one or several chats as a list, and whether it was a single one; None for what is no chat.

    Args:
        inputs: What the caller gave.
        pairs: Whether the task reads pairs, so that a tuple is two texts and not the messages of a chat.
    """
    if is_table(inputs):
        chats = _chats_of_table(collected(inputs))
        return None if chats is None else (chats, False)
    items = list(inputs) if isinstance(inputs, list | tuple) else []
    types_of_texts = (str, tuple) if pairs else str
    if items and isinstance(items[0], types_of_texts):  # texts, of which there may be too many to look at each
        return None
    if is_chat(inputs):
        return [inputs], True
    return (items, False) if items and all(map(is_chat, items)) else None


def read_prompts(prompts: Any) -> tuple[list[Prompt], bool]:
    """Return one or several prompts as a list, and whether it was a single one."""
    prompts = collected(_as_chat(prompts))
    if is_table(prompts):
        chats = _chats_of_table(prompts)
        prompts = text_column(prompts) if chats is None else chats
    if isinstance(prompts, str | Mapping) or not isinstance(prompts, Iterable):
        return [_prompt(prompts)], True
    items = [message_of(plain_cell(item)) for item in prompts]
    # An empty list is taken for a chat as well, which `read_prompt` refuses.
    if not items or any(map(is_message, items)):  # the messages of one chat
        return [items], True
    return list(map(_prompt, items)), False


def _prompt(item: Any) -> Any:
    """Return a prompt as it is, and of a row of a data set its only text.

    Anything else is returned, too: `read_prompt` refuses it.

    Raises:
        InputError: If a row has no text, or holds a picture or a sound.
    """
    if not isinstance(item, Mapping) or set(chat_keys()) & item.keys():
        return item
    if hint := hint_for(item):
        raise InputError(f"a row with {', '.join(map(str, item))} was given as a prompt{hint}")
    return text_column(item)


def _chats_of_table(table: Any) -> list[dict[str, Any]] | None:
    """Return the chats in a table, with what of `chat_keys` is beside them; None if it has none, or is not a table."""
    columns = named_columns(table)
    if columns is None:
        return None
    columns_of_keys = {key: columns[key] for key in chat_keys() if key in columns}
    if "messages" not in columns:
        columns_of_chats = list(filter(_begins_with_chat, columns.values()))
        # Of several columns of chats it is not clear which one is meant.
        if len(columns_of_chats) != 1:
            return None
        columns_of_keys["messages"] = columns_of_chats[0]
    cells = {key: map(plain_cell, column) for key, column in columns_of_keys.items()}
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def _begins_with_chat(column: Any) -> bool:
    """Return whether the first cell of a column is a chat."""
    return is_chat(plain_cell(next(iter(column), None)))


def read_prompt(
    tokenizer: Any, prompt: Prompt, template_options: Mapping[str, Any] | None = None, *, answer_follows: bool = True
) -> ReadPrompt:
    """Return a prompt rendered as one text, with the spans of its contents.

    Args:
        tokenizer: A tokenizer or processor, with a chat template where the prompt is of messages.
        prompt: A text, messages, or a mapping that holds messages.
        template_options: What the template is given where the prompt does not say otherwise.
        answer_follows: Whether the model continues it: with a new message, or with its own last one.

    Raises:
        InputError: If this is not a prompt, or the template refuses it.
    """
    if isinstance(prompt, str):
        return ReadPrompt(prompt, None)
    prompt = _as_chat(prompt)
    own_options = _options_of_prompt(prompt)  # they win over the caller's
    messages, media = typed_messages(_checked_messages(prompt), prompt, tokenizer)
    if not has_chat_template(tokenizer):
        raise ChatTemplateError("the tokenizer has no chat template for messages; give the prompt as one string")
    options: dict[str, Any] = {}
    if answer_follows:
        is_begun = messages[-1]["role"] == "assistant"
        options = {"continue_final_message" if is_begun else "add_generation_prompt": True}
    options |= {**(template_options or {}), **own_options}
    written = _written(_Chat(tokenizer, messages, options), media)
    contents, notes = written.located_contents()
    notes += written.unused_options()
    return ReadPrompt(written.text, tuple(contents), tuple(notes), written.messages, media, options)


@dataclass(frozen=True)
class _Chat:
    """Messages in the form that a chat template takes, with its options."""

    tokenizer: Any
    messages: list[Message]
    options: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """The messages as the chat template writes them."""
        return str(self.tokenizer.apply_chat_template(self.messages, tokenize=False, **self.options))

    def advice_on_calls(self) -> str:
        """Return what to do with a message that is a tool call alone, for a template that writes none; "" otherwise."""
        empty = [index for index, message in enumerate(self.messages) if message.get("content") is None]
        if not empty or "tool_calls" in str(self.tokenizer.chat_template):
            return ""
        return f"; message {empty[0]} has no content, and the template writes no tool calls: write them as its content"

    def unused_options(self) -> list[str]:
        """Return a note for tools or documents that the template does not write: the text is the same without them."""
        notes = []
        for name in ("tools", "documents"):
            if not self.options.get(name):
                continue
            without_it = replace(self, options={**self.options, name: None})
            with suppress(*TEMPLATE_ERRORS):  # of a template that needs them
                if without_it.text == self.text:
                    notes.append(f"the chat template does not write {name}=, so the model does not read them")
        return notes

    def writes_parts(self) -> bool:
        """Return whether the template takes contents that are lists of parts, and does not write them as code."""
        try:
            text = self.text
        except TypeError:  # it joins them as texts
            return False
        contents = [message.get("content") for message in self.messages]
        # An empty list is not looked for: "[]" may stand in any text.
        return not any(str(content) in text for content in contents if isinstance(content, list) and content)

    def with_text(self, index: int, number: int, text: str) -> "_Chat":
        """Return the chat with one of the texts of a message replaced; all else stays.

        Args:
            index: The place of the message in the chat.
            number: Which of its texts, where its content is a list of parts.
            text: The new text.
        """
        message = self.messages[index]
        content = message.get("content")
        if isinstance(content, list):
            places_of_texts = [place for place, part in enumerate(content) if text_of_part(part) is not None]
            place = places_of_texts[number]
            text_part = {**content[place], "text": text}
            new_content: Any = [*content[:place], text_part, *content[place + 1 :]]
        else:
            new_content = text
        new_message = {**message, "content": new_content}
        return replace(self, messages=[*self.messages[:index], new_message, *self.messages[index + 1 :]])

    def located_contents(self) -> tuple[list[Content], list[str]]:
        """Return the spans of the texts of messages in the prompt, and a note for each message that is not found."""
        contents: list[Content] = []
        notes: dict[str, None] = {}  # in order, each once
        for index, message in enumerate(self.messages):
            role = message["role"]
            text_start = 0  # of each text, in the texts of the message joined by one character each
            for number, text in enumerate(texts_of(message)):
                body = text.strip()
                start = self._place_of_text(index, number, text) if body else None
                if start is not None:
                    first = text_start + text.index(body)
                    contents.append(Content(str(role), start, start + len(body), message=index, first=first))
                elif body:
                    place = f"message {index} ({role})"
                    note = f"the chat template does not write {place} once and as it is, so it is not among the sources"
                    notes[note] = None
                text_start += len(text) + 1
        return sorted(contents, key=lambda content: content.start), list(notes)

    def _place_of_text(self, index: int, number: int, content: str) -> int | None:
        """Return where a text of a message begins in the prompt, found by writing a marker instead; None if unknown.

        A template may write something of a content elsewhere too, such as its length; then it is where it is found
        once, and not without the message.

        Args:
            index: The index of the message.
            number: Which of its texts, see `with_text`.
            content: The text.
        """
        text = self.text
        body = content.strip()
        mark = _unused_mark(text, len(content))
        try:
            text_with_mark = self.with_text(index, number, mark).text
        except TEMPLATE_ERRORS:  # it refuses the mark
            return None
        if text_with_mark.count(mark) != 1:
            return None
        prefix, _, suffix = text_with_mark.partition(mark)
        has_same_frame = text.startswith(prefix) and text.endswith(suffix)
        if has_same_frame and text[len(prefix) : len(text) - len(suffix)].strip() == body:
            return text.index(body, len(prefix))
        return text.index(body) if text.count(body) == 1 and body not in text_with_mark else None


def _checked_messages(prompt: Any) -> list[Message]:
    """Return the messages of a prompt.

    Raises:
        InputError: If it is no list of messages.
    """
    messages = messages_of(prompt)
    items = list(messages) if isinstance(messages, Sequence) else [messages]
    if not items or not all(map(is_message, items)):
        raise InputError(
            f"a prompt is a string or a list of messages, each with a role and a content, not "
            f"{type(messages).__name__}; pictures and sounds are parts of messages, or the whole input of a model that "
            "reads them alone"
        )
    return [dict(item) for item in items]


def _written(chat: _Chat, media: Sequence[ReadPart]) -> _Chat:
    """Return a chat in the form that its template takes, which has written it.

    Raises:
        InputError: If the template refuses the messages, or writes texts alone and they hold media.
    """
    try:
        if chat.writes_parts():
            return chat
        if media:
            raise InputError(f"the chat template writes texts alone, and a message holds a {media[0].kind}")
        chat = replace(chat, messages=list(map(_as_one_text, chat.messages)))
        # Written here, so that an error of the template is caught here; the text is kept.
        _ = chat.text
    except TEMPLATE_ERRORS as error:
        raise InputError(f"the chat template refuses these messages: {error}{chat.advice_on_calls()}") from None
    return chat


def _as_one_text(message: Message) -> Message:
    """Return a message with parts that are all texts joined to one text; any other message unchanged."""
    content = message.get("content")
    is_text = isinstance(content, list) and all(text_of_part(part) is not None for part in content)
    return {**message, "content": "\n".join(texts_of(message))} if is_text else message


def _options_of_prompt(prompt: Any) -> dict[str, Any]:
    """Return the options of the chat template that a prompt has beside its messages."""
    if not isinstance(prompt, Mapping):
        return {}
    unknown = [str(key) for key in prompt if key not in chat_keys()]
    if "messages" not in prompt or unknown:
        expected = ", ".join(chat_keys()[1:])
        keys = ", ".join(map(str, prompt))
        raise InputError(f"a prompt as a mapping has messages and beside them {expected}; got {keys}{hint_for(prompt)}")
    template_kwargs = prompt.get("chat_template_kwargs") or {}
    template_options = {name: prompt[name] for name in ("tools", "documents") if prompt.get(name) is not None}
    # `chat_template_kwargs` win over tools and documents beside the messages.
    return {**template_options, **template_kwargs}


def _unused_mark(text: str, length: int) -> str:
    """Return a marker of letters that the text lacks, about as long as the content, which template filters keep."""
    mark = "ZqxZ"
    while mark in text:
        mark += "qZ"
    return mark + "q" * (length - len(mark))
