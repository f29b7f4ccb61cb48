"""From a forward pass over a batch to an attribution for each of its texts."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..copies.precision import autocast_note
from ..errors import HeadMismatchError
from ..methods import Request, Scores, check_finite, run_method
from ..methods.base import sink_note
from ..methods.registry import alternatives
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..model.transfer import to_host
from ..parts.headpiece import TOKENS_AT_ONCE
from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray
from ..tasks.base import message_spans
from ..tasks.targets import BatchTargets, contrast_note, describe_targets, resolve
from .options import Options, provenance


class _OnHost(NamedTuple):
    """The numbers of a batch's results as arrays: B texts with N tokens together, K targets, L layers."""

    scores: FloatArray  # (N, K, L)
    target_ids: FloatArray  # (B, K)
    # Each of these is None where there is none.
    contrast: Any  # (B,)
    positions: Any  # (B,) or (B, 2)
    predicted: Any  # (B, 3): logit, index and probability, see `Outputs.top`
    token_predictions: Any  # (N, 3)
    bias: Any  # (B, K, L)
    sink: Any  # (B, K, L)
    is_sink: Any  # (N,)

    def scores_of_text(self, row: int, tokens: slice, axes: tuple[Any, ...]) -> dict[str, Any]:
        """Return the fields of a text's result that hold scores.

        Args:
            row: The index of the text.
            tokens: Which of the N tokens are its own, T of them.
            axes: What is taken of the targets, and of the layers: all, or the only one, without its axis.
        """
        # A batch has sinks if one of its texts has: a text without any has no `sink` either.
        sinks = () if self.is_sink is None else tuple(self.is_sink[tokens].nonzero()[0].tolist())
        return {
            "scores": _float32(self.scores[tokens].transpose(1, 2, 0)[axes]),  # (K, L, T)
            "bias": None if self.bias is None else _float32(self.bias[row][axes]),  # (K, L)
            "sink": None if self.sink is None or not sinks else _float32(self.sink[row][axes]),  # (K, L)
            "sinks": sinks,
        }


def _on_host(
    model: TaskModel,
    run: ForwardPass,
    target: BatchTargets,
    scores: Scores,
    token_predictions: bool | None,
    *,
    is_span: bool,
) -> _OnHost:
    """Return the numbers of a pass's results, brought from the device in one transfer.

    Args:
        model: The model.
        run: The pass.
        target: What is explained.
        scores: The scores, (B, K, L, T).
        token_predictions: Whether predictions of single tokens are shown; None to show them where the method read them.
        is_span: Whether the prediction is a span, which `AnswerPosition.spans` describes.
    """
    batch, task = run.batch, model.task
    predicted = task.outputs.predicted(target.ids)  # (B, 1); None for the likeliest output
    on_device = {
        "scores": batch.real(scores.values.detach().permute(0, 3, 1, 2)),  # of (B, T, K, L)
        "target_ids": target.ids,
        "contrast": target.contrast,
        "positions": _positions_in_texts(run),
        "predicted": None if is_span else task.outputs.top(run.logits, predicted),
        "token_predictions": _token_predictions(model, run, token_predictions, predicted),
        "bias": scores.bias,
        "sink": scores.sink,
        "is_sink": None if scores.sinks is None else batch.real(scores.sinks),
    }
    return _OnHost(**dict(zip(on_device, to_host(*on_device.values()), strict=True)))


def _float32(values: FloatArray) -> FloatArray:
    """Return a copy of values that does not keep those of the whole batch in memory."""
    return np.array(values, np.float32, order="C")


