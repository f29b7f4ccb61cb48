"""Explain the parts of an answer by the sources of its prompt, with as few passes as the method allows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from ...copies.memory import enough_memory
from ...errors import InputError, MethodError
from ...methods import FrozenGradient, Occlusion, Request
from ...methods.perturbation import Perturbation, log_odds
from ...model.batch_attempts import batch_attempts
from ...model.forward_pass import ForwardPass
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.targets import OutputQuantity, Quantity
from ...results.units.grouping import grouped, part_targets, units_of
from ...results.units.media import media_places
from ...results.units.spans import NamedSpan, PartSpec, SourceSpec, prompt_sources
from ..options import Options, provenance
from .completed import Completed
from .completion import CompletionRequest, batch_targets, explain_completions, pass_over, scored_tokens, text_scores
from .leave_out import Ablations, Array


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
        run: The pass over the answer, see `answer_pass`; None if there is none yet.

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
            run = run or answer_pass(model, completed, options)
            if run is not None:
                by_token = _token_scores(model, completed, options, part_spans, token_weights, run)
        run = None  # a pass can be backpropagated once: a second attempt makes one of its own
    if by_token is None:  # the method does not backpropagate from sums of tokens
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
    if completed.parting is not None:  # of the whole answer, only this token is explained
        options = replace(options, contrast=completed.parting.other_id)
        parts = [completed.parting.token]
    (by_token,) = explain_completions(model, [completed], [options])
    result = by_token.group_targets(parts) if sources is None else by_token.sources(sources, parts)
    if completed.parting is not None:
        result = replace(result, targets=targets)  # which name the answer, and not its one token
    # One pass gives a tokenwise method the scores for all tokens; others read the text before each token by itself.
    forward_passes = 1 if method.info.tokenwise else len(completed.generated_ids)
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
    if not options.explains_own_tokens:
        raise MethodError(
            f"{method.info.name} measures what the completion loses without each source, which knows no target, "
            "contrast or layers; without sources= it leaves out tokens"
        )
    weights = part_weights(completed, parts)  # (K, G), of G generated tokens
    ablations = Ablations(model, completed, sources)
    of_sources = score_sources(method, ablations, weights, options.explained)
    origin = {**provenance(model, method), "quantity": of_sources.quantity}
    sequence = completed.sequenced()
    return Attribution(
        scores=of_sources.scores.astype(np.float32),
        units=units_of(sources, [sequence.text]),
        targets=part_targets(parts),
        text=sequence.text,
        completion=sequence.text[sequence.prompt_characters :],
        messages=completed.messages,
        reasoning=completed.reasoning,
        marked_reasoning=completed.marked_reasoning,
        notes=completed.encoding.notes,
        diagnostics={"forward_passes": of_sources.forward_passes},
        merge=method.word_merge,
        **origin,
    )


class SourceScores(NamedTuple):
    """The scores of sources by a perturbation method."""

    scores: Array  # (K, S), of S sources for K parts of an answer
    quantity: Quantity  # what they add up in
    forward_passes: float  # how many were run


def score_sources(
    method: Perturbation, ablations: Ablations, weights: Array, explained: OutputQuantity = "logit"
) -> SourceScores:
    """Score sources by a perturbation method, by the log-probability of parts of an answer without some of them.

    Args:
        method: The method.
        ablations: What measures the answer without sources.
        weights: Which of its tokens belong to each part, (K, G).
        explained: A method that fits log-odds fits log-probabilities where these are explained.

    Raises:
        MethodError: If occlusion has a window of several sources.
    """
    if isinstance(method, Occlusion) and method.window != 1:
        raise MethodError("occlusion over sources leaves out one at a time: window must be 1")
    present = method.subsets(len(ablations.sources))  # (N, S), whether each source is there
    nats_of_parts = ablations(present) @ weights.T  # (N, K)
    forward_passes = float(len(np.unique(present, axis=0)))  # equal ablations are measured once
    if not method.fits_log_odds(explained):
        return SourceScores(method.fit(present, nats_of_parts), "log-probability", forward_passes)
    # Log-odds are fitted for the mean token of a part, and reported for the part.
    token_counts = weights.sum(1)  # (K,)
    of_tokens = method.fit(present, log_odds(nats_of_parts) / token_counts)  # (K, S)
    return SourceScores(of_tokens * token_counts[:, None], "log odds", forward_passes)


def sources_and_parts(
    completed: Completed, sources: SourceSpec | None, parts: PartSpec
) -> tuple[list[NamedSpan], list[NamedSpan]]:
    """Return the sources of a prompt and the parts of its answer.

    Args:
        completed: The prompt with the answer.
        sources: The division of the prompt; None for none, and then there are no sources.
        parts: The division of the answer; None for the whole.

    Returns:
        The sources, those of the text before the pictures and sounds, and the parts.

    Raises:
        InputError: If there is no such source or part, or the prompt holds no source.
    """
    sequence = completed.sequenced()
    part_spans = completed.answer_parts(parts)
    if sources is None:
        return [], part_spans
    # With {}, which names no span of the text, the media alone are sources.
    has_media_alone = not sources and completed.encoding.media
    source_spans = [] if has_media_alone else prompt_sources(sequence, sources)
    source_spans += media_sources(completed, sources)
    if not source_spans:
        raise InputError("the prompt holds no source")
    return source_spans, part_spans


def media_sources(completed: Completed, sources: SourceSpec | None) -> list[NamedSpan]:
    """Return each medium of a prompt as a source, or its regions, among named sources, and the rest of it.

    Args:
        completed: The prompt with its completion.
        sources: The division of the prompt into sources.

    Returns:
        The sources, without tokens: their `places` are boxes in pixels, or spans in seconds.
    """
    media_spans: list[NamedSpan] = []
    for index, name, kind, boxes in media_places(completed.encoding.media, sources):
        medium = completed.encoding.media[index]
        # A place is (left, top, right, bottom) or (start, end): the whole is from 0 to its size on each axis.
        whole_medium = (*(0.0 for _ in medium.extent), *medium.extent)
        places = tuple((index, tuple(box)) for box in boxes or [whole_medium])
        start, end = completed.encoding.characters_of(medium)
        media_spans.append(NamedSpan(name, start, end, tokens=(), kind=kind, sequence=None, places=places))
    return media_spans


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
    """Return the pass over an answer from which `explain_sources` backpropagates; None if it does not.

    Args:
        model: A language model.
        completed: The prompt with the answer.
        options: The method, and what of the answer is explained.
        arguments: Further arguments of the model, see `Batch`.
    """
    is_tokenwise = options.method.info.tokenwise  # then it reads states, and needs no gradient
    if is_tokenwise or not options.explains_own_tokens:
        return None
    is_frozen = isinstance(options.method, FrozenGradient)
    if completed.context.source is not None and not is_frozen:  # other gradients do not reach the encoder
        return None
    # Another target or a contrast was ruled out above.
    request = CompletionRequest(completed, options, ids=completed.generated_ids, contrast=None)
    return pass_over(model, [request], arguments=arguments)


def _token_scores(
    model: TaskModel,
    completed: Completed,
    options: Options,
    parts: list[NamedSpan],
    token_weights: Array | None,
    run: ForwardPass,
) -> Attribution | None:
    """Score the tokens for each part of an answer by one backward pass from the sum of the part's tokens.

    Args:
        model: The model.
        completed: The prompt with its answer of G tokens.
        options: The options of the call.
        parts: The K parts of the answer.
        token_weights: As in `explain_sources`, (K, G).
        run: The pass over the answer alone.

    Returns:
        The scores of the T tokens, (K, T), or with `token_weights` (2K, T); None if the method has no such pass.
    """
    weights = part_weights(completed, parts)  # (K, G)
    if token_weights is not None:  # further targets behind the parts, each named as the part in its place
        weights = np.concatenate([weights, token_weights])  # (2K, G)
        parts = [*parts, *parts]
    # Beside a contrast the weights are of the parting token alone, see `Completed.answer_parts`.
    contrast = None if completed.parting is None else completed.parting.other_id
    generated_ids = torch.tensor([completed.generated_ids])  # (1, G)
    target = batch_targets(model, generated_ids, contrast, run, options.explained)
    # Each token is predicted at the one before it.
    predicted_at = torch.arange(completed.prompt_tokens - 1, len(completed.context))[None]  # (1, G)
    weights_of_sums = torch.as_tensor(weights, dtype=torch.float32)[None]  # (1, K or 2K, G)
    scores = options.method.score_each(Request(model, run, target), predicted_at, weights_of_sums)
    if scores is None:
        return None
    # The pass has one text without padding: its only row, and all of its tokens.
    row_scores = text_scores(scores.on_host(), rows=slice(1), count=len(weights), tokens=slice(None))
    # Of an encoder-decoder model the source is joined in front, as the scores are.
    return scored_tokens(model, completed.joined(), options, row_scores, targets=part_targets(parts))
