"""A call of a tool as the answer of a conversation: its name and the values of its arguments in the rendered text.

Where a part of the call stands in the text of a chat template is found by rendering the conversation once more with a
marker instead of the part: the two texts differ there, and nowhere else.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...errors import InputError
from ...inputs.texts import numbered
from ...model.task_model import TaskModel
from ...pipeline.completions.reasoning import reasoning_marks
from ...results.storage.schema import Strings
from ...results.units.spans import MessageSpan
from ...text.characters import Span
from ..action import BEGINNING
from ..documents.conversations import Conversation, Message, parsed_arguments, read_conversation
from .conversation_prompts import readable, sourced_messages
from .other_answers import Contrast, as_mapping, check_call, other_answer
from .prompts import CallParts, SourcedPrompt
from .rendering import Rendering, render, render_as

ActionSpec = int | str | Mapping[str, Any]
"""A call of a tool: its place among the calls of the conversation, the name of the tool, or the call itself."""

MARK_LETTERS = "QXZ"
"""A marker is made of one of these: neither the first nor the last character of what it stands for."""

MARK_LENGTH = 8

OWN_WORDS = ("reasoning", "assistant")
"""Kinds of messages in which the assistant says why it calls a tool, if they are in the message of the call."""

BEFORE_NAME = "\"' \t\n"
"""Characters right before the name of a tool that a token of it may hold."""

CLOSING = "\"'}]) \t\n"
"""Characters that end the text of a call behind its last argument."""


def action_prompt(
    model: TaskModel, conversation: Conversation, action: ActionSpec, contrast: Contrast | None = None
) -> SourcedPrompt:
    """Write a conversation up to a call as a prompt, whose answer is the call; its sources are all that was said.

    The user's last message is among the sources: what a call rests on beside it is what is asked.

    Args:
        model: A language model.
        conversation: The conversation.
        action: Which call.
        contrast: Another answer to the same prompt.

    Raises:
        InputError: If there is no such call, or it is not in the text that the chat template renders.
    """
    conversation = readable(model, _up_to_call(conversation, action))
    *before, call = conversation.messages
    rendering, spans = _rendered_call(model, conversation)
    text = rendering.prompt.text
    starts = {place: start for place, start in rendering.starts.items() if place < len(before)}
    start = _start_of_call(model, conversation, rendering)
    start = min(start, *(first for first, _ in spans.values()))
    said = replace(conversation, messages=tuple(before))
    prompt = Rendering(replace(rendering.prompt, text=text[:start]), starts)
    sourced = sourced_messages(model, said, prompt, with_question=True)
    answer = text[start : _end_of_call(text, max(last for _, last in spans.values()))]
    in_answer = {name: (first - start, last - start) for name, (first, last) in spans.items()}
    opened = max(0, _start_of_answer(model, conversation, rendering) - start)
    other = None if contrast is None else other_answer(model, conversation, rendering.form, text[:start], contrast)
    own_words = _own_words(call, before, dict(zip(starts, sourced.messages, strict=True)))
    parts = CallParts(call.name, _written_parts(answer, in_answer, opened), own_words, other)
    return sourced._replace(answer=answer, call=parts)


def _own_words(call: Message, before: Sequence[Message], placed: Mapping[int, MessageSpan]) -> Strings:
    """Return the names of the messages in which the assistant reasons or speaks right before a call.

    Args:
        call: The call.
        before: What was said before it.
        placed: Those of them that are in the prompt, by their places.
    """
    return tuple(
        message.name
        for place, message in placed.items()
        if before[place].number == call.number and before[place].kind in OWN_WORDS
    )


def _written_parts(answer: str, spans: Mapping[str, Span], opened: int) -> dict[str, Span]:
    """Return the parts of a call that are not empty, behind what the chat template writes before the first of them.

    Args:
        answer: The call as it is written.
        spans: The spans of its parts in it, by name, in their order.
        opened: How many of its characters the template writes before words as well.
    """
    beginning = answer[: next(iter(spans.values()))[0]].rstrip(BEFORE_NAME)
    parts = {BEGINNING: (opened, max(opened, len(beginning))), **spans}
    return {name: span for name, span in parts.items() if answer[slice(*span)].strip()}


def _up_to_call(conversation: Conversation, action: Any) -> Conversation:
    """Return a conversation whose last step is a call."""
    action = as_mapping(action)
    if isinstance(action, Mapping):
        return _with_call(conversation, action)
    place = _place_of_call(conversation, action)
    if not place:
        raise InputError("the call is the first message; a conversation has messages before the call")
    notes = conversation.notes
    if after := len({step.number for step in conversation.messages[place + 1 :]}):
        notes = (*notes, f"messages after the call are not read ({after})")
    return replace(conversation, messages=conversation.messages[: place + 1], notes=notes)


def _place_of_call(conversation: Conversation, action: Any) -> int:
    """Return the place of a call among the steps of a conversation, see `ActionSpec`."""
    names = {place: step.name for place, step in enumerate(conversation.messages) if step.kind == "tool call"}
    places = list(names)
    index: Any = None if isinstance(action, bool) else action
    if isinstance(action, str):
        places, index = [place for place, name in names.items() if name == action], -1
    try:
        return places[index]
    except (IndexError, TypeError):
        called = ", ".join(names.values()) or "no tool"
        raise InputError(f"no call {action!r}: the conversation calls {called}") from None


def _with_call(conversation: Conversation, call: Mapping[str, Any]) -> Conversation:
    """Return a conversation with a call behind it."""
    check_call(call)
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    *_, step = read_conversation([message]).messages
    step = replace(step, number=conversation.messages[-1].number + 1)
    return replace(conversation, messages=(*conversation.messages, step))


def _rendered_call(model: TaskModel, conversation: Conversation) -> tuple[Rendering, dict[str, Span]]:
    """Render a conversation with its last step, a call, and find the parts of this by name.

    Where the chat template does not write each part once, calls are written as text.

    Raises:
        InputError: If the text does not hold each part once either.
    """
    for tools_as_text in (False, True):
        rendering = render(model, conversation, answer_follows=False, tools_as_text=tools_as_text)
        if spans := _spans_of_parts(model, conversation, rendering):
            return rendering, spans
    raise InputError(f"the chat template does not write the call of {conversation.messages[-1].name} once and as it is")


def _spans_of_parts(model: TaskModel, conversation: Conversation, rendering: Rendering) -> dict[str, Span]:
    """Return where the name and the arguments of the last call stand in a rendered text, in their order, by name.

    Nothing is returned where one of them does not stand there once.
    """
    *before, call = conversation.messages
    text = rendering.prompt.text
    marked_calls = list(_marked_calls(call, text))
    _, *names = numbered([BEGINNING, *(marked.part for marked in marked_calls)])
    spans = dict[str, Span]()
    for name, marked in zip(names, marked_calls, strict=True):
        marked_conversation = replace(conversation, messages=(*before, marked.call))
        marked_rendering = render_as(model, marked_conversation, rendering.form, answer_follows=False)
        span = _differing_span(text, marked_rendering.prompt.text, marked.mark)
        if span is None:
            return {}
        spans[name] = span
    return dict(sorted(spans.items(), key=lambda named: named[1]))


class MarkedCall(NamedTuple):
    """A call in which a marker stands for one of its parts.

    Attributes:
        part: The name of the tool, or of an argument.
        mark: The marker.
        call: The call with it.
    """

    part: str
    mark: str
    call: Message


def _marked_calls(call: Message, text: str) -> Iterator[MarkedCall]:
    """Yield a call with a marker for its name, and for the value of each argument.

    Args:
        call: The call.
        text: What no marker stands in.
    """
    mark = _unused_mark(text, call.name)
    yield MarkedCall(call.name, mark, replace(call, name=mark))
    arguments = parsed_arguments(call.text)
    if not isinstance(arguments, Mapping):
        mark = _unused_mark(text, arguments)
        yield MarkedCall("arguments", mark, replace(call, text=mark))
        return
    for key, value in arguments.items():
        mark = _unused_mark(text, value)
        marked_text = json.dumps({**arguments, key: mark}, ensure_ascii=False)
        yield MarkedCall(str(key), mark, replace(call, text=marked_text))


def _unused_mark(text: str, value: Any) -> str:
    """Return a marker that a text lacks, and that begins and ends with another letter than a value."""
    written = (value if isinstance(value, str) else json.dumps(value)).strip()
    letter = next(letter for letter in MARK_LETTERS if letter not in (written[:1], written[-1:]))
    mark = letter * MARK_LENGTH
    while mark in text:
        mark += letter
    return mark


def _differing_span(text: str, marked_text: str, mark: str) -> Span | None:
    """Return the only span of a text that differs from the same with a marker there; None if more differs."""
    start = _common_start(text, marked_text)
    after = _common_start(text[::-1], marked_text[::-1])
    written = marked_text[start : len(marked_text) - after]
    return (start, len(text) - after) if written.strip("\"'") == mark else None


def _common_start(text: str, other: str) -> int:
    """Return how many characters two texts have in common from their beginning."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(text), len(other)))


