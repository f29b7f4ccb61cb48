"""Where a completion reasons: by marks, by the tokenizer's response template, or as the caller says."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from jinja2 import TemplateError

from ...compat import parses_responses
from ...errors import InputError
from ...inputs.chat import has_chat_template
from ...inputs.encoding import Spans
from ...inputs.texts import checked_whole_number
from ...model.task_model import TaskModel
from ...text.characters import Span

REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
"""What templates call the reasoning in a message."""

MARKS = ("<think>", "</think>")
"""What stands around reasoning where the tokenizer declares nothing."""


Marks = tuple[str, str]
"""What stands before the reasoning, and what stands behind it."""

ReasoningSpec = Iterable[Span] | Marks
"""Where a completion reasons: spans of its characters, or the marks."""


def reasoning_spans(model: TaskModel, completion: str, prompt: str, spec: Any = None) -> tuple[Spans, Spans]:
    """Return where a completion reasons.

    Args:
        model: The model.
        completion: The completion.
        prompt: What stands before it.
        spec: The caller's `ReasoningSpec`; without one, the tokenizer's response template says it, or what its chat
            template writes around the reasoning.

    Returns:
        The spans (start, end) of the reasoning, in characters of the completion, and those with the marks around.
    """
    by_marks = are_marks(spec)
    opening, ending = (spec[0].strip(), spec[1].strip()) if by_marks else reasoning_marks(model.reader)
    if spec is not None and not by_marks:
        spans = _checked(spec, completion)
    elif thought := "" if by_marks else _parsed(model.tokenizer, completion, prompt):
        start = completion.find(thought)
        spans = ((start, start + len(thought)),)
    elif ending in completion:
        end = completion.find(ending)
        start = completion.find(opening) + len(opening) if opening in completion[:end] else 0
        spans = ((start, end),)  # it may be empty, of a model that answers at once
    else:
        spans = ()
    return spans, tuple(_with_marks(completion, span, (opening, ending)) for span in spans)


def are_marks(spec: Any) -> bool:
    """Return whether the caller gave what stands around the reasoning, rather than spans."""
    return isinstance(spec, list | tuple) and len(spec) == 2 and all(isinstance(m, str) and m.strip() for m in spec)


def opens_reasoning(prompt: str, opening: str) -> bool:
    """Return whether a prompt ends with the mark that opens a reasoning, as some chat templates write it."""
    return prompt.rstrip().endswith(opening or MARKS[0])


def shifted(spec: Any, by: int) -> Any:
    """Return the spans of a `ReasoningSpec` moved by some characters; None and marks as they are.

    Args:
        spec: What the caller gave.
        by: By how many characters.

    Raises:
        InputError: If these are not spans.
    """
    if spec is None or are_marks(spec):
        return spec
    try:
        return sorted((checked_whole_number(start) + by, checked_whole_number(end) + by) for start, end in spec)
    except (TypeError, ValueError):  # of something else than pairs of whole numbers
        raise InputError("reasoning= takes spans (start, end) of the completion, or two texts around it") from None


def _checked(spec: ReasoningSpec, completion: str) -> Spans:
    """Return the spans of the caller in their order."""
    spans = shifted(spec, 0)
    end_before = 0
    for start, end in spans:
        if not end_before <= start < end <= len(completion):
            raise InputError(f"reasoning: {(start, end)} is empty, overlaps another, or ends after {len(completion)}")
        end_before = end
    return tuple(spans)


def _with_marks(completion: str, span: Span, marks: Marks) -> Span:
    """Return a span with the marks that stand around it, and the white space behind them."""
    before, behind = completion[: span[0]].rstrip(), completion[span[1] :].lstrip()
    start = len(before) - len(marks[0]) if marks[0] and before.endswith(marks[0]) else span[0]
    after = behind.removeprefix(marks[1])
    return start, span[1] if after == behind else len(completion) - len(after.lstrip())


def _parsed(tokenizer: Any, completion: str, prompt: str) -> str:
    """Return the reasoning that a tokenizer's response template finds in a completion; "" for none, as it stands."""
    if not parses_responses(tokenizer):
        return ""
    try:
        message = tokenizer.parse_response(completion, prefix=prompt)
    except ValueError:  # a field that it requires is not there
        return ""
    thought = next((str(message[name]).strip() for name in REASONING_KEYS if message.get(name)), "")
    return thought if thought in completion else ""


def reasoning_marks(reader: Any) -> Marks:
    """Return what a chat template writes before the reasoning of a message, and between it and the content."""
    if not has_chat_template(reader):
        return MARKS
    thought = "First this is thought."
    answer = "Then that is said."
    question = {"role": "user", "content": "?"}
    message = {"role": "assistant", "content": answer, **dict.fromkeys(REASONING_KEYS, thought)}
    render = partial(reader.apply_chat_template, tokenize=False)
    try:
        prompt = render([question], add_generation_prompt=True)
        answered = render([question, message], add_generation_prompt=False)
    except (TemplateError, TypeError, ValueError):  # of a template that takes no such message
        return MARKS
    before, _, after = answered.partition(thought)
    ending = after.partition(answer)[0].strip()
    opening = before.removeprefix(prompt).strip() if before.startswith(prompt) else ""  # or the prompt ends with it
    return (opening, ending) if ending else MARKS
