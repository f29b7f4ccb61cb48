"""Find the reasoning in an answer: by what the tokenizer declares, or where the caller says."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from jinja2 import TemplateError

from ...errors import InputError
from ...inputs.chat import has_chat_template
from ...leave_out.removal import Tokens
from ...leave_out.units import Removable
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.units.spans import NamedSpan, answer_parts
from ...results.units.words import UnitScore
from .completed_prompts import Completed

NAMES = ("reasoning_content", "thinking", "reasoning")
"""What the reasoning is called in a message, by chat templates and by response templates."""

MARKS = ("<think>", "</think>")
"""What stands around the reasoning where the tokenizer declares nothing."""

Spans = tuple[tuple[int, int], ...]


def reasoning_spans(model: TaskModel, completed: Completed, spans: Iterable[tuple[int, int]] | None = None) -> Spans:
    """Return the spans (start, end) of the reasoning, in characters of the completion; none without reasoning.

    A tokenizer declares its reasoning by a response template, or by what its chat template writes around it.

    Args:
        model: A language model.
        completed: The prompt with its completion.
        spans: Where the caller says that it is; None to look for it.

    Raises:
        InputError: If a span of the caller is not one of the completion.
    """
    text, prompt = completed.encoding.text or "", completed.prompt_characters
    completion = text[prompt:]
    if spans is not None:
        placed = tuple((int(start), int(end)) for start, end in spans)
        if wrong := [span for span in placed if not 0 <= span[0] < span[1] <= len(completion)]:
            raise InputError(f"reasoning: {wrong[0]} is not a span of the completion's {len(completion)} characters")
        return placed
    if getattr(model.tokenizer, "response_template", None):
        thought = _parsed(model.tokenizer, completion, text[:prompt])
        start = completion.find(thought) if thought else -1
        return ((start, start + len(thought)),) if start >= 0 else ()
    opening, ending = _marks(model.reader) if has_chat_template(model.reader) else MARKS
    end = completion.find(ending)
    start = completion.find(opening) + len(opening) if opening in completion[: max(end, 0)] else 0
    return ((start, end),) if completion[start : max(end, 0)].strip() else ()


def _parsed(tokenizer: Any, completion: str, prompt: str) -> str:
    """Return the reasoning that a tokenizer's response template finds in a completion."""
    try:
        message = tokenizer.parse_response(completion, prefix=prompt)
    except ValueError:  # a field that it requires is not there
        return ""
    return next((str(message[name]).strip() for name in NAMES if message.get(name)), "")


def _marks(reader: Any) -> tuple[str, str]:
    """Return what a chat template writes before the reasoning of a message, and between it and the content."""
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


def thoughts(whole: Attribution, completed: Completed) -> tuple[Removable, dict[Tokens, NamedSpan], Completed]:
    """Return each sentence of the reasoning by its units and tokens, and the prompt completed by what follows it.

    Of a result by sources the sentences are the parts that are explained.
    """
    sequence, prompt = completed.sequenced(), completed.joined()
    if not whole.reasoning:
        raise InputError("verify='reasoning': no reasoning was found in the answer; pass its spans, reasoning=")
    shift = sequence.prompt_characters
    end = shift + max(end for _, end in whole.reasoning)
    answer = [i for i in range(prompt.prompt_tokens, len(sequence.offsets)) if sequence.offsets[i][0] >= end]
    spans = whole.units.spans or ()
    by_token = whole.units.kind[0] == "token"
    if by_token:
        named = [(piece.tokens, piece.start, piece.end) for piece in answer_parts(sequence, "sentence")]
    else:
        named = [((i,), *spans[i]) for i, kind in enumerate(whole.units.kind) if kind == "answer" and spans[i][1]]
    reasoning = [(shift + first, shift + last) for first, last in whole.reasoning]
    parts: list[UnitScore] = []
    pieces: dict[Tokens, NamedSpan] = {}
    for units, start, stop in named:
        inside = [sequence.tokens_in(max(start, first), min(stop, last), of_answer=True) for first, last in reasoning]
        if tokens := tuple(token for found in inside for token in found):
            units = tokens if by_token else units
            text = sequence.text[sequence.offsets[tokens[0]][0] : sequence.offsets[tokens[-1]][1]].strip()
            parts.append(UnitScore(text, units, float(whole.scores[list(units)].sum())))
            pieces[units] = NamedSpan(text, start, stop, tokens)
    if not answer or not parts:
        raise InputError("verify='reasoning': the completion holds no sentence of reasoning, or nothing behind it")
    found = Removable(parts, "sentence", "deleted", "the answer", singles=len(parts), all_together=True, named=True)
    start = completed.prompt_tokens + answer[0] - prompt.prompt_tokens
    characters = sequence.offsets[answer[0]][0] - shift + completed.prompt_characters
    return found, pieces, replace(completed, prompt_tokens=start, prompt_characters=characters)
