"""A call of a tool as the answer of a conversation, whose sources are all that was said before it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ...results.units.spans import MessageSpan
from ...text.characters import Span, moved
from ..action import BEGINNING
from ..documents.conversations import Conversation, Message, picked_step
from .conversation_prompts import readable, sourced_messages
from .other_answers import Contrast, as_mapping, other_answer, steps_of_answer
from .prompts import CallParts, SourcedPrompt
from .written_call import written_call

ActionSpec = int | str | Mapping[str, Any]
"""A call of a tool: its place among the calls of the conversation, the name of the tool, or the call itself."""

OWN_WORDS = ("reasoning", "assistant")
"""Kinds of messages in which the assistant says why it calls a tool, if they are in the message of the call."""

BEFORE_NAME = "\"' \t\n"
"""Characters right before the name of a tool that a token of it may hold."""


def action_prompt(
    model: TaskModel, conversation: Conversation, action: ActionSpec, contrast: Contrast | None
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
    conversation = _up_to_call(conversation, action)
    # Put aside: what may be left out of the messages, such as a picture, is never the call.
    *before, call = conversation.messages
    said = readable(model, replace(conversation, messages=tuple(before)))
    written = written_call(model, replace(said, messages=(*said.messages, call)))
    start = written.start()
    prompt = replace(written.rendering.prompt, text=written.text[:start])
    starts = {place: first for place, first in written.rendering.starts.items() if place < len(said.messages)}
    rendering = written.rendering._replace(prompt=prompt, starts=starts)
    sourced = sourced_messages(said, rendering, with_question=True)
    answer = written.text[start : written.end()]
    spans = {name: moved(span, -start) for name, span in written.spans.items()}
    opened = max(0, written.start_of_answer() - start)  # 0 where words would part from the call before it begins
    other = None if contrast is None else other_answer(written, prompt.text, contrast)
    own_words = _own_words(call, said.messages, dict(zip(starts, sourced.messages, strict=True)))
    parts = CallParts(call.name, _written_parts(answer, spans, opened), own_words, other)
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
    messages, action = conversation.messages, as_mapping(action)
    if isinstance(action, Mapping):
        return replace(conversation, messages=(*messages, *steps_of_answer(action, messages[-1].number + 1)))
    place = _place_of_call(conversation, action)
    notes = conversation.notes
    if after := len({step.number for step in messages[place + 1 :]}):
        notes = (*notes, f"messages after the call are not read ({after})")
    return replace(conversation, messages=messages[: place + 1], notes=notes)


def _place_of_call(conversation: Conversation, action: Any) -> int:
    """Return the place of a call among the steps of a conversation, see `ActionSpec`."""
    names = {place: step.name for place, step in enumerate(conversation.messages) if step.kind == "tool call"}
    places = list(names)
    index: Any = None if isinstance(action, bool) else action  # True is no place
    if isinstance(action, str):
        places, index = [place for place, name in names.items() if name == action], -1  # the last call of the tool
    called = ", ".join(names.values()) or "no tool"
    return picked_step(places, index, "call", f"no call {action!r}: the conversation calls {called}")
