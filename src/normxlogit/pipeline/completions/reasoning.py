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
"""What stands around the reasoning where the tokenizer declares nothing."""

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
    if are_marks(spec):
        marks = spec[0].strip(), spec[1].strip()
        spans = _between_marks(completion, marks)
    else:
        marks = reasoning_marks(model.reader)  # also of given spans, around which they may stand
        if spec is not None:
            spans = _checked_spans(spec, completion)
        elif reasoning := _parsed_reasoning(model.tokenizer, completion, prompt):
            start = completion.find(reasoning)
            spans = ((start, start + len(reasoning)),)
        else:
            spans = _between_marks(completion, marks)
    return spans, tuple(_with_marks(completion, span, marks) for span in spans)


def _between_marks(completion: str, marks: Marks) -> Spans:
    """Return the span of a completion before the closing mark; none without this mark.

    The opening mark may be at the end of the prompt, as some chat templates write it: then it begins at 0. The span may
    be empty, of a model that answers at once.
    """
    opening, ending = marks
    if ending not in completion:
        return ()
    end = completion.find(ending)
    has_opening = opening in completion[:end]
    start = completion.find(opening) + len(opening) if has_opening else 0
    return ((start, end),)


def are_marks(spec: Any) -> bool:
    """Return whether the caller gave what stands around the reasoning, rather than spans."""
    is_pair = isinstance(spec, list | tuple) and len(spec) == 2
    return is_pair and all(isinstance(mark, str) and mark.strip() for mark in spec)


def opens_reasoning(prompt: str, opening: str) -> bool:
    """Return whether a prompt ends with the mark that opens a reasoning, as some chat templates write it."""
    return prompt.rstrip().endswith(opening or MARKS[0])  # "" of a template that opens it in the prompt


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


def _checked_spans(spec: ReasoningSpec, completion: str) -> Spans:
    """Return the spans of the caller in their order; refuse what is not a span of the completion."""
    spans = shifted(spec, 0)
    end_of_last = 0
    for start, end in spans:
        if not end_of_last <= start < end <= len(completion):
            raise InputError(f"reasoning: {(start, end)} is empty, overlaps another, or ends after {len(completion)}")
        end_of_last = end
    return tuple(spans)


def _with_marks(completion: str, span: Span, marks: Marks) -> Span:
    """Return a span with the marks that stand around it, and the white space behind them."""
    start, end = span
    opening, ending = marks
    before = completion[:start].rstrip()
    if opening and before.endswith(opening):
        start = len(before) - len(opening)
    behind = completion[end:].lstrip()
    if ending and behind.startswith(ending):
        end = len(completion) - len(behind.removeprefix(ending).lstrip())
    return start, end


def _parsed_reasoning(tokenizer: Any, completion: str, prompt: str) -> str:
    """Return the reasoning that a tokenizer's response template finds in a completion; "" for none, as it stands."""
    if not parses_responses(tokenizer):
        return ""
    try:
        message = tokenizer.parse_response(completion, prefix=prompt)
    except ValueError:  # a field that it requires is not there
        return ""
    reasoning = next((str(message[name]).strip() for name in REASONING_KEYS if message.get(name)), "")
    return reasoning if reasoning in completion else ""  # a template may change its text


def reasoning_marks(reader: Any) -> Marks:
    """Return what a chat template writes before the reasoning of a message, and between it and the content.

    The template renders a message whose reasoning and content are known: the marks are what it writes around them.
    """
    if not has_chat_template(reader):
        return MARKS
    reasoning = "First this is thought."
    content = "Then that is said."
    question = {"role": "user", "content": "?"}
    answer = {"role": "assistant", "content": content, **dict.fromkeys(REASONING_KEYS, reasoning)}
    render = partial(reader.apply_chat_template, tokenize=False)
    try:
        prompt = render([question], add_generation_prompt=True)
        conversation = render([question, answer], add_generation_prompt=False)
    except (TemplateError, TypeError, ValueError):  # of a template that takes no such message
        return MARKS
    before, _, after = conversation.partition(reasoning)
    ending = after.partition(content)[0].strip()
    has_own_prompt = before.startswith(prompt)  # else the prompt itself ends with the opening mark
    opening = before.removeprefix(prompt).strip() if has_own_prompt else ""
    return (opening, ending) if ending else MARKS
