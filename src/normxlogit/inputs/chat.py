"""Prompts: texts, and chat messages rendered by the tokenizer's template."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from ..errors import InputError

__all__ = ["Content", "Prompt", "ReadPrompt", "read_prompt", "read_prompts"]

Prompt = str | Sequence[Mapping[str, Any]]
"""A text, or chat messages: mappings with "role" and "content", as chat templates know them."""


@dataclass(frozen=True)
class Content:
    """The span of a message's content in the rendered prompt.

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
        notes: Which messages could not be found in it.
    """

    text: str
    contents: tuple[Content, ...] | None
    notes: tuple[str, ...] = ()


def read_prompts(prompts: Any) -> tuple[list[Prompt], bool]:
    """Return one or several prompts as a list, and whether it was a single one.

    Args:
        prompts: A text or messages, or any iterable of these.

    Raises:
        InputError: If one of several is neither.
    """
    if isinstance(prompts, str | Mapping) or not isinstance(prompts, Iterable):
        return [prompts], True  # type: ignore[list-item]  # refused where it is read
    items = list(prompts)
    if not items or any(isinstance(item, Mapping) for item in items):
        return [items], True
    for index, item in enumerate(items):
        if not isinstance(item, str | Sequence):
            raise InputError(f"prompt {index} is a string or a list of messages, not {type(item).__name__}")
    return items, False


def read_prompt(tokenizer: PreTrainedTokenizerBase, prompt: Prompt) -> ReadPrompt:
    """Render a prompt as one text.

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
    items = list(prompt) if isinstance(prompt, Sequence) else [prompt]
    messages = [dict(m) for m in items if isinstance(m, Mapping) and "role" in m]
    if not messages or len(messages) != len(items):
        raise InputError("a prompt is a string or a list of messages, each with a role and a content")
    if not getattr(tokenizer, "chat_template", None):
        raise InputError("the tokenizer has no chat template for messages; give the prompt as one string")
    try:
        text = _rendered(tokenizer, messages)
    except (TemplateError, TypeError, KeyError, ValueError) as error:
        raise InputError(f"the chat template refuses these messages: {error}") from None
    contents, notes = _contents(tokenizer, messages, text)
    return ReadPrompt(text, tuple(contents), tuple(notes))


def _rendered(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]]) -> str:
    ending = {"continue_final_message" if messages[-1]["role"] == "assistant" else "add_generation_prompt": True}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, **ending))  # type: ignore[arg-type]


def _contents(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], text: str
) -> tuple[list[Content], list[str]]:
    """Locate the contents that are strings with a word, and return a note for each that is not found."""
    bodies = {i: m["content"] for i, m in enumerate(messages) if isinstance(m.get("content"), str)}
    bodies = {i: content for i, content in bodies.items() if content.strip()}
    places = _together(tokenizer, messages, bodies, text)
    contents, notes = [], []
    for i, message in enumerate(messages):
        if i not in bodies:
            if message.get("content") and not isinstance(message["content"], str):
                notes.append(f"message {i} is not a plain text, so it is not among the sources")
            continue
        body = bodies[i].strip()
        start = places[i] if i in places else _alone(tokenizer, messages, i, text)
        if start is None:
            notes.append(
                f"the chat template does not write message {i} ({message['role']}) once and as it is, so it is not "
                "among the sources"
            )
            continue
        trimmed = len(bodies[i]) - len(bodies[i].lstrip())
        contents.append(Content(str(message["role"]), start, start + len(body), i, trimmed))
    return sorted(contents, key=lambda content: content.start), notes


def _together(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], bodies: Mapping[int, str], text: str
) -> dict[int, int]:
    """Locate all contents by rendering marks in their place, if the text between them stays the same."""
    marks = {i: _mark(text, i) for i in bodies}
    marked = _marked(tokenizer, messages, marks)
    order = sorted((marked.find(mark), i) for i, mark in marks.items() if marked.count(mark) == 1)
    starts: dict[int, int] = {}
    at = done = 0  # places in the text and in the marked one
    for position, i in order:
        literal, body = marked[done:position], bodies[i].strip()
        start = at + len(literal)
        if text[at:start] != literal or not text[start:].lstrip().startswith(body):
            break
        starts[i] = text.index(body, start)
        at, done = starts[i] + len(body), position + len(marks[i])
        if text[at:].startswith(trailing := bodies[i][len(bodies[i].rstrip()) :]):
            at += len(trailing)  # white space after it that the template did not trim
    return starts


def _alone(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], i: int, text: str) -> int | None:
    """Locate one content by rendering a mark in its place.

    A template may write something of a content elsewhere too, such as its length; then it is where it is found once,
    and not without the message.
    """
    content = messages[i]["content"]
    body, mark = content.strip(), _mark(text, i, len(content))
    marked = _marked(tokenizer, messages, {i: mark})
    before, _, after = marked.partition(mark)
    end = len(text) - len(after)
    fits = marked.count(mark) == 1 and text.startswith(before) and text.endswith(after)
    if fits and text[len(before) : end].strip() == body:
        return text.index(body, len(before))
    if marked.count(mark) == 1 and text.count(body) == 1 and body not in marked:
        return text.index(body)
    return None


def _mark(text: str, i: int, length: int = 0) -> str:
    """Return a mark that the text does not hold: letters, about as many as the content has, which filters keep."""
    mark = f"Zq{i}xZ"
    while mark in text:
        mark += "qZ"
    return mark + "q" * (length - len(mark))


def _marked(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], marks: Mapping[int, str]) -> str:
    """Render the prompt with marks for contents; empty if the template refuses a mark."""
    try:
        return _rendered(tokenizer, [m | ({"content": marks[i]} if i in marks else {}) for i, m in enumerate(messages)])
    except (TemplateError, TypeError, KeyError, ValueError):
        return ""
