"""Find the reasoning in an answer: by what the tokenizer declares, or where the caller says."""

from collections.abc import Iterable
from typing import Any, cast

from jinja2 import TemplateError

from ...errors import InputError
from ...inputs.chat import has_chat_template
from ...model.task_model import TaskModel

NAMES, MARKS = ("reasoning_content", "thinking", "reasoning"), ("<think>", "</think>")
"""What templates call the reasoning in a message, and what stands around it where the tokenizer declares nothing."""

Spans = tuple[tuple[int, int], ...]

ReasoningSpec = Iterable[tuple[int, int]] | tuple[str, str]
"""Where a completion reasons: spans of its characters, or what stands before and behind the reasoning."""


def reasoning_spans(model: TaskModel, completion: str, prompt: str, spec: ReasoningSpec | None) -> tuple[Spans, Spans]:
    """Return the spans (start, end) of the reasoning, in characters of the completion, and those with marks around.

    Without a `spec` of the caller, by the tokenizer's response template, or by what its chat template writes around.
    """
    given = tuple(map(str.strip, cast(Any, spec))) if are_marks(spec) else None
    opening, ending = marks = cast(tuple[str, str], given) or reasoning_marks(model.reader)
    if spec is not None and not are_marks(spec):
        spans = _checked(spec, completion)
    elif spec is None and getattr(model.tokenizer, "response_template", None):
        thought = _parsed(model.tokenizer, completion, prompt)
        start = completion.find(thought) if thought else -1
        spans = ((start, start + len(thought)),) if start >= 0 else ()
    else:
        end = max(completion.find(ending), 0)
        start = completion.find(opening) + len(opening) if opening in completion[:end] else 0
        spans = ((start, end),) if completion[start:end].strip() else ()
    return spans, tuple(_with_marks(completion, span, marks) for span in spans)


def are_marks(spec: Any) -> bool:
    """Return whether the caller gave what stands around the reasoning, rather than spans."""
    return isinstance(spec, list | tuple) and len(spec) == 2 and all(isinstance(m, str) and m.strip() for m in spec)


def opens_reasoning(prompt: str, opening: str) -> bool:
    """Return whether a prompt ends with the mark that opens a reasoning, as some chat templates write it."""
    return prompt.rstrip().endswith(opening or MARKS[0])


def shifted(spec: ReasoningSpec | None, by: int) -> ReasoningSpec | None:
    """Return the caller's spans moved by some characters; of marks there are none."""
    if spec is None or are_marks(spec):
        return spec
    try:
        return sorted((int(start) + by, int(end) + by) for start, end in cast(Any, spec))
    except (TypeError, ValueError):
        raise InputError("reasoning= takes spans (start, end) of the completion, or two texts around it") from None


def _checked(spec: ReasoningSpec, completion: str) -> Spans:
    """Return the spans of the caller in their order."""
    placed = cast(list[tuple[int, int]], shifted(spec, 0))
    ends = [0, *(end for _, end in placed)]
    for before, (start, end) in zip(ends, placed, strict=False):
        if not before <= start < end <= len(completion):
            raise InputError(f"reasoning: {(start, end)} is no span of its own of {len(completion)} characters")
    return tuple(placed)


def _with_marks(completion: str, span: tuple[int, int], marks: tuple[str, str]) -> tuple[int, int]:
    """Return a span with the marks that stand around it, and the white space behind them."""
    before, behind = completion[: span[0]].rstrip(), completion[span[1] :].lstrip()
    start = len(before) - len(marks[0]) if marks[0] and before.endswith(marks[0]) else span[0]
    after = behind.removeprefix(marks[1])
    return start, span[1] if after == behind else len(completion) - len(after.lstrip())


def _parsed(tokenizer: Any, completion: str, prompt: str) -> str:
    """Return the reasoning that a tokenizer's response template finds in a completion."""
    try:
        message = tokenizer.parse_response(completion, prefix=prompt)
    except ValueError:  # a field that it requires is not there
        return ""
    return next((str(message[name]).strip() for name in NAMES if message.get(name)), "")


def reasoning_marks(reader: Any) -> tuple[str, str]:
    """Return what a chat template writes before the reasoning of a message, and between it and the content."""
    if not has_chat_template(reader):
        return MARKS
    thought, answer, question = "First this is thought.", "Then that is said.", {"role": "user", "content": "?"}
    message = {"role": "assistant", "content": answer, **dict.fromkeys(NAMES, thought)}
    try:
        asked, answered = (
            reader.apply_chat_template(messages, tokenize=False, add_generation_prompt=opened)
            for messages, opened in (([question], True), ([question, message], False))
        )
    except (TemplateError, TypeError, ValueError):  # of a template that takes no such message
        return MARKS
    before, _, after = answered.partition(thought)
    ending = after.partition(answer)[0].strip()
    opening = before.removeprefix(asked).strip() if before.startswith(asked) else ""  # or the prompt ends with it
    return (opening, ending) if ending else MARKS
