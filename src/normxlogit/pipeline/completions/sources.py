"""Explain which sources the parts of an answer rest on, with as few passes as the method allows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from ...copies.memory import enough_memory
from ...errors import InputError, MethodError
from ...methods import FrozenGradient, Method, Request
from ...methods.perturbation import Perturbation
from ...model.causality import is_causal
from ...model.layers import layer_numbers
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray
from ...results.units.grouping import Merging, check_merging, part_targets, source_units
from ...results.units.regions import is_box
from ...results.units.spans import PartSpec, Piece, SourceSpec, answer_parts, prompt_sources
from ...results.units.units import Units
from ...tasks.targets import BatchTargets
from ..explain import sink_note
from ..options import Options, provenance
from .ablations import Ablations, Array, score_sources
from .completed import Completed
from .completion import explain_completion


@enough_memory("find the sources of this answer")
@torch.inference_mode(False)
def explain_sources(
    model: TaskModel,
    completed: Completed,
    options: Options,
    sources: SourceSpec | None,
    parts: PartSpec = None,
    merge: Merging = "sum",
) -> Attribution:
    """Explain the parts of an answer by the sources of its prompt, or by its tokens.

    Methods that can backpropagate from a weighted sum of the answer's tokens do it once for each part of the answer;
    perturbation methods leave out sources instead of tokens; the scores of all others are summed over tokens, and so
    are those of another target than the answer's own tokens, of a contrast and of layers.

    Args:
        model: A language model.
        completed: The prompt with its answer.
        options: The caller's options.
        sources: How the prompt is divided; None for tokens.
        parts: How the answer is divided; None for the whole.
        merge: How a source's score comes from its tokens'.

    Raises:
        InputError: If there is no such source, part or `merge`, or the prompt holds none.
        MethodError: If a perturbation method is asked for another target, a contrast or layers.
        UnsupportedModelError: If the model is not one that the method works on.
    """
    check_merging(merge)
    options = options.for_media if completed.encoding.media else options
    method = options.method
    source_pieces, part_pieces = sources_and_parts(completed, sources, parts)
    weights = part_weights(completed, part_pieces)
    model.prepare(model.batch([completed.encoding.take(range(len(completed.encoding) - 1))], [0]))
    passes = {"forward_passes": 1.0}

    def prior(method: Method) -> tuple[Array, Mapping[str, float]]:
        result = explain_sources(model, completed, Options(method=method), sources, parts, merge)
        return result.scores[:, result.units.sources].astype(np.float64), result.diagnostics

    if completed.encoding.media and isinstance(method, Perturbation):
        raise MethodError(
            f"{method.info.name} leaves words out, and the prompt holds a picture or a sound: frozen-gradient scores "
            "both"
        )
    if isinstance(method, Perturbation) and sources is not None:
        if not options.own_tokens:
            raise MethodError(
                f"{method.info.name} measures what the completion loses without each source, which knows no target, "
                "contrast or layers; without sources= it leaves out tokens"
            )
        scored = score_sources(method, Ablations(model, completed, source_pieces), weights, prior)
        units = source_units(completed.sequenced().text, sources, source_pieces)
        result = _of_parts(model, completed, method, part_pieces, scored.table.astype(np.float32), units)
        measured: dict[str, Any] = {} if scored.r2 is None else {"r2": tuple(scored.r2.tolist())}
        quantity: Literal["nats", "log odds"] = "nats" if scored.unit == "nats" else "log odds"
        settings = {**result.settings, **({"merge": merge} if merge != "sum" else {})}
        return replace(result, quantity=quantity, diagnostics=dict(scored.passes) | measured, settings=settings)
    if (direct := _direct(model, completed, options, part_pieces, weights)) is not None:
        result = direct if sources is None else direct.group(sources, merge=merge)
        passes |= {"backward_passes": float(len(part_pieces))}
    elif completed.encoding.source is not None and sources is not None and not isinstance(method, FrozenGradient):
        raise MethodError(
            f"{method.info.name} does not score the source of an encoder-decoder model; frozen-gradient, "
            "occlusion, context-cite, lime, guided-lime:prior=frozen-gradient and kernel-shap do"
        )
    else:
        tokens = explain_completion(model, completed, options)
        result = tokens.group_targets(parts) if sources is None else tokens.sources(sources, parts, merge=merge)
        if completed.encoding.media and not method.info.tokenwise:
            passes |= {"backward_passes": float(weights.shape[1])}
        elif not method.info.tokenwise:
            passes = {"forward_passes": float(weights.shape[1])}
    return replace(result, diagnostics=passes)


def _of_parts(
    model: TaskModel, completed: Completed, method: Method, parts: list[Piece], scores: FloatArray, units: Units
) -> Attribution:
    """Return the scores of the parts of an answer, (K, U), as a result."""
    sequence, encoding = completed.sequenced(), completed.joined().encoding
    return Attribution(
        scores=scores,
        units=units,
        targets=part_targets(parts),
        text=sequence.text,
        completion=sequence.text[sequence.prompt_characters :],
        messages=completed.messages,
        **provenance(model, method),
        notes=encoding.notes,
        merge=method.word_merge,
    )


def sources_and_parts(
    completed: Completed, sources: SourceSpec | None, parts: PartSpec
) -> tuple[list[Piece], list[Piece]]:
    """Return the sources of a prompt, none where it is not divided, and the parts of its answer."""
    sequence = completed.sequenced()
    part_pieces = answer_parts(sequence, parts)
    if sources is None:
        return [], part_pieces
    source_pieces = prompt_sources(sequence, sources)
    boxes = isinstance(sources, Mapping) and any(map(is_box, sources.values()))
    if boxes and not completed.encoding.media:
        raise InputError("a source of four numbers is a region of a picture, and the prompt holds no picture")
    if not source_pieces and not boxes:
        raise InputError("the prompt holds no source")
    return source_pieces, part_pieces


def part_weights(completed: Completed, parts: list[Piece]) -> Array:
    """Return which generated tokens are of which part, (K, G)."""
    start = completed.joined().prompt_tokens
    weights = np.zeros((len(parts), len(completed.encoding) - completed.prompt_tokens))
    for k, part in enumerate(parts):
        weights[k, [token - start for token in part.tokens]] = 1
    return weights


def _direct(
    model: TaskModel, completed: Completed, options: Options, parts: list[Piece], weights: Array
) -> Attribution | None:
    """Return what the parts of an answer rest on, by tokens, from one backward pass for each part.

    Returns:
        None if the method cannot.
    """
    method, sequence, start = options.method, completed.encoding, completed.prompt_tokens
    if method.info.tokenwise or not options.own_tokens:
        return None
    context = sequence.take(range(len(sequence) - 1))
    if context.media:  # which are sources as a whole
        return None
    if context.source is not None and not isinstance(method, FrozenGradient):
        return None
    batch = model.batch([context], [0], encode_sources=False)
    run = method.forward(model, batch, None, predict=False)
    if not is_causal(model, run, start):
        return None
    ids = torch.tensor([sequence.ids[start:]], device=run.hidden.device)  # (1, G)
    request = Request(model, run, BatchTargets(ids, None, run.positions, True, model.task), layer_numbers(None, model))
    places = torch.arange(start - 1, len(sequence) - 1)[None]  # (1, G)
    sums = torch.as_tensor(weights, dtype=torch.float32)[None]  # (1, K, G)
    scores = method.score_each(request, places, sums)
    if scores is None:
        return None
    values = scores.values[0, :, 0].detach().float().cpu()  # (K, T - 1), T of `joined`
    table: FloatArray = torch.nn.functional.pad(values, (0, 1)).numpy()  # (K, T)
    bias, sink = (
        None if part is None else part[0, :, 0].detach().float().cpu().numpy() for part in (scores.bias, scores.sink)
    )
    sinks = () if scores.sinks is None else tuple(scores.sinks[0].nonzero()[:, 0].tolist())
    joined = completed.joined()
    encoding = joined.encoding
    units = Units.of_tokens(encoding.tokens, special=encoding.special, spans=encoding.offsets, ids=encoding.ids)
    result = _of_parts(model, completed, method, parts, table, units)
    notes = (*result.notes, *sink_note(encoding.tokens, encoding.special, sinks))
    return replace(
        result,
        prompt_tokens=joined.prompt_tokens,
        bias=bias,
        sink=sink if sinks else None,
        sinks=sinks,
        notes=notes,
    )
