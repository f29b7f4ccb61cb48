"""What a call of a tool is explained against: another answer to the same messages, in words or as a call."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...errors import InputError
from ..action import quoted
from ..documents.conversations import Message, read_conversation
from .prompts import OtherAnswer
from .written_call import WrittenCall

Contrast = str | Mapping[str, Any]
"""What a call is explained against: an answer in words, or another call."""


def other_answer(written: WrittenCall, prompt: str, contrast: Contrast) -> OtherAnswer:
    """Return another answer in the place of a call, as the chat template writes it.

    Args:
        written: The conversation with the call.
        prompt: What is written before the call.
        contrast: The other answer.

    Raises:
        InputError: If it is not an answer, or the chat template does not write it in the place of the call.
    """
    steps = steps_of_answer(contrast, written.call.number)
    text = written.text_with(*steps)
    if not text.startswith(prompt):
        raise InputError("the chat template writes the messages in another way before contrast= than before the call")
    last, answer = steps[-1], text[len(prompt) :]
    if (last.name or last.text) not in answer:  # the tool of a call, whose arguments templates write in other ways
        raise InputError("the chat template does not write contrast= in the place of the call")
    return OtherAnswer(answer, _described(last, written.call))


def steps_of_answer(contrast: Any, number: int) -> list[Message]:
    """Return the steps of an answer, in words or as a call.

    Args:
        contrast: The answer.
        number: Its place among the messages of a conversation.

    Raises:
        InputError: If it is neither.
    """
    contrast = as_mapping(contrast)
    if isinstance(contrast, Mapping):
        _check_call(contrast)
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [contrast]}
    elif isinstance(contrast, str) and contrast.strip():
        message = {"role": "assistant", "content": contrast}
    else:
        raise InputError(f"contrast= is an answer in words, or a call as a mapping, not {contrast!r}")
    # Read by itself it is message 0; there it takes the place of the call.
    return [replace(step, number=number) for step in read_conversation([message]).messages]


def _described(answer: Message, call: Message) -> str:
    """Return what an answer is called beside a call."""
    if answer.kind != "tool call":
        return f"the answer {quoted(answer.text)}"
    return f"another call of {call.name}" if answer.name == call.name else answer.name


def as_mapping(value: Any) -> Any:
    """Return an object of a client as a mapping; anything else unchanged."""
    return value.model_dump() if hasattr(value, "model_dump") else value  # pydantic's, as OpenAI's client has them


def _check_call(action: Mapping[str, Any]) -> None:
    """Refuse what is not a call as messages hold it: with a name and arguments."""
    function = action.get("function", action)  # or the name and the arguments without a mapping around them
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name.strip() or "arguments" not in function:
        keys = ", ".join(map(str, action))
        raise InputError(f'a call is {{"name": ..., "arguments": {{...}}}}, not a mapping with {keys}')
