"""Explain which sources an answer rests on, with as few passes as the method allows."""

from collections.abc import Mapping

import numpy as np
import torch

from ..errors import InputError, MethodError
from ..methods import FrozenGradient, Method, Request
from ..methods.perturbation import Perturbation
from ..models.causality import is_causal
from ..models.layers import layer_numbers
from ..models.task_model import TaskModel
from ..results.regions import is_box
from ..results.schema import FloatArray
from ..results.sources import Merging, Passage, Sources, check_merging, sum_to_sources
from ..results.spans import PartSpec, Piece, SourceSpec, answer_parts, prompt_sources
from ..surgery.memory import enough_memory
from ..tasks.targets import Target
from .ablations import Ablations, Array, score_sources
from .completed import Completed
from .completion import explain_completion
from .explain import sink_note
from .options import Options, provenance


@enough_memory("find the sources of this answer")
@torch.inference_mode(False)
def explain_sources(
    model: TaskModel,
    completed: Completed,
    options: Options,
    sources: SourceSpec,
    parts: PartSpec = None,
    merge: Merging = "sum",
) -> Sources:
    """Explain an answer by the sources of its prompt.

    Methods that can backpropagate from a weighted sum of the answer's tokens do it once for each part of the answer;
    perturbation methods leave out sources instead of tokens; the scores of all others are summed over tokens.

    Raises:
        InputError: If there is no such source, part or `merge`, or the prompt holds none.
        UnsupportedModelError: If the model is not one that the method works on.
    """
    check_merging(merge)
    options = options.for_media if completed.encoding.media else options
    sequence = completed.sequenced()
    source_pieces, part_pieces = sources_and_parts(completed, sources, parts)
    weights = part_weights(completed, part_pieces)
    model.prepare(model.batch([completed.encoding.take(range(len(completed.encoding) - 1))], [0]))
    outside = written = np.zeros(len(part_pieces), np.float32)
    bias: FloatArray | None = None
    sink: FloatArray | None = None
    sinks: tuple[int, ...] = ()
    unit = "logit"
    passages = tuple(Passage(s.name, s.start, s.end) for s in source_pieces)
    passes = {"forward_passes": 1.0}
    measured: dict[str, float | tuple[float, ...]] = {}

    def prior(method: Method) -> tuple[Array, Mapping[str, float]]:
        result = explain_sources(model, completed, Options(method=method), sources, parts, merge)
        return result.table.astype(np.float64), result.diagnostics

    if completed.encoding.media and isinstance(options.method, Perturbation):
        raise MethodError(
            f"{options.method.info.name} leaves words out, and the prompt holds a picture or a sound: frozen-gradient "
            "scores both"
        )
    if isinstance(options.method, Perturbation):
        scored = score_sources(options.method, Ablations(model, completed, source_pieces), weights, prior)
        table, unit, passes = scored.table.astype(np.float32), scored.unit, scored.passes
        measured = {} if scored.r2 is None else {"r2": tuple(scored.r2.tolist())}
    elif (direct := _direct(model, completed, options, weights)) is not None:
        values, bias, sink, sinks = direct
        start = sequence.prompt_tokens
        alone = [part._replace(tokens=(start + k,)) for k, part in enumerate(part_pieces)]
        table, outside, written = sum_to_sources(values, alone, source_pieces, start, merge)
        passes |= {"backward_passes": float(len(part_pieces))}
    elif completed.encoding.source is not None:
        raise MethodError(
            f"{options.method.info.name} does not score the source of an encoder-decoder model; frozen-gradient, "
            "occlusion, context-cite, lime, guided-lime:prior=frozen-gradient and kernel-shap do"
        )
    else:
        summed = explain_completion(model, completed, options).sources(sources, parts, merge=merge)
        table, outside, written, bias = summed.table, summed.rest, summed.written, summed.bias
        sink, sinks, passages = summed.sink, summed.sinks, summed.sources  # with pictures and sounds
        if completed.encoding.media and not options.method.info.tokenwise:
            passes |= {"backward_passes": float(weights.shape[1])}
        elif not options.method.info.tokenwise:
            passes = {"forward_passes": float(weights.shape[1])}
    text, encoding, about = sequence.text, completed.joined().encoding, provenance(model, options.method)
    about["settings"] = {**about["settings"], **({"merge": merge} if merge != "sum" else {})}
    return Sources(
        scores=table.sum(0),
        table=table,
        rest=outside.copy(),
        written=written.copy(),
        bias=bias if merge == "sum" else None,
        sink=sink if merge == "sum" else None,
        sinks=sinks,
        sources=passages,
        parts=tuple(Passage(p.name, p.start, p.end) for p in part_pieces),
        text=text,
        completion=text[sequence.prompt_characters :],
        unit=unit,
        **about,
        notes=(*completed.encoding.notes, *sink_note(encoding.tokens, encoding.special, sinks)),
        diagnostics=passes | measured,
    )


def sources_and_parts(completed: Completed, sources: SourceSpec, parts: PartSpec) -> tuple[list[Piece], list[Piece]]:
    """Return the sources of a prompt and the parts of its answer."""
    sequence = completed.sequenced()
    source_pieces, part_pieces = prompt_sources(sequence, sources), answer_parts(sequence, parts)
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
    model: TaskModel,
    completed: Completed,
    options: Options,
    weights: Array,
) -> tuple[FloatArray, FloatArray | None, FloatArray | None, tuple[int, ...]] | None:
    """Return scores (K, T), biases (K,), sinks (K,) and which tokens they are, from one backward pass for each part.

    Returns:
        None if the method cannot.
    """
    method, sequence, start = options.method, completed.encoding, completed.prompt_tokens
    if method.info.tokenwise:
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
    request = Request(model, run, Target(ids, None, run.positions, True, model.task), layer_numbers(None, model))
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
    return table, bias, sink, sinks
