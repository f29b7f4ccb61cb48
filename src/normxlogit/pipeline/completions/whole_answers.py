"""Explain a whole answer, or what sets it apart from another answer, by the units of the prompt.

A whole answer counts as the sum over its tokens of what is explained of each where the model generates it: the logit
less the mean over the vocabulary, or, where answers of different lengths are compared, the log-probability. Of two
answers after one prompt the difference is explained; of two single tokens it is that of their logits.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError, MethodError
from ...inputs.encoding import Encoding
from ...methods.perturbation import Perturbation
from ...model.task_model import TaskModel
from ...model.transfer import to_host
from ...results.attribution import Attribution
from ...results.storage.schema import Strings
from ...results.targets import OutputQuantity, Prediction, Quantity, Target
from ...results.units.grouping import grouped
from ...results.units.spans import SourceSpec
from ...results.verification import likelihood_text
from ...tasks.base import message_spans
from ..options import Options
from .completed import Completed
from .leave_out import log_probabilities
from .sources import explain_sources
from .verification import with_completion_verification

OWN_TOKENS = "what an answer's own tokens contribute to its later ones is in the bias"


def comparable_quantity(answers: Sequence[Completed]) -> OutputQuantity:
    """Return whether logits or log-probabilities are explained of answers to one prompt, which are compared.

    The sum of logits less their mean grows with the number of tokens, so that the longest of several answers would win.
    Answers of different lengths are compared by their log-probabilities. One answer alone is not: where the model is
    sure of it, its log-probability depends on nothing.
    """
    counts = {len(answer.generated_ids) for answer in answers}
    return "logit" if len(counts) == 1 else "log-probability"


def explain_answer(
    model: TaskModel, completed: Completed, options: Options, sources: SourceSpec | None = None
) -> Attribution:
    """Explain a whole answer, less the other answer to the same prompt if there is one, by the prompt.

    The scores of the prompt's units add up, with sink and bias, to what is explained; see `comparable_quantity`.

    Args:
        model: A model that generates.
        completed: The prompt with the answer, and with the other one.
        options: The options of the call; `explained` says what is explained of an answer without another one.
        sources: The division of the prompt into sources; None for its tokens.

    Returns:
        The scores of the prompt's units for the answer, less those for the other one.

    Raises:
        InputError: If the prompt ends with other tokens before the one answer than before the other.
        MethodError: If the method does not explain log-probabilities, and these are compared.
    """
    answers = [completed] if completed.other is None else [completed, completed.other]
    _check_same_prompt(answers)
    options = _comparable(model, options, answers)
    # Perturbation methods remove sources; the tokens' scores of other methods are summed to sources at the end.
    removed_sources = sources if isinstance(options.method, Perturbation) else None
    of_answers = [explain_sources(model, answer, options, removed_sources) for answer in answers]
    result = _difference(list(map(_of_prompt, of_answers)))
    result = replace(
        result,
        targets=(_target(model, completed, of_answers[0].prompt_tokens),),
        predictions=_next_token(model, completed),
        # Of next words no prompt was read, but the encoding of the text may be that of a chat.
        messages=result.messages or message_spans(completed.encoding.contents),
        diagnostics=_passes(of_answers),
        notes=_notes_of(of_answers, answers, adds_up=result.bias is not None),
    )
    if options.explained == "log-probability" or len(answers) > 1:
        result = _with_log_probabilities(model, answers, result)
    if sources is not None and removed_sources is None:
        result = grouped(result, sources)
    return with_completion_verification(model, completed, result, options.verify, sources)


def _check_same_prompt(answers: Sequence[Completed]) -> None:
    """Refuse answers before which the tokenizer reads the end of one prompt as different tokens."""
    first = answers[0]
    prompt_ids = first.encoding.ids[: first.prompt_tokens]
    if any(answer.encoding.ids[: answer.prompt_tokens] != prompt_ids for answer in answers):
        raise InputError(
            "the tokenizer reads the end of the prompt as other tokens before the one answer than before the other: "
            "begin both answers with the same space, or give them as token ids"
        )


def _next_token(model: TaskModel, completed: Completed) -> tuple[Prediction, ...]:
    """Return the model's prediction after the prompt."""
    logits = next_logits(model, completed.encoding.take(range(completed.prompt_tokens)))
    return model.task.outputs.describe(*to_host(model.task.outputs.top(logits)))


