"""Explain the parts of an answer by sources, with as few passes as the method allows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ...copies.memory import enough_memory
from ...errors import InputError, MethodError
from ...methods import FrozenGradient, Occlusion, Request
from ...methods.perturbation import Perturbation, log_odds
from ...model.batch_attempts import batch_attempts
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.targets import Quantity
from ...results.units.spans import (
    NamedSpan,
    PartSpec,
    SourceSpec,
    answer_parts,
    grouped,
    part_targets,
    prompt_sources,
    units_of,
)
from ..options import Options, provenance
from .completed_prompts import Completed
from .completion import CompletionRequest, batch_targets, explain_completion, pass_over, scored_tokens, text_scores
from .leave_out import Ablations, Array, media_sources


@enough_memory("find the sources of this answer")
@torch.inference_mode(False)
def explain_sources(
    model: TaskModel,
    completed: Completed,
    options: Options,
    sources: SourceSpec | None,
    parts: PartSpec = None,
    token_weights: Array | None = None,
) -> Attribution:
    """Explain the parts of an answer by the sources of its prompt, or by its tokens.

    Methods that can backpropagate from a weighted sum of the answer's tokens do it once for each part of the answer;
    perturbation methods leave out sources instead of tokens; the scores of all others are summed over tokens, and so
    are those of another target than the answer's own tokens, of a contrast and of layers.

    Args:
        sources: How the prompt is divided; None for tokens.
        parts: How the answer is divided; None for the whole.
        token_weights: Weights of the answer's tokens, (K, G): the weighted sum of each part is explained as well, as
            K targets behind the parts, by methods that backpropagate from such sums; others leave them out.
    """
    options = options.for_media(completed.encoding.media) if completed.encoding.media else options
    method = options.method
    source_pieces, part_pieces = sources_and_parts(completed, sources, parts)
    weights = part_weights(completed, part_pieces)
    model.prepare(model.batch([completed.context], [0]))
    passes = {"forward_passes": 1.0}

    if completed.encoding.media and isinstance(method, Perturbation) and sources is None:
        raise MethodError(
            f"{method.info.name} leaves tokens out, and the prompt holds a picture or a sound: with sources= it leaves "
            "out these too, and frozen-gradient scores all of their parts"
        )
    if isinstance(method, Perturbation) and sources is not None:
        if not options.own_tokens:
            raise MethodError(
                f"{method.info.name} measures what the completion loses without each source, which knows no target, "
                "contrast or layers; without sources= it leaves out tokens"
            )
        scores, quantity, forward_passes = score_sources(method, Ablations(model, completed, source_pieces), weights)
        sequence = completed.sequenced()
        return Attribution(
            scores=scores.astype(np.float32),
            units=units_of(source_pieces, [sequence.text]),
            targets=part_targets(part_pieces),
            text=sequence.text,
            completion=sequence.text[sequence.prompt_characters :],
            messages=completed.messages,
            reasoning=completed.reasoning,
            marked_reasoning=completed.marked_reasoning,
            notes=completed.encoding.notes,
            diagnostics={"forward_passes": forward_passes},
            merge=method.word_merge,
            **(provenance(model, method) | {"quantity": quantity}),
        )
    by_token = None
    for attempt in batch_attempts(model, [completed.encoding]):  # once more if memory runs out
        with attempt:
            by_token = _token_scores(model, completed, options, part_pieces, weights, token_weights)
    if by_token is not None:
        result = by_token if sources is None else grouped(by_token, sources)
        passes |= {"backward_passes": float(len(by_token.targets))}
    elif completed.encoding.source is not None and sources is not None and not isinstance(method, FrozenGradient):
        raise MethodError(
            f"{method.info.name} does not score the source of an encoder-decoder model; frozen-gradient, occlusion "
            "and other perturbation methods do"
        )
    else:
        tokens = explain_completion(model, completed, options)
        result = tokens.group_targets(parts) if sources is None else tokens.sources(sources, parts)
        if not method.info.tokenwise:
            passes = {"forward_passes": float(weights.shape[1])}
    return replace(result, diagnostics=passes)


def score_sources(method: Perturbation, ablations: Ablations, weights: Array) -> tuple[Array, Quantity, float]:
    """Score sources by a perturbation method, of which occlusion is leave-one-out.

    Returns:
        The scores for each part of the answer, (K, S), what they add up in, and the forward passes that they cost.
    """
    if isinstance(method, Occlusion) and method.window != 1:
        raise MethodError("occlusion over sources leaves out one at a time: window must be 1")
    present = method.subsets(len(ablations.sources))  # (N, S)
    answers = ablations(present) @ weights.T  # (N, K)
    quantity: Quantity = "log-probability"
    scale = np.ones(len(weights))  # (K,)
    if method.log_odds:  # fitted for each token of a part, and reported for the part
        quantity, scale = "log odds", weights.sum(1)
        answers = log_odds(answers) / scale
    return method.fit(present, answers) * scale[:, None], quantity, float(len(np.unique(present, axis=0)))


def sources_and_parts(
    completed: Completed, sources: SourceSpec | None, parts: PartSpec
) -> tuple[list[NamedSpan], list[NamedSpan]]:
    """Return the sources of a prompt, none if it is not divided, and the parts of its answer."""
    sequence = completed.sequenced()
    part_pieces = answer_parts(sequence, parts)
    if sources is None:
        return [], part_pieces
    only_media = not sources and completed.encoding.media
    source_pieces = [] if only_media else prompt_sources(sequence, sources)
    source_pieces += media_sources(completed, sources)
    if not source_pieces:
        raise InputError("the prompt holds no source")
    return source_pieces, part_pieces


def part_weights(completed: Completed, parts: Sequence[NamedSpan]) -> Array:
    """Return a matrix of which generated tokens belong to each part, (K, G)."""
    start = completed.joined().prompt_tokens
    weights = np.zeros((len(parts), len(completed.encoding) - completed.prompt_tokens))
    for k, part in enumerate(parts):
        weights[k, [token - start for token in part.tokens]] = 1
    return weights


def _token_scores(
    model: TaskModel,
    completed: Completed,
    options: Options,
    parts: list[NamedSpan],
    weights: Array,
    token_weights: Array | None,
) -> Attribution | None:
    """Score the tokens for each part of an answer by one backward pass from the sum of the part's tokens.

    Args:
        weights: Which tokens are of which part, (K, G).
        token_weights: Further weights of the tokens of each part, (K, G), a backward pass each.

    Returns:
        The scores of K targets, or of 2 K; None if the method or the model has no such backward pass.
    """
    method, start = options.method, completed.prompt_tokens
    if method.info.tokenwise or not options.own_tokens:  # it has no gradients, or explains something else
        return None
    if completed.context.source is not None and not isinstance(method, FrozenGradient):  # would not reach the encoder
        return None
    run = pass_over(model, [CompletionRequest(completed, options, completed.generated_ids, None)])
    if run is None:
        return None
    if token_weights is not None:
        weights, parts = np.concatenate([weights, token_weights]), [*parts, *parts]
    target = batch_targets(model, torch.tensor([completed.generated_ids]), None, run)  # (1, G)
    predicted_at = torch.arange(start - 1, len(completed.context))[None]  # (1, G), at the tokens before
    sums = torch.as_tensor(weights, dtype=torch.float32)[None]  # (1, K, G)
    scores = method.score_each(Request(model, run, target), predicted_at, sums)
    if scores is None:
        return None
    # Of an encoder-decoder model with the source in front, as the scores are.
    row_scores = text_scores(scores.on_host(), slice(1), len(weights), slice(None))
    return scored_tokens(model, completed.joined(), options, row_scores, targets=part_targets(parts))
