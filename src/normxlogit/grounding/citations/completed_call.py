"""A call of a tool in tokens: which of them each part has, or the one at which another answer parts from it."""

from collections.abc import Mapping
from dataclasses import replace

from ...errors import InputError
from ...inputs.chat import ReadPrompt
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed, Parting
from ...pipeline.completions.completed_prompts import read_completion
from ...results.units.media import overlap
from ...text.characters import Span, moved
from ..action import BEGINNING
from .prompts import CallParts
from .written_call import common_start


def completed_by_call(model: TaskModel, prompt: ReadPrompt, answer: str, call: CallParts) -> Completed:
    """Encode a prompt with a call of a tool, which is explained in its parts, or where another answer parts from it.

    Args:
        model: A language model.
        prompt: What is written before the call.
        answer: The call as the chat template writes it.
        call: Its parts, and the other answer if there is one.

    Raises:
        InputError: If the tokens of the two answers do not differ, or those of the prompt do already.
    """
    completed = read_completion(model, prompt, answer, longer=True)
    # A call is no reasoning, though an argument of it may have the marks.
    completed = replace(completed, reasoning=(), marked_reasoning=())
    if call.other is None:
        return replace(completed, parts=_without_shared_tokens(completed, call.spans))
    other = read_completion(model, prompt, call.other.text, longer=True)
    place = common_start(completed.encoding.ids, other.encoding.ids)
    if place < completed.prompt_tokens or place == min(len(completed.encoding), len(other.encoding)):
        where = "before they begin" if place < completed.prompt_tokens else "nowhere"
        raise InputError(f"as the tokenizer reads them, the call and {call.other.described} differ {where}")
    parting = Parting(place - completed.prompt_tokens, other.encoding.ids[place])
    return replace(completed, parts=_part_with(completed, place, call.spans), parting=parting)


def _part_with(completed: Completed, token: int, spans: Mapping[str, Span]) -> dict[str, Span]:
    """Return the part of a call that a token is in; of one between the parts the token itself."""
    sequence = completed.sequenced()
    start, end = moved(sequence.offsets[token], -sequence.prompt_characters)
    for name, span in spans.items():
        if overlap(span, (start, end)):
            return {name: span}
    return {completed.encoding.tokens[token]: (max(start, 0), end)}  # a token may begin with the prompt's end


def _without_shared_tokens(completed: Completed, spans: Mapping[str, Span]) -> dict[str, Span]:
    """Return the parts of a call, of which the one before the tool's name ends where the tokens of the name begin."""
    if BEGINNING not in spans:
        return dict(spans)
    sequence = completed.sequenced()
    start, end = spans[BEGINNING]
    name_start = min(first for name, (first, _) in spans.items() if name != BEGINNING) + sequence.prompt_characters
    for first, last in sequence.offsets[sequence.prompt_tokens :]:
        if first <= name_start < last:  # a token may hold the quotation mark before the name as well
            end = min(end, first - sequence.prompt_characters)
    parts = {**spans, BEGINNING: (start, end)}
    return {name: (first, last) for name, (first, last) in parts.items() if first < last}