@torch.inference_mode()
def next_logits(model: TaskModel, encoding: Encoding) -> Tensor:
    """Return the logits of the token after a text, (1, V)."""
    return model.run(model.batch([encoding])).logits


def _passes(results: Sequence[Attribution]) -> dict[str, float]:
    """Return how many passes of each kind several explanations took together."""
    passes = Counter[str]()
    for result in results:  # other diagnostics, such as errors, have no sum
        passes.update({name: float(count) for name, count in result.diagnostics.items() if name.endswith("passes")})
    return dict(passes)


def _notes_of(results: Sequence[Attribution], answers: Sequence[Completed], *, adds_up: bool) -> Strings:
    """Return the notes of explained answers, and what is to be known of their difference.

    Args:
        results: The explanation of each answer.
        answers: The answer, and the other one if there is one.
        adds_up: Whether scores and bias add up to what is explained.
    """
    notes = [note for result in results for note in result.notes]
    if adds_up and any(len(answer.generated_ids) > 1 for answer in answers):
        notes.append(OWN_TOKENS)
    are_same = len(answers) > 1 and answers[0].encoding.ids == answers[1].encoding.ids
    if are_same:
        notes.append(f"{results[0].completion!r} is both answers: their difference is zero at every token")
    return tuple(dict.fromkeys(notes))


def _comparable(model: TaskModel, options: Options, answers: Sequence[Completed]) -> Options:
    """Return options that say what is explained of these answers; refuse methods whose scores cannot be compared."""
    if options.explained == "logit":  # the default; several answers that are compared one by one may have settled it
        options = replace(options, explained=comparable_quantity(answers))
    if options.explained == "log-probability" and not options.method.compares_answers_on(model.task):
        raise MethodError(
            f"answers of different lengths are compared by their log-probabilities, which {options.method.info.name} "
            "does not explain: frozen-gradient does, and occlusion by running the model without each part"
        )
    return options


def _with_log_probabilities(model: TaskModel, answers: Sequence[Completed], result: Attribution) -> Attribution:
    """Return a result with a note of the log-probabilities of its answer, and of the other one, in nats.

    The scores of the prompt need not sum to the side of the likelier answer: then a note says what outweighs them.
    """
    target = result.target
    nats = _nats_of(model, answers[0])
    note = f"log-probability of {target.name!r}: {nats:.2f}"
    if target.contrast is None:  # there is one answer
        return replace(result, notes=(note, *result.notes))
    contrast_nats = _nats_of(model, answers[1])
    difference = nats - contrast_nats
    note += f", of {target.contrast!r}: {contrast_nats:.2f}; {target.name!r} is {likelihood_text(difference)}"
    are_tokens = all(len(answer.generated_ids) == 1 for answer in answers)
    result = replace(result, quantity=_quantity_of_difference(result.quantity, are_tokens=are_tokens))
    return replace(result, notes=(note, *_against_the_likelier(result, difference), *result.notes))


def _nats_of(model: TaskModel, answer: Completed) -> float:
    """Return the log-probability of a whole answer after its prompt, in nats."""
    (of_tokens,) = log_probabilities(model, [answer.encoding], [len(answer.generated_ids)])
    return float(of_tokens.sum())


def _quantity_of_difference(quantity: Quantity, *, are_tokens: bool) -> Quantity:
    """Return what is explained of two answers, or of two single tokens, by what is explained of each."""
    if quantity == "log-probability":
        return "log-probability less the contrast's"
    if are_tokens and quantity == "logit less the vocabulary's mean":
        return "logit less the contrast's"  # both are predicted at one place, where the mean is the same
    return quantity


