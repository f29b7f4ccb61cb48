"""Where a call of a tool stands in the text that a chat template writes of a conversation.

The conversation is rendered once more with a marker instead of a part of the call: the two texts differ where this part
stands, and nowhere else.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ...errors import InputError
from ...inputs.texts import numbered
from ...model.task_model import TaskModel
from ...pipeline.completions.reasoning import reasoning_marks
from ...text.characters import Span
from ..action import BEGINNING
from ..documents.conversations import Conversation, Message, parsed_arguments
from .rendering import Rendering, render, render_as

MARK_LETTERS = "QXZ"
"""A marker is made of one of these: neither the first nor the last character of what it stands for."""

MARK_LENGTH = 8

CLOSING = "\"'}]) \t\n"
"""Characters that end the text of a call behind its last argument."""


@dataclass(frozen=True)
class WrittenCall:
    """A conversation whose last step is a call of a tool, as it is rendered.

    Attributes:
        model: A language model.
        conversation: The conversation.
        rendering: Its text up to the end of the call's message.
    """

    model: TaskModel
    conversation: Conversation
    rendering: Rendering

    @property
    def before(self) -> tuple[Message, ...]:
        """The steps before the call."""
        return self.conversation.messages[:-1]

    @property
    def call(self) -> Message:
        """The call."""
        return self.conversation.messages[-1]

    @property
    def text(self) -> str:
        """The rendered text."""
        return self.rendering.prompt.text

    def text_with(self, *steps: Message, answer_follows: bool = False) -> str:
        """Return the text of the same conversation with other steps in the place of the call.

        Args:
            steps: The steps.
            answer_follows: See `render`.
        """
        conversation = replace(self.conversation, messages=(*self.before, *steps))
        return render_as(self.model, conversation, self.rendering.form, answer_follows=answer_follows).prompt.text

    @cached_property
    def spans(self) -> dict[str, Span]:
        """Where the tool's name and the arguments stand in the text, in their order, by name.

        It is empty where one of them does not stand there once.
        """
        marked_calls = list(_marked_calls(self.call, self.text))
        # An argument may be called like the tool, or like what stands before its name: then it has a number.
        # The first name, that of the beginning, is given up: the beginning is no marked part.
        _, *names = numbered([BEGINNING, *(marked.part for marked in marked_calls)])
        spans = dict[str, Span]()
        for name, marked in zip(names, marked_calls, strict=True):
            span = _differing_span(self.text, self.text_with(marked.call), marked.mark)
            if span is None:
                return {}
            spans[name] = span
        return dict(sorted(spans.items(), key=lambda named: named[1]))

    def start(self) -> int:
        """Return where the call begins in the text: behind what the template writes before an answer.

        In a message with other steps before the call, which the call continues, it is where the last of them ends.
        """
        last = len(self.before) - 1
        continues = self.before[last].number == self.call.number
        if continues and last in self.rendering.starts:
            start = self._end_of_step(last)
        else:
            start = common_start(self.text_with(answer_follows=not continues), self.text)
        # A template may write calls before the texts of their message.
        return min(start, *(first for first, _ in self.spans.values()))

    def _end_of_step(self, place: int) -> int:
        """Return where a step ends in the text; one of reasoning ends with the mark behind it."""
        step = self.before[place]
        end = self.rendering.starts[place] + len(step.text)
        behind = self.text[end:].lstrip()
        after = behind.removeprefix(reasoning_marks(self.model.reader)[1])
        is_marked = step.kind == "reasoning" and after != behind  # the template has written the mark
        return len(self.text) - len(after.lstrip()) if is_marked else end

    def start_of_answer(self) -> int:
        """Return where the text begins to be a call: where it parts from the same with words in its place."""
        words = Message("assistant", _unused_mark(self.text, self.call.name), "assistant", self.call.number)
        return common_start(self.text_with(words), self.text)

    def end(self) -> int:
        """Return where the call ends in the text: behind the quotes and brackets after its last argument."""
        end = max(last for _, last in self.spans.values())
        rest = self.text[end:]
        closing = rest[: len(rest) - len(rest.lstrip(CLOSING))]
        return end + len(closing.rstrip())


def written_call(model: TaskModel, conversation: Conversation) -> WrittenCall:
    """Render a conversation whose last step is a call.

    Where the chat template does not write each part of the call once, calls are written as text.

    Args:
        model: A language model.
        conversation: The conversation.

    Raises:
        InputError: If the text does not hold each part once either.
    """
    for tools_as_text in (False, True):
        rendering = render(model, conversation, answer_follows=False, tools_as_text=tools_as_text)
        written = WrittenCall(model, conversation, rendering)
        if written.spans:
            return written
    raise InputError(f"the chat template does not write the call of {conversation.messages[-1].name} once and as it is")


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
    if not isinstance(arguments, Mapping):  # a text that is no JSON, or other JSON: one part
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
    # A common letter at an end would be taken for text that does not differ. Two ends leave one of three letters.
    letter = next(letter for letter in MARK_LETTERS if letter not in (written[:1], written[-1:]))
    mark = letter * MARK_LENGTH
    while mark in text:
        mark += letter
    return mark


def _differing_span(text: str, marked_text: str, mark: str) -> Span | None:
    """Return the only span of a text that differs from the same with a marker there; None if more differs."""
    start = common_start(text, marked_text)
    after = common_start(text[::-1], marked_text[::-1])
    written = marked_text[start : len(marked_text) - after]
    # A template may write quotation marks around a text, and none around a number that the marker stands for.
    return (start, len(text) - after) if written.strip("\"'") == mark else None


def common_start(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return how many entries two sequences, such as the characters of texts, have in common from their beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    # Where none differs, one sequence is the beginning of the other.
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))