def _start_of_call(model: TaskModel, conversation: Conversation, rendering: Rendering) -> int:
    """Return where the call begins in a rendered text: behind what the template writes before an answer.

    In a message with other steps before the call, which the call continues, it is where the last of them ends.

    Args:
        model: A language model.
        conversation: The conversation, whose last step is the call.
        rendering: As it is rendered.
    """
    *before, call = conversation.messages
    last, continues = len(before) - 1, before[-1].number == call.number
    if continues and last in rendering.starts:
        end = rendering.starts[last] + len(before[last].text)
        return end if before[last].kind != "reasoning" else _end_of_reasoning(model, rendering.prompt.text, end)
    said = replace(conversation, messages=tuple(before))
    opened = render_as(model, said, rendering.form, answer_follows=not continues)
    return _common_start(opened.prompt.text, rendering.prompt.text)


def _start_of_answer(model: TaskModel, conversation: Conversation, rendering: Rendering) -> int:
    """Return where a text begins to be a call: where it parts from the same with words in the place of the call.

    Args:
        model: A language model.
        conversation: The conversation, whose last step is the call.
        rendering: As it is rendered.
    """
    *before, call = conversation.messages
    text = rendering.prompt.text
    words = Message("assistant", _unused_mark(text, call.name), "assistant", call.number)
    with_words = replace(conversation, messages=(*before, words))
    return _common_start(render_as(model, with_words, rendering.form, answer_follows=False).prompt.text, text)


def _end_of_reasoning(model: TaskModel, text: str, end: int) -> int:
    """Return where a reasoning that ends at a character of a text ends with the mark behind it."""
    behind = text[end:].lstrip()
    after = behind.removeprefix(reasoning_marks(model.reader)[1])
    return end if after == behind else len(text) - len(after.lstrip())


def _end_of_call(text: str, end: int) -> int:
    """Return where a call ends in a rendered text, whose last argument ends there: behind quotes and brackets."""
    rest = text[end:]
    closing = rest[: len(rest) - len(rest.lstrip(CLOSING))]
    return end + len(closing.rstrip())