def _against_the_likelier(result: Attribution, difference: float) -> list[str]:
    """Return a note, with the reason, if the scores of a prompt sum to the side of the less likely of two answers.

    Args:
        result: The explanation of the one answer against the other.
        difference: The log-probability of the one less that of the other.
    """
    total = float(result.scores.sum(-1, dtype=np.float64).flat[-1])  # of several layers at the last
    if total * difference >= 0:  # both are for the same answer
        return []
    less_likely = result.target.name if difference < 0 else result.target.contrast  # the scores are for this one
    if not result.quantity.endswith("less the contrast's"):
        reason = f"they are of another quantity ({result.quantity})"
    elif result.bias is None:
        reason = "they do not add up to the difference"
    else:
        reason = "the bias outweighs them" if result.sink is None else "bias and sink outweigh them"
    return [f"the scores sum to {total:+.2f}, for {less_likely!r}, the less likely answer: {reason}"]


def _of_prompt(a: Attribution) -> Attribution:
    """Return the scores of a whole answer for its prompt alone; the bias holds those of the answer's own tokens."""
    # The units are those of the prompt, of the answer, and of pictures and sounds; or sources, all of the prompt.
    prompt_end = a.text_units if a.prompt_tokens is None else a.prompt_tokens
    answer_units = range(prompt_end, a.text_units)
    prompt_units = [*range(prompt_end), *range(a.text_units, len(a.units))]
    scores = a.scores[0]  # of the only target, (units,) or (L, units)
    # Sinks in the answer are no units any more; what they contribute stays in `sink`, see `_difference`.
    return replace(
        a,
        scores=scores[..., prompt_units],
        bias=None if a.bias is None else a.bias[0] + scores[..., answer_units].sum(-1, dtype=np.float64),
        sink=None if a.sink is None else a.sink[0],
        sinks=tuple(unit for unit in a.sinks if unit < prompt_end),
        units=a.units.take(prompt_units),
        media=tuple(replace(medium, first=medium.first - len(answer_units)) for medium in a.media),
        text=a.prompt,
        completion=None,
        reasoning=(),
        marked_reasoning=(),
        prompt_tokens=None,
    )


def _difference(results: Sequence[Attribution]) -> Attribution:
    """Return the scores of a prompt for one answer, less those for the other one if there is one.

    What attention sinks contribute is added to the bias, if there is one, where none of them is in the prompt.
    """
    first = results[0]
    sinks = tuple(sorted({unit for result in results for unit in result.sinks}))
    no_sink = np.zeros(first.scores.shape[:-1])  # () or (L,)
    sink = _first_less_second("sink", results) + no_sink  # an array also where no result has one
    bias = _first_less_second("bias", results) + (no_sink if sinks else sink)
    return replace(
        first,
        scores=_first_less_second("scores", results).astype(np.float32),
        bias=None if first.bias is None else np.asarray(bias, np.float32),
        sink=np.asarray(sink, np.float32) if sinks else None,
        sinks=sinks,
    )


def _first_less_second(field: str, results: Sequence[Attribution]) -> Any:
    """Return a field of the first result less that of the second, if there is one; 0 stands for None."""
    values = [getattr(result, field) for result in results]
    values = [0 if value is None else np.asarray(value, np.float64) for value in values]
    return values[0] - values[1] if len(values) == 2 else values[0]  # there are no more than two


def _target(model: TaskModel, completed: Completed, prompt_tokens: int | None) -> Target:
    """Return an answer, with the other one as its contrast, as a target.

    Args:
        model: A model that generates.
        completed: The prompt with the answer, and with the other one.
        prompt_tokens: How many tokens of the prompt have scores, the last of which predicts the first of the answer;
            None where sources have scores instead.
    """
    name = _name_of_answer(model, completed)
    target = Target("token", name, _id_of_answer(completed), position=prompt_tokens - 1 if prompt_tokens else None)
    other = completed.other
    if other is None:
        return target
    return target._replace(contrast=_name_of_answer(model, other), contrast_id=_id_of_answer(other))


def _name_of_answer(model: TaskModel, completed: Completed) -> str:
    """Return the name of an answer of one token, otherwise its text."""
    ids = completed.generated_ids
    text = completed.encoding.text
    if len(ids) == 1 or text is None:
        return "".join(map(model.task.outputs.name_of, ids))
    return text[completed.prompt_characters :]


def _id_of_answer(completed: Completed) -> int | None:
    """Return the token id of an answer of one token; None of a longer one."""
    ids = completed.generated_ids
    return ids[0] if len(ids) == 1 else None
