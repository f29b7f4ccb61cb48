"""Explain sequences of tokens: an answer against another one, and next words of several tokens.

A sequence counts as the sum over its tokens of what is explained of each where the model generates it: the logit less
the mean over the vocabulary. Of two sequences after one prompt the difference is explained; of two single tokens it is
that of their logits.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch

from ...errors import InputError, TargetError
from ...inputs.alignment import with_decoded_text
from ...inputs.encoding import Encoding
from ...methods.perturbation import Perturbation
from ...model.forward_pass import to_host
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.targets import Target
from ...results.units.spans import SourceSpec, grouped
from ...tasks.base import generating_task, message_spans
from ...tasks.language import Vocabulary
from ...tasks.targets import All, Choice, index_of, is_choice
from ..merging import in_rows
from ..options import Options
from ..progress import progress_bar
from .completed_prompts import Completed
from .leave_out import with_completion_verification
from .sources import explain_sources

OWN_TOKENS = "what an answer's own tokens contribute to its later ones is in the bias"
"""A note for answers of several tokens, whose tokens have no scores."""


def explain_answer(
    model: TaskModel, completed: Completed, options: Options, sources: SourceSpec | None = None
) -> Attribution:
    """Explain a whole answer, less the other answer to the same prompt if there is one, by the prompt.

    The scores of the prompt's units add up, with sink and bias, to what is explained.

    Args:
        model: A language model.
        completed: The prompt with its answer, and the other one.
        options: The caller's options, without targets.
        sources: How the prompt is divided; None for tokens.

    Raises:
        InputError: If the end of the prompt is read as other tokens before the other answer.
    """
    result = _difference(model, completed, options, sources)
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
        targets=(_target(model, completed, (result.prompt_tokens or 0) - 1),),
        text=result.prompt,
        messages=result.messages or message_spans(encoding.contents),
        completion=None,
        reasoning=(),
        prompt_tokens=None,
        predictions=predictions,
    )


def _difference(model: TaskModel, completed: Completed, options: Options, sources: SourceSpec | None) -> Attribution:
    """Return the scores of a prompt for its answer less those for the other one, as of the answer's completion."""
    start, other = completed.prompt_tokens, completed.other
    answers = [completed] if other is None else [completed, other]
    if any(each.encoding.ids[: each.prompt_tokens] != completed.encoding.ids[:start] for each in answers):
        raise InputError(
            "the tokenizer reads the end of the prompt as other tokens before the one answer than before the other: "
            "begin both answers with the same space, or give them as token ids"
        )
    removes_sources = isinstance(options.method, Perturbation) and sources is not None
    division = sources if removes_sources else None
    explained = [explain_sources(model, each, options, division) for each in answers]
    first, count = explained[0], explained[0].text_units if removes_sources else explained[0].prompt_tokens or 0

    def difference(value: Callable[[Attribution], Any]) -> Any:
        return sum(sign * np.asarray(value(each), np.float64) for sign, each in zip((1, -1), explained, strict=False))

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
    if other is not None and other.encoding.ids == completed.encoding.ids:
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


# --- the next words of a text ----------------------------------------------------------------------------------------


def names_sequences(model: TaskModel, options: Options) -> bool:
    """Return whether a target or the contrast of a language model that generates is a text of several tokens."""
    outputs = cast(Vocabulary, model.task.outputs)
    choices = [*_targets(options.target), *(options.targets or ()), options.contrast]
    return any(len(outputs.ids_of(name)) > 1 for name in {name for name in choices if isinstance(name, str)})


@torch.inference_mode(False)
def explain_next_words(model: TaskModel, encodings: Sequence[Encoding], options: Options) -> list[Attribution]:
    """Explain which next words, each of any number of tokens, a causal language model says after texts.

    Raises:
        TargetError: If a target or the contrast does not exist.
        InputError: If `token_predictions` are asked for, or a text leaves no room.
    """
    if options.token_predictions:
        raise InputError("token_predictions= goes with targets of one token")
    results = []
    with progress_bar(len(encodings), options.progress) as advance:
        for index, encoding in enumerate(encodings):
            results.append(_explain_next(model, encoding, options.only(index)))
            advance(1)
    return results


def _explain_next(model: TaskModel, encoding: Encoding, options: Options) -> Attribution:
    """Explain the next words of one text: a row for each of several targets."""
    plain = replace(options, target=None, targets=None, contrast=None)
    choices = _targets(options.target)
    if not choices:
        with torch.inference_mode():
            run = model.run(model.batch([encoding], [0]))
        choices = [int(model.task.outputs.default_target(run.logits))]
    contrast = None if options.contrast is None else _completed(model, encoding, options.contrast)
    answers = [replace(_completed(model, encoding, choice), other=contrast) for choice in choices]
    if contrast is not None and any(answer.encoding.ids == contrast.encoding.ids for answer in answers):
        raise TargetError(f"the target {options.contrast!r} is also the contrast: their difference is zero")
    rows = [explain_answer(model, answer, plain) for answer in answers]
    result = rows[0] if options.target is None or is_choice(options.target) else in_rows(rows)
    return replace(result, text=encoding.text)


def _targets(target: Any) -> list[Choice]:
    """Return the targets of a text as a list; empty for the prediction."""
    if isinstance(target, All):
        raise TargetError("ALL would be the whole vocabulary; name the words that you want instead")
    return [] if target is None else [target] if is_choice(target) else list(target)


def _completed(model: TaskModel, encoding: Encoding, choice: Choice) -> Completed:
    """Return a text with the next words that a target names."""
    outputs, tokenizer = cast(Vocabulary, model.task.outputs), model.tokenizer
    ids = outputs.ids_of(choice) if isinstance(choice, str) else [index_of(model.task, choice, model.vocabulary_size)]
    if tokenizer.unk_token_id in ids:
        raise TargetError(f"the tokenizer does not know a part of {choice!r}: {', '.join(map(outputs.name_of, ids))}")
    limit = model.encoder.limit
    if limit is not None and len(encoding) + len(ids) - 1 > limit:
        raise InputError(
            f"the text has {len(encoding)} tokens, {choice!r} has {len(ids)}, and the model reads {limit}; shorten it"
        )
    prompt = with_decoded_text(tokenizer, encoding)
    return Completed(generating_task(model).appended(model, prompt, ids), len(encoding), len(prompt.text or ""))


def _target(model: TaskModel, completed: Completed, position: int) -> Target:
    """Return an answer, and the other one, as a target; its first token is read at a position, below 0 of no token."""

    def named(each: Completed | None) -> tuple[str | None, int | None]:
        if each is None:
            return None, None
        ids, text = each.encoding.ids[each.prompt_tokens :], each.encoding.text
        if len(ids) == 1:
            return model.task.outputs.name_of(ids[0]), ids[0]
        return "".join(map(model.task.outputs.name_of, ids)) if text is None else text[each.prompt_characters :], None

    (name, index), (contrast, contrast_index) = named(completed), named(completed.other)
    return Target("token", name or "", index, contrast, contrast_index, None if position < 0 else position)
