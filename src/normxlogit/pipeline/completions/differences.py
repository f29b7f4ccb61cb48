"""Explain an answer against another one to the same prompt.

An answer counts as the sum over its tokens of what is explained of each where the model generates it: the logit less
the mean over the vocabulary. The difference of two answers is explained; of two single tokens it is that of their
logits.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...errors import InputError
from ...methods.perturbation import Perturbation
from ...model.forward_pass import to_host
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.targets import Target
from ...results.units.spans import SourceSpec, grouped
from ...tasks.base import message_spans
from ..options import Options
from .completed_prompts import Completed
from .sources import explain_sources
from .verification import with_completion_verification

OWN_TOKENS = "what an answer's own tokens contribute to its later ones is in the bias"
"""A note for answers of several tokens, whose tokens have no scores."""


def explain_difference(
    model: TaskModel, completed: Completed, other: Completed, options: Options, sources: SourceSpec | None = None
) -> Attribution:
    """Explain a whole answer, less another one to the same prompt, by the prompt.

    The scores of the prompt's units add up, with sink and bias, to what is explained.

    Args:
        model: A language model.
        completed: The prompt with its answer.
        other: The same with the other answer.
        options: The caller's options, without targets.
        sources: How the prompt is divided; None for tokens.

    Raises:
        InputError: If the end of the prompt is read as other tokens before the other answer.
    """
    result = _difference(model, completed, other, options, sources)
    result = with_completion_verification(model, completed, result, options.verify, sources)
    encoding, start = completed.encoding, completed.prompt_tokens
    with torch.inference_mode():
        run = model.run(model.batch([encoding.take(range(start))], [0]))
        predictions = model.task.outputs.describe(*to_host(model.task.outputs.top(run.logits)))
    end = len(result.units) if result.prompt_tokens is None else result.prompt_tokens
    kept = [i for i in range(result.text_units) if i < end and result.units.kind[i] != "answer"]
    cut = result.text_units - len(kept)
    kept += range(result.text_units, len(result.units))  # pictures and sounds
    return replace(
        result._transformed(lambda values: values[..., kept] if values is result.scores else values),
        units=result.units.take(kept),
        media=tuple(replace(medium, first=medium.first - cut) for medium in result.media),
        targets=(_target(model, completed, other, (result.prompt_tokens or 0) - 1),),
        text=result.prompt,
        messages=result.messages or message_spans(encoding.contents),
        completion=None,
        reasoning=(),
        prompt_tokens=None,
        predictions=predictions,
    )


def _difference(
    model: TaskModel, completed: Completed, other: Completed, options: Options, sources: SourceSpec | None
) -> Attribution:
    """Return the scores of a prompt for its answer less those for the other one, as of the answer's completion."""
    answers = [completed, other]
    prompt, other_prompt = (each.encoding.ids[: each.prompt_tokens] for each in answers)
    if prompt != other_prompt:
        raise InputError(
            "the tokenizer reads the end of the prompt as other tokens before the one answer than before the other: "
            "begin both answers with the same space, or give them as token ids"
        )
    removes_sources = isinstance(options.method, Perturbation) and sources is not None
    division = sources if removes_sources else None
    explained = [explain_sources(model, each, options, division) for each in answers]
    first, count = explained[0], explained[0].text_units if removes_sources else explained[0].prompt_tokens or 0

    def difference(value: Callable[[Attribution], Any]) -> Any:
        return sum(sign * np.asarray(value(each), np.float64) for sign, each in zip((1, -1), explained, strict=True))

    def in_prompt(each: Attribution) -> list[int]:
        return [*range(count), *range(each.text_units, len(each.units))]  # its pictures and sounds come last

    scores = np.zeros(first.scores.shape)  # (1, U) or (1, L, U)
    scores[..., in_prompt(first)] = difference(lambda each: each.scores[..., in_prompt(each)])
    bias, sink = None, difference(lambda each: 0 if each.sink is None else each.sink) + np.zeros(scores.shape[:-1])
    sinks = tuple(sorted({unit for each in explained for unit in each.sinks if unit < count}))
    if first.bias is not None:
        own = difference(lambda each: each.scores[..., count : each.text_units].sum(-1, dtype=np.float64))
        bias = (difference(lambda each: each.bias) + own + (0 if sinks else sink)).astype(np.float32)
    notes = [note for each in explained for note in each.notes]
    if bias is not None and any(len(each.encoding) > each.prompt_tokens + 1 for each in answers):
        notes.append(OWN_TOKENS)
    if other.encoding.ids == completed.encoding.ids:
        notes.append(f"{first.completion!r} is both answers: their difference is zero at every token")
    passes = {
        name: float(sum(each.diagnostics[name] for each in explained))
        for name in first.diagnostics
        if name.endswith("passes")
    }
    result = replace(
        first,
        scores=scores.astype(np.float32),
        bias=bias,
        sink=sink.astype(np.float32) if sinks else None,
        sinks=sinks,
        diagnostics=passes,
        notes=tuple(dict.fromkeys(notes)),
    )._transformed(lambda values: values[0])
    return result if sources is None or removes_sources else grouped(result, sources)


def _target(model: TaskModel, completed: Completed, other: Completed, position: int) -> Target:
    """Return an answer, and the other one, as a target; its first token is read at a position, below 0 of no token."""

    def named(each: Completed) -> tuple[str, int | None]:
        ids, text = each.encoding.ids[each.prompt_tokens :], each.encoding.text
        if len(ids) == 1:
            return model.task.outputs.name_of(ids[0]), ids[0]
        return "".join(map(model.task.outputs.name_of, ids)) if text is None else text[each.prompt_characters :], None

    (name, index), (contrast, contrast_index) = named(completed), named(other)
    return Target("token", name, index, contrast, contrast_index, None if position < 0 else position)
