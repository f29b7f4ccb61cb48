"""Explain the parts of an answer by sources, with as few passes as the method allows; and whole answers.

A whole answer counts as the sum over its tokens of what is explained of each where the model generates it: the logit
less the mean over the vocabulary, or, where answers of different lengths are compared, the log-probability. Of two
answers after one prompt the difference is explained; of two single tokens it is that of their logits.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from ...copies.memory import enough_memory
from ...errors import InputError, MethodError, TargetError
from ...inputs.decoded_tokens import with_decoded_text
from ...inputs.encoding import Encoding
from ...methods import FrozenGradient, Occlusion, Request
from ...methods.perturbation import Perturbation, log_odds
from ...model.batch_attempts import batch_attempts
from ...model.forward_pass import ForwardPass
from ...model.task_model import TaskModel
from ...model.transfer import to_host
from ...results.attribution import Attribution
from ...results.storage.schema import Strings
from ...results.targets import OutputQuantity, Prediction, Quantity, Target
from ...results.units.grouping import grouped, part_targets, units_of
from ...results.units.spans import NamedSpan, PartSpec, SourceSpec, prompt_sources
from ...results.verification import likelihood_text
from ...tasks.base import generating_task, message_spans
from ...tasks.language import Vocabulary
from ...tasks.targets import All, Choice, index_of, is_choice
from ..merging import in_rows
from ..options import Options, provenance
from ..progress import progress_bar
from .completed import Completed
from .completion import CompletionRequest, batch_targets, explain_completions, pass_over, scored_tokens, text_scores
from .leave_out import Ablations, Array, log_probabilities, media_sources, with_completion_verification

OWN_TOKENS = "what an answer's own tokens contribute to its later ones is in the bias"


@enough_memory("find the sources of this answer")
@torch.inference_mode(False)
def explain_sources(
    model: TaskModel,
    completed: Completed,
    options: Options,
    sources: SourceSpec | None,
    parts: PartSpec = None,
    token_weights: Array | None = None,
    run: ForwardPass | None = None,
) -> Attribution:
    """Explain the parts of an answer, None for the whole, by the sources of its prompt, None for its tokens.

    Methods that can backpropagate from a weighted sum of the answer's tokens do it once for each part of the answer;
    perturbation methods leave out sources instead of tokens; the scores of all others are summed over tokens, and so
    are those of another target than the answer's own tokens, of a contrast and of layers.

    Args:
        model: The model.
        completed: The prompt with its completion.
        options: The options of the call.
        sources: The sources of the prompt; None for its tokens.
        parts: The parts of the answer; None for the whole.
        token_weights: Weights of the answer's tokens, (K, G): the weighted sum of each part is explained as well, as
            K targets behind the parts, by methods that backpropagate from such sums; others leave them out.
        run: The pass over the answer, if there is one already, see `answer_pass`.

    Returns:
        The scores of the sources for each part, (K, S), or of the prompt's and the answer's tokens.

    Raises:
        InputError: If there is no such source or part, or memory runs out.
        MethodError: If the method does not score what is asked.
        UnsupportedModelError: If it does not work on the model.
    """
    media = completed.encoding.media
    options = options.for_media(media) if media else options
    source_spans, part_spans = sources_and_parts(completed, sources, parts)
    model.prepare(model.batch([completed.context]))
    if isinstance(options.method, Perturbation):
        if sources is not None:
            return _ablate_sources(model, completed, options, source_spans, part_spans)
        if media:
            raise MethodError(
                f"{options.method.info.name} leaves tokens out, and the prompt holds a picture or a sound: with "
                "sources= it leaves out these too, and frozen-gradient scores all of their parts"
            )
    by_token = None
    for attempt in batch_attempts(model, [completed.encoding]):  # a second one if memory runs out
        with attempt:
            # A pass can be backpropagated once: a second attempt makes one of its own.
            first_run, run = run, None
            by_token = _token_scores(model, completed, options, part_spans, token_weights, first_run)
    if by_token is None:
        return _sum_over_tokens(model, completed, options, sources, parts)
    passes = {"forward_passes": 1.0, "backward_passes": float(len(by_token.targets))}
    by_source = by_token if sources is None else grouped(by_token, sources)
    return replace(by_source, diagnostics=passes)


def _sum_over_tokens(
    model: TaskModel, completed: Completed, options: Options, sources: SourceSpec | None, parts: PartSpec
) -> Attribution:
    """Explain the parts of an answer by the scores of each of its tokens, which are summed; see `explain_sources`."""
    method = options.method
    has_encoder = completed.encoding.source is not None  # the sources are in what the encoder reads
    if has_encoder and sources is not None and not isinstance(method, FrozenGradient):
        raise MethodError(f"{method.info.name} does not score the source of such a model; frozen-gradient does")
    targets = part_targets(completed.answer_parts(parts))
    if completed.parting is not None:
        options = replace(options, contrast=completed.parting.other_id)
        parts = [completed.parting.token]
    (tokens,) = explain_completions(model, [completed], [options])
    result = tokens.group_targets(parts) if sources is None else tokens.sources(sources, parts)
    if completed.parting is not None:
        result = replace(result, targets=targets)
    forward_passes = 1 if method.info.tokenwise else len(completed.generated_ids)  # else one for each token
    return replace(result, diagnostics={"forward_passes": float(forward_passes)})


def _ablate_sources(
    model: TaskModel, completed: Completed, options: Options, sources: list[NamedSpan], parts: list[NamedSpan]
) -> Attribution:
    """Score the sources of a prompt for each part of its answer by leaving them out.

    Args:
        model: The model.
        completed: The prompt with its completion.
        options: The options of the call, with a perturbation method.
        sources: The S sources.
        parts: The K parts.

    Returns:
        The scores, (K, S).

    Raises:
        MethodError: If something else than the answer's own tokens is explained.
    """
    method = cast(Perturbation, options.method)
    if not options.own_tokens:
        raise MethodError(
            f"{method.info.name} measures what the completion loses without each source, which knows no target, "
            "contrast or layers; without sources= it leaves out tokens"
        )
    weights = part_weights(completed, parts)
    ablations = Ablations(model, completed, sources)
    scores, quantity, forward_passes = score_sources(method, ablations, weights, options.explained)
    origin: dict[str, Any] = provenance(model, method) | {"quantity": quantity}
    sequence = completed.sequenced()
    return Attribution(
        scores=scores.astype(np.float32),
        units=units_of(sources, [sequence.text]),
        targets=part_targets(parts),
        text=sequence.text,
        completion=sequence.text[sequence.prompt_characters :],
        messages=completed.messages,
        reasoning=completed.reasoning,
        marked_reasoning=completed.marked_reasoning,
        notes=completed.encoding.notes,
        diagnostics={"forward_passes": forward_passes},
        merge=method.word_merge,
        **origin,
    )


def score_sources(
    method: Perturbation, ablations: Ablations, weights: Array, explained: OutputQuantity = "logit"
) -> tuple[Array, Quantity, float]:
    """Score sources by a perturbation method, by the log-probability of parts of an answer without some of them.

    Args:
        method: The method.
        ablations: What measures the answer without sources.
        weights: Which of its tokens belong to each part, (K, G).
        explained: A method that fits log-odds fits log-probabilities where these are explained.

    Returns:
        Scores, (K, S), what they add up in, and the number of forward passes.

    Raises:
        MethodError: If occlusion has a window of several sources.
    """
    if isinstance(method, Occlusion) and method.window != 1:
        raise MethodError("occlusion over sources leaves out one at a time: window must be 1")
    present = method.subsets(len(ablations.sources))  # (N, S)
    answers = ablations(present) @ weights.T  # (N, K)
    forward_passes = float(len(np.unique(present, axis=0)))
    if not method.fits_log_odds(explained):
        return method.fit(present, answers), "log-probability", forward_passes
    counts = weights.sum(1)  # (K,): log-odds are fitted for each token of a part, and reported for the part
    return method.fit(present, log_odds(answers) / counts) * counts[:, None], "log odds", forward_passes


def sources_and_parts(
    completed: Completed, sources: SourceSpec | None, parts: PartSpec
) -> tuple[list[NamedSpan], list[NamedSpan]]:
    """Return the sources of a prompt and the parts of its answer.

    Args:
        completed: The prompt with the answer.
        sources: The division of the prompt; None for none, and then there are no sources.
        parts: The division of the answer; None for the whole.

    Raises:
        InputError: If there is no such source or part, or the prompt holds no source.
    """
    sequence = completed.sequenced()
    part_spans = completed.answer_parts(parts)
    if sources is None:
        return [], part_spans
    names_no_text = not sources and completed.encoding.media  # no named spans: the media alone are sources
    source_spans = [] if names_no_text else prompt_sources(sequence, sources)
    source_spans += media_sources(completed, sources)
    if not source_spans:
        raise InputError("the prompt holds no source")
    return source_spans, part_spans


def part_weights(completed: Completed, parts: Sequence[NamedSpan]) -> Array:
    """Return which of the G generated tokens belong to each of K parts, (K, G): 1 for those that do, else 0.

    Args:
        completed: The prompt with the answer.
        parts: The parts of the answer, whose tokens count from the start of `Completed.joined`.
    """
    first_generated = completed.joined().prompt_tokens
    weights = np.zeros((len(parts), len(completed.generated_ids)))
    for part_index, part in enumerate(parts):
        weights[part_index, [token - first_generated for token in part.tokens]] = 1
    return weights


@torch.inference_mode(False)
def answer_pass(
    model: TaskModel, completed: Completed, options: Options, arguments: Mapping[str, Any] = MappingProxyType({})
) -> ForwardPass | None:
    """Return the pass over an answer from which `explain_sources` backpropagates; None if there is no such pass.

    Args:
        model: A language model.
        completed: The prompt with the answer.
        options: The method.
        arguments: Further arguments of the model, see `Batch`.
    """
    has_no_gradients = options.method.info.tokenwise
    if has_no_gradients or not options.own_tokens:
        return None
    is_frozen = isinstance(options.method, FrozenGradient)
    if completed.context.source is not None and not is_frozen:  # other gradients do not reach the encoder
        return None
    request = CompletionRequest(completed, options, ids=completed.generated_ids, contrast=None)
    return pass_over(model, [request], arguments=arguments)


def _token_scores(
    model: TaskModel,
    completed: Completed,
    options: Options,
    parts: list[NamedSpan],
    token_weights: Array | None,
    run: ForwardPass | None,
) -> Attribution | None:
    """Score the tokens for each part of an answer by one backward pass from the sum of the part's tokens.

    The weights and the pass are those of `explain_sources`. None if the method or the model has no such pass.
    """
    run = answer_pass(model, completed, options) if run is None else run
    if run is None:
        return None
    weights = part_weights(completed, parts)  # (K, G)
    if token_weights is not None:  # further targets behind the parts, each named as the part in its place
        weights = np.concatenate([weights, token_weights])  # (2K, G)
        parts = [*parts, *parts]
    contrast = None if completed.parting is None else completed.parting.other_id
    generated_ids = torch.tensor([completed.generated_ids])  # (1, G)
    target = batch_targets(model, generated_ids, contrast, run, options.explained)
    # Each token is predicted at the one before it.
    predicted_at = torch.arange(completed.prompt_tokens - 1, len(completed.context))[None]  # (1, G)
    sums = torch.as_tensor(weights, dtype=torch.float32)[None]  # (1, K or 2K, G)
    scores = options.method.score_each(Request(model, run, target), predicted_at, sums)
    if scores is None:
        return None
    # Of an encoder-decoder model the source is joined in front, as the scores are.
    row_scores = text_scores(scores.on_host(), rows=slice(1), count=len(weights), tokens=slice(None))
    return scored_tokens(model, completed.joined(), options, row_scores, targets=part_targets(parts))


def explained_of(answers: Sequence[Completed]) -> OutputQuantity:
    """Return what is explained of answers to one prompt that are compared with each other, or of a single one.

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

    The scores of the prompt's units add up, with sink and bias, to what is explained; see `explained_of`.

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
    options = _comparing(model, options, answers)
    # Perturbation methods remove sources; the tokens' scores of other methods are summed to sources at the end.
    removed_sources = sources if isinstance(options.method, Perturbation) else None
    of_answers = [explain_sources(model, answer, options, removed_sources) for answer in answers]
    result = _difference(list(map(_of_prompt, of_answers)))
    last_prompt_token = (of_answers[0].prompt_tokens or 0) - 1  # -1 where sources have scores instead of tokens
    result = replace(
        result,
        targets=(_target(model, completed, last_prompt_token),),
        predictions=_next_token(model, completed),
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
    logits = _next_logits(model, completed.encoding.take(range(completed.prompt_tokens)))
    return model.task.outputs.describe(*to_host(model.task.outputs.top(logits)))


@torch.inference_mode()
def _next_logits(model: TaskModel, encoding: Encoding) -> Tensor:
    """Return the logits of the token after a text, (1, V)."""
    return model.run(model.batch([encoding])).logits


def _passes(results: Sequence[Attribution]) -> dict[str, float]:
    """Return how many passes of each kind several explanations took together."""
    passes = Counter[str]()
    for result in results:
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


def _comparing(model: TaskModel, options: Options, answers: Sequence[Completed]) -> Options:
    """Return options that say what is explained of these answers; refuse methods whose scores cannot be compared."""
    if options.explained == "logit":
        options = replace(options, explained=explained_of(answers))
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
    if target.contrast is None:
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
    """Return a note if the scores of a prompt sum to the side of the less likely of two answers, and why they may.

    Args:
        result: The explanation of the one answer against the other.
        difference: The log-probability of the one less that of the other.
    """
    total = float(result.scores.sum(-1, dtype=np.float64).flat[-1])  # of several layers at the last
    if total * difference >= 0:
        return []
    less_likely = result.target.name if difference < 0 else result.target.contrast
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

    What attention sinks contribute is added to the bias where none of them is in the prompt.
    """
    first = results[0]
    sinks = tuple(sorted({unit for result in results for unit in result.sinks}))
    sink = _less("sink", results) + np.zeros(first.scores.shape[:-1])  # () or (L,)
    bias = _less("bias", results) + (0 if sinks else sink)
    return replace(
        first,
        scores=_less("scores", results).astype(np.float32),
        bias=None if first.bias is None else np.asarray(bias, np.float32),
        sink=np.asarray(sink, np.float32) if sinks else None,
        sinks=sinks,
    )


def _less(name: str, results: Sequence[Attribution]) -> Any:
    """Return the values of one result, less those of a second if there is one; 0 where a result has none."""
    values = [getattr(result, name) for result in results]
    values = [0 if value is None else np.asarray(value, np.float64) for value in values]
    return values[0] - values[1] if len(values) == 2 else values[0]


def names_sequences(model: TaskModel, options: Options) -> bool:
    """Return whether a target or the contrast of a language model that generates is a text of several tokens."""
    outputs = cast(Vocabulary, model.task.outputs)
    choices = [*_targets(options.target), *(options.targets or ()), options.contrast]
    return any(isinstance(choice, str) and len(outputs.ids_of(choice)) > 1 for choice in choices)


@torch.inference_mode(False)
def explain_next_words(model: TaskModel, encodings: Sequence[Encoding], options: Options) -> list[Attribution]:
    """Explain which next words, each of any number of tokens, a causal language model says after texts."""
    if options.token_predictions:
        raise InputError("token_predictions= goes with targets of one token")
    results = []
    with progress_bar(len(encodings), options.progress) as advance:
        for index, encoding in enumerate(encodings):
            results.append(_explain_next(model, encoding, options.only(index)))
            advance(1)
    return results


def _explain_next(model: TaskModel, encoding: Encoding, options: Options) -> Attribution:
    """Explain what a model says next after one text, as whole answers: a row for each of several targets.

    Args:
        model: A causal language model.
        encoding: The text.
        options: The options of the call; targets and contrast are the words that follow, and by default the token that
            the model predicts.
    """
    choices = _targets(options.target)
    if not choices:
        choices = [int(model.task.outputs.default_target(_next_logits(model, encoding)))]
    answers = [_completed(model, encoding, choice) for choice in choices]
    if options.contrast is None:
        explained = explained_of(answers)
    else:
        contrast = _completed(model, encoding, options.contrast)
        explained = explained_of([*answers, contrast])
        answers = [_against(answer, contrast, options) for answer in answers]
    # What these name is in the answers now.
    answer_options = replace(options, target=None, targets=None, contrast=None, explained=explained)
    rows = [explain_answer(model, answer, answer_options) for answer in answers]
    has_target_axis = options.target is not None and not is_choice(options.target)
    result = in_rows(rows) if has_target_axis else rows[0]
    notes = dict.fromkeys(note for row in rows for note in row.notes)
    return replace(result, text=encoding.text, notes=tuple(notes))


def _against(answer: Completed, contrast: Completed, options: Options) -> Completed:
    """Return an answer that is explained against the contrast; refuse the contrast itself."""
    if answer.encoding.ids == contrast.encoding.ids:
        raise TargetError(f"the target {options.contrast!r} is also the contrast: their difference is zero")
    return replace(answer, other=contrast)


def _targets(target: Any) -> list[Choice]:
    """Return the targets of a text as a list; empty for the prediction."""
    if isinstance(target, All):
        raise TargetError("ALL would be the whole vocabulary; name the words that you want instead")
    if target is None:
        return []
    return [target] if is_choice(target) else list(target)


def _completed(model: TaskModel, encoding: Encoding, choice: Choice) -> Completed:
    """Return a text with the next words that a target names."""
    outputs = cast(Vocabulary, model.task.outputs)
    tokenizer = model.tokenizer
    ids = outputs.ids_of(choice) if isinstance(choice, str) else [index_of(model.task, choice, model.vocabulary_size)]
    if tokenizer.unk_token_id in ids:
        raise TargetError(f"the tokenizer does not know a part of {choice!r}: {', '.join(map(outputs.name_of, ids))}")
    limit = model.answer_limit
    if limit is not None and len(encoding) + len(ids) - 1 > limit:
        raise InputError(
            f"the text has {len(encoding)} tokens, {choice!r} has {len(ids)}, and the model reads {limit}; shorten it"
        )
    prompt = with_decoded_text(tokenizer, encoding)
    return Completed(generating_task(model).appended(model, prompt, ids), len(encoding), len(prompt.text or ""))


def _target(model: TaskModel, completed: Completed, position: int) -> Target:
    """Return an answer, with the other one as its contrast, as a target.

    Args:
        model: A model that generates.
        completed: The prompt with the answer, and with the other one.
        position: The last token of the prompt, which predicts the first of the answer; below 0 if the prompt has none.
    """
    name = _name_of_answer(model, completed)
    target = Target("token", name, _id_of_answer(completed), position=None if position < 0 else position)
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
    """Return the place in the vocabulary of an answer of one token; None of a longer one."""
    ids = completed.generated_ids
    return ids[0] if len(ids) == 1 else None