def attribute_pass(model: TaskModel, run: ForwardPass, options: Options) -> list[Attribution]:
    """Attribute the answers of a forward pass to the tokens that it read.

    Args:
        model: The model.
        run: A pass over B texts.
        options: The options of the call.

    Returns:
        A result for each text.

    Raises:
        TargetError: If a target does not exist.
        MethodError: If the method gives scores that are not finite.
        UnsupportedModelError: If it does not work on the model.
    """
    method = options.method
    batch = run.batch
    task = model.task
    request, scores = _scored(model, run, options)
    target = request.target
    spans = task.position.spans(run)
    on_host = _on_host(model, run, target, scores, options.token_predictions, is_span=spans is not None)
    predictions: Any = spans
    if on_host.predicted is not None:  # the predictions are no spans, but outputs
        model.check_finite(on_host.predicted[:, 0], batch)  # their logits
        predictions = task.outputs.describe(on_host.predicted)
    check_finite(method, request, on_host.scores.swapaxes(1, 2))  # (N, L, K)
    targets = describe_targets(target, on_host.target_ids, on_host.contrast, on_host.positions)
    # Each is a list with a tuple of the K targets' values for each of the B texts.
    diagnostics = {name: list(map(tuple, values.tolist())) for name, values in scores.diagnostics.items()}
    shared_fields = provenance(model, method, contrasted=target.contrast is not None)
    shared_fields |= {"layers": request.layers or None, "merge": method.word_merge}
    notes = (*autocast_note(batch.inputs, run.dtype), *model.notes, *method.notes_on(model))
    token_predictions: Any = None
    if on_host.token_predictions is not None:
        token_predictions = task.outputs.describe(on_host.token_predictions)  # N
    target_axis: Any = slice(None) if target.has_target_axis else 0  # all of its K entries, or the only one
    layer_axis = slice(None) if request.layers else 0
    results = []
    start = 0
    for row, encoding in enumerate(batch.encodings):
        tokens = slice(start, start + len(encoding))  # of the N tokens of all texts
        units, media = task.units(encoding)
        scores_of_text = on_host.scores_of_text(row, tokens, (target_axis, layer_axis))
        sink_notes = sink_note(encoding.tokens, encoding.special, scores_of_text["sinks"])
        results.append(
            Attribution(
                units=units,
                media=media,
                text=encoding.text,
                text_pair=encoding.text_pair,
                messages=message_spans(encoding.contents),
                notes=(*encoding.notes, *notes, *contrast_note(targets[row]), *sink_notes),
                predictions=(predictions[row],),
                targets=targets[row],
                token_predictions=token_predictions and token_predictions[tokens],
                diagnostics={name: values[row][target_axis] for name, values in diagnostics.items()},
                **scores_of_text,
                **shared_fields,
            )
        )
        start = tokens.stop
    return results


def _scored(model: TaskModel, run: ForwardPass, options: Options) -> tuple[Request, Scores]:
    """Score the tokens of a forward pass; return the method's request, with the resolved targets, and its scores."""
    # The batch holds some of the inputs of the call, and `options.targets` has one target for each of all.
    batch_targets = None if options.targets is None else [options.targets[index] for index in run.batch.indices]
    target = resolve(model.task, run, options.target, options.contrast, batch_targets)
    try:
        request = Request(model, run, target, model.layer_numbers(options.layers))
        return request, run_method(options.method, request)
    except HeadMismatchError as error:
        raise HeadMismatchError(f"{error}; {alternatives(head=False)}") from None


def _positions_in_texts(run: ForwardPass) -> Tensor | None:
    """Return the positions explained, counted in each text's own tokens, (B,) or (B, 2)."""
    if run.positions is None or not run.batch.padded:  # without padding they are counted so already
        return run.positions
    earlier_tokens = run.batch.mask.cumsum(-1) - run.batch.mask.long()  # (B, T), how many real ones stand before each
    positions = run.positions.reshape(len(earlier_tokens), -1).to(earlier_tokens.device)  # (B, 1) or (B, 2)
    return earlier_tokens.gather(1, positions).view_as(run.positions)


def _token_predictions(
    model: TaskModel, run: ForwardPass, requested: bool | None, predicted: Tensor | None
) -> Tensor | None:
    """Return the logit, index and probability of the prediction at each real token, (N, 3); None if none are shown.

    Args:
        model: The model.
        run: The pass.
        requested: Whether they are shown; None to show them where the method has read the head's answers at tokens.
        predicted: Which output of each text is shown at its tokens, (B, 1); None for the likeliest at each.
    """
    task = model.task
    outputs = task.outputs
    were_read = vars(run).get("token_logits") is not None  # a cached property: to ask for it would compute them
    are_shown = were_read if requested is None else requested
    if not are_shown or task.position.token_per_output:  # as of a span, of its start and its end
        return None
    with torch.inference_mode():
        if run.token_logits is not None:
            return outputs.top(run.token_logits, None if predicted is None else predicted[run.batch.texts])
        # The head of a vocabulary: the logits of all tokens at once would fill the memory. `predicted` is None here.
        parts = run.batch.real(run.hidden).split(TOKENS_AT_ONCE)
        return torch.cat([outputs.top(model.head.tokens(part)) for part in parts])  # (N, 3)
