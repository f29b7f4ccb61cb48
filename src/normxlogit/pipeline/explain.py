"""From a forward pass and options to attributions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..copies.run import autocast_note
from ..errors import HeadMismatchError
from ..methods import Request, check_finite, run_method
from ..methods.registry import alternatives
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray
from ..results.targets import Prediction
from ..tasks.targets import BatchTargets, contrast_note, describe_targets, resolve
from .options import Options, provenance


@dataclass(frozen=True)
class ScoreColumns:
    """Scores and predictions of B texts of N tokens, as arrays on the host.

    Attributes:
        scores: (N, K, L): K labels, L layers (one where no layers are requested).
        ids: Classes or vocabulary entries explained, (B, K).
        contrast: The entry subtracted, (B,), None without contrast.
        places: The positions explained, counted in each text's own tokens, (B,) or (B, 2); None for whole texts.
        predictions: Value, index and probability (NaN for none) of each, (B, 3); None where the answer is a span.
        token_predictions: The same of each token alone, (N, 3); None where it was not computed.
        spans: The answers of a model that answers with spans.
        diagnostics: What the method measured of itself, (B, K) each, as lists.
        bias: What belongs to no token, (B, K, L); None where scores do not add up.
        sink: What attention sinks contribute, (B, K, L); None without sinks.
        sinks: Which tokens are attention sinks, (N,); None without sinks.
        lengths: The number of tokens of each text, B of them, which add up to N.
    """

    scores: FloatArray
    ids: FloatArray
    contrast: FloatArray | None
    places: FloatArray | None
    predictions: FloatArray | None
    token_predictions: FloatArray | None
    spans: list[Prediction] | None
    target: BatchTargets
    layers: tuple[int, ...]
    diagnostics: dict[str, list[list[float]]]
    bias: FloatArray | None
    sink: FloatArray | None
    sinks: FloatArray | None
    lengths: tuple[int, ...]


def score_batch(model: TaskModel, run: ForwardPass, options: Options) -> ScoreColumns:
    """Score the tokens of a forward pass, without an object for each of them."""
    method, batch = options.method, run.batch
    batch_targets = None if options.targets is None else [options.targets[i] for i in batch.indices]
    target = resolve(model.task, run, options.target, options.contrast, batch_targets)
    try:
        layers = model.layer_numbers(options.layers)
        request = Request(model, run, target, layers)
        scores = run_method(method, request)
    except HeadMismatchError as error:
        raise HeadMismatchError(f"{error}; {alternatives(head=False)}") from None
    extractive = model.task.extractive
    values, *optional_arrays = to_host(
        batch.real(scores.values.detach().permute(0, 3, 1, 2)),  # (N, K, L)
        target.ids,
        target.contrast,
        _places(run),
        None if extractive else model.task.top(run.logits),
        _token_predictions(model, run, options.token_predictions),
        scores.bias,
        scores.sink,
        None if scores.sinks is None else batch.real(scores.sinks),
    )
    measured = {name: measures.tolist() for name, measures in scores.diagnostics.items()}
    ids, contrast, places, predictions, token_predictions, bias, sink, sinks = optional_arrays
    if predictions is not None:
        model.check_finite(predictions[:, 0], batch)
    check_finite(method, request, values.swapaxes(1, 2))  # (N, L, K)
    spans = model.task.answers(run) if extractive else None
    lengths = tuple(len(encoding) for encoding in batch.encodings)
    return ScoreColumns(
        values,
        ids,
        contrast,
        places,
        predictions,
        token_predictions,
        spans,
        target,
        layers,
        measured,
        bias,
        sink,
        sinks,
        lengths,
    )


def explain_batch(model: TaskModel, run: ForwardPass, options: Options) -> list[Attribution]:
    """Explain a forward pass.

    Returns:
        B results.
    """
    method, columns = options.method, score_batch(model, run, options)
    texts = columns.spans if columns.predictions is None else model.task.describe(columns.predictions)
    tokens = None if columns.token_predictions is None else model.task.describe(columns.token_predictions)
    target = columns.target
    infos = describe_targets(target, columns.ids, columns.contrast, columns.places)
    precision = (*autocast_note(run.batch.inputs, run.dtype), *model.parts.unverified)
    results, start = [], 0
    for row, encoding in enumerate(run.batch.encodings):
        part = slice(start, start + len(encoding))
        axes = (slice(None) if target.labelled else 0, slice(None) if columns.layers else 0)
        values = columns.scores[part].transpose(1, 2, 0)[axes]  # (K, L, T) without the axes that were not requested
        sinks = () if columns.sinks is None else tuple(columns.sinks[part].nonzero()[0].tolist())
        bias, sink = (
            None if values is None else np.array(values[row][axes], np.float32, order="C")
            for values in (columns.bias, columns.sink if sinks else None)
        )
        targets, inputs = infos[row], model.task.result_inputs(encoding)
        ids = [chosen.id for chosen in targets if chosen.id is not None]
        same_note = contrast_note(ids, targets[0].contrast_id, targets[0].contrast)
        notes = (*inputs.pop("notes"), *precision, *same_note, *sink_note(encoding.tokens, encoding.special, sinks))
        results.append(
            Attribution(
                scores=np.array(values, np.float32, order="C"),
                **inputs,
                notes=notes,
                predictions=(texts[row],),  # type: ignore[index]
                targets=targets,
                quantity=model.task.quantity,
                layers=columns.layers or None,
                token_predictions=None if tokens is None else tokens[part],
                **provenance(model, method),
                diagnostics=_diagnostics(columns.diagnostics, row, target.labelled),
                bias=bias,
                sink=sink,
                sinks=sinks,
                merge=method.word_merge,
            )
        )
        start = part.stop
    return results


def sink_note(tokens: Sequence[str], special: Sequence[bool], sinks: Sequence[int]) -> tuple[str, ...]:
    """Return a note that names attention sinks, if there are any but special tokens."""
    words = [i for i in sinks if not special[i]]
    if not words:
        return ()
    names = ", ".join(repr(tokens[i]) for i in words)
    return (f"attention sink: {names}; what a sink contributes is reported separately and in no score",)


def to_host(*tensors: Tensor | None) -> list[Any]:
    """Bring tensors from the device as float32 arrays, all in one transfer.

    Args:
        *tensors: Of any shape and type; None stays None. Indices below 2^24 stay exact.
    """
    on_device = [t for t in tensors if t is not None and t.device.type != "cpu"]
    if not on_device:
        return [None if t is None else t.float().numpy() for t in tensors]
    flat = torch.cat([t.float().to(on_device[0].device).flatten() for t in tensors if t is not None]).cpu()
    parts = iter(flat.split([t.numel() for t in tensors if t is not None]))
    return [None if t is None else next(parts).view(t.shape).numpy() for t in tensors]


def _places(run: ForwardPass) -> Tensor | None:
    """Return the positions explained, counted in each text's own tokens, (B,) or (B, 2)."""
    if run.positions is None or not run.batch.padded:
        return run.positions
    before = run.batch.mask.cumsum(-1) - run.batch.mask.long()  # (B, T)
    places = before.gather(1, run.positions.reshape(len(before), -1).to(before.device))  # (B, 1) or (B, 2)
    return places.view_as(run.positions)


def _diagnostics(measured: dict[str, Any], row: int, labelled: bool) -> dict[str, Any]:
    """Return what the method measured of itself on one text: a number, or a tuple of them along the label axis."""
    of_row = {name: tuple(values[row]) for name, values in measured.items()}
    return {name: values if labelled else values[0] for name, values in of_row.items()}


def _token_predictions(model: TaskModel, run: ForwardPass, requested: bool | None) -> Tensor | None:
    """Return the head's prediction at each real token, (N, 3): class, value and probability.

    Args:
        model: The model.
        run: A forward pass of it.
        requested: Whether they are asked for; None returns them where they are nearly free, so not of a vocabulary.
    """
    nearly_free = isinstance(run.final, Tensor) and not model.task.vocabulary
    if not (nearly_free if requested is None else requested) or not model.task.head_reads_tokens:
        return None
    with torch.inference_mode():
        if run.token_logits is not None:
            return model.task.top(run.token_logits)
        parts = run.batch.real(run.hidden).split(256)  # the logits of a vocabulary are wide
        return torch.cat([model.task.top(model.head.tokens(part)) for part in parts])  # (N, 3)
