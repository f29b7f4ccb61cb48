"""Prompts: texts, and chat messages as the tokenizer's template writes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from ..errors import InputError

__all__ = ["Content", "Prompt", "ReadPrompt", "read_prompt", "read_prompts"]

Prompt = str | Sequence[Mapping[str, Any]]
"""A text, or chat messages: mappings with "role" and "content", as chat templates know them."""

MARK = "Zq{}xZ"
"""What stands in the place of a content to see what the template writes around it: letters survive any filter."""


@dataclass(frozen=True)
class Content:
    """What a message says, within the prompt as the template writes it.

    Attributes:
        role: Who says it.
        start: Its first character.
        end: One past its last.
        message: Which message it is of.
        trimmed: Characters at its beginning, white space, that are not among them.
    """

    role: str
    start: int
    end: int
    message: int = 0
    trimmed: int = 0


@dataclass(frozen=True)
class ReadPrompt:
    """A prompt as one text.

    Attributes:
        text: The text.
        contents: Where each message's content stands; None for a prompt that was one text from the start.
    """

    text: str
    contents: tuple[Content, ...] | None


def read_prompts(prompts: Any) -> tuple[list[Prompt], bool]:
    """Return the prompts of whatever holds them, and whether it was a single one.

    Args:
        prompts: A text or messages, or any iterable of these.

    Raises:
        InputError: If one of several is neither.
    """
    if isinstance(prompts, str | Mapping) or not isinstance(prompts, Iterable):
        return [prompts], True  # type: ignore[list-item]  # refused where it is read
    found = list(prompts)
    if not found or any(isinstance(item, Mapping) for item in found):
        return [found], True
    for place, item in enumerate(found):
        if not isinstance(item, str | Sequence):
            raise InputError(f"prompt {place} is a string or a list of messages, not {type(item).__name__}")
    return found, False


def read_prompt(tokenizer: PreTrainedTokenizerBase, prompt: Prompt) -> ReadPrompt:
    """Write a prompt as one text.

    What of it belongs to the template is found from the template itself: the messages are rendered again with a mark
    in the place of each content.

    Args:
        tokenizer: Has the template.
        prompt: A text or messages.

    Raises:
        InputError: If it is neither, or there is no template, or it refuses the messages.
    """
    if isinstance(prompt, str):
        return ReadPrompt(prompt, None)
    given = list(prompt) if isinstance(prompt, Sequence) else [prompt]
    messages = [dict(m) for m in given if isinstance(m, Mapping) and "role" in m]
    if not messages or len(messages) != len(given):
        raise InputError("a prompt is a string or a list of messages, each with a role and a content")
    if not getattr(tokenizer, "chat_template", None):
        raise InputError("the tokenizer has no chat template for messages; give the prompt as one string")
    try:
        text = _rendered(tokenizer, messages)
    except (TemplateError, TypeError, KeyError, ValueError) as error:
        raise InputError(f"the chat template refuses these messages: {error}") from None
    return ReadPrompt(text, tuple(_contents(tokenizer, messages, text)))


def _rendered(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]]) -> str:
    ending = {"continue_final_message" if messages[-1]["role"] == "assistant" else "add_generation_prompt": True}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, **ending))  # type: ignore[arg-type]


def _contents(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], text: str) -> list[Content]:
    """Return where the contents stand, those that are strings with a word and that the template writes."""
    strings = {i: m["content"] for i, m in enumerate(messages) if isinstance(m.get("content"), str)}
    said = {i: content for i, content in strings.items() if content.strip()}
    marks = {i: MARK.format(i) for i in said}
    try:
        marked = _rendered(
            tokenizer, [m | ({"content": marks[i]} if i in marks else {}) for i, m in enumerate(messages)]
        )
    except (TemplateError, TypeError, KeyError, ValueError):
        marked = ""  # a template that reads the contents: they are looked for as they are
    order = sorted((marked.find(mark), i) for i, mark in marks.items() if marked.count(mark) == 1)
    found, at, done = [], 0, 0  # places in the text and in the marked one
    for place, i in order or [(0, i) for i in said]:
        literal = marked[done:place] if order else ""
        body = said[i].strip()
        start = at + len(literal)
        if text[at:start] != literal or not text[start:].lstrip().startswith(body):
            start = text.find(body, at)  # the template writes something else around this content
        if start < 0:
            continue
        start = text.index(body, start)
        trimmed = len(said[i]) - len(said[i].lstrip())
        found.append(Content(str(messages[i]["role"]), start, start + len(body), i, trimmed))
        at, done = start + len(body), place + len(marks[i])
        if order and text[at:].startswith(rest := said[i][len(said[i].rstrip()) :]):
            at += len(rest)  # white space after it that the template did not trim
    return found
