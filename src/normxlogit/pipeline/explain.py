"""From a forward pass and a question to attributions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._version import __version__
from ..errors import MethodError
from ..methods.registry import Method, MethodInfo
from ..models.targets import Choice, TargetSpec, answers, describe_targets, predictions, resolve, top_predictions
from ..models.task_model import ForwardPass, TaskModel
from ..results.attribution import Attribution
from ..surgery.isolated import without_autocast

__all__ = ["Layers", "Request", "explain", "layer_numbers", "to_host"]

Layers = str | int | Sequence[int] | None
"""Which layers: "all", a number from 1, several, or None for the model's answer as it is."""


@dataclass(frozen=True)
class Request:
    """One call's arguments, checked once.

    Attributes:
        target: What to explain.
        contrast: What to subtract.
        layers: Layers wanted.
        token_predictions: Whether to report what the head says at each token.
        info: The method's description.
        method: The method.
        settings: All its settings.

    Raises:
        MethodError: If layers are asked of a method that has none.
    """

    target: TargetSpec
    contrast: Choice | None
    layers: Layers
    token_predictions: bool | None
    info: MethodInfo
    method: Method
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        if self.layers is not None and not self.info.per_layer:
            raise MethodError(f"{self.info.name} gives no scores for single layers")


def layer_numbers(request: Request, model: TaskModel) -> tuple[int, ...]:
    """The layers asked for as numbers from 1.

    Raises:
        MethodError: If the model has no such layer.
        UnsupportedModelError: If the model's layers cannot be read.
    """
    if request.layers is None:
        return ()
    count = model.layer_count()
    if isinstance(request.layers, str):
        if request.layers != "all":
            raise MethodError(f"layers must be 'all', a number or a list of numbers, not {request.layers!r}")
        return tuple(range(1, count + 1))
    numbers = (request.layers,) if isinstance(request.layers, int) else tuple(request.layers)
    for number in numbers:
        if not 1 <= number <= count:
            raise MethodError(f"no layer {number}; the model has layers 1 to {count}")
    return numbers


def explain(model: TaskModel, run: ForwardPass, request: Request) -> list[Attribution]:
    """Explain a forward pass.

    Args:
        model: The model.
        run: Its forward pass over B texts.
        request: What is wanted.

    Returns:
        B results.
    """
    wanted = layer_numbers(request, model)
    target = resolve(model, run, request.target, request.contrast)
    gradients = getattr(request.method, "needs_grad", False)
    with torch.inference_mode(not gradients), without_autocast(run.batch.inputs):
        scores = request.method(model, run, target, wanted)  # (B, K, L, T)
    signed = getattr(request.method, "signed", request.info.signed and model.task.kind != "regression")
    batch = run.batch
    each, ids, contrast, places, said, heard = to_host(
        batch.real(scores.permute(0, 3, 1, 2)),  # (N, K, L)
        target.ids,
        target.contrast,
        _places(run),
        None if model.task.kind == "span" else top_predictions(model.task, run.logits),
        _token_predictions(model, run, request),
    )
    for values in (each, each if said is None else said[:, 0]):  # the scores, and the logits of what was predicted
        model.check_finite(values, batch)
    texts = answers(run) if said is None else predictions(model, said)
    tokens = None if heard is None else predictions(model, heard)
    infos = describe_targets(model, target, ids, contrast, places)
    results, start = [], 0
    for row, encoding in enumerate(batch.encodings):
        part = slice(start, start + len(encoding))
        own = each[part].transpose(1, 2, 0)  # (K, L, T)
        own = own if wanted else own[:, 0]
        own = own if target.labelled else own[0]
        results.append(
            Attribution(
                scores=np.array(own, np.float32, order="C"),
                **encoding.describe_targets(),
                prediction=texts[row],
                target=infos[row],
                layers=wanted or None,
                token_predictions=None if tokens is None else tokens[part],
                method=request.info.name,
                settings=request.settings,
                model=model.name,
                signed=signed,
                version=__version__,
                diagnostics=_diagnostics(run, row, target.labelled),
            )
        )
        start = part.stop
    return results


def to_host(*tensors: Tensor | None) -> list[Any]:
    """Bring tensors from the device as float32 arrays, all in one transfer.

    Args:
        *tensors: Of any shape and type; None stays None. Indices below 2^24 stay exact.
    """
    there = [t for t in tensors if t is not None and t.device.type != "cpu"]
    if not there:
        return [None if t is None else t.float().numpy() for t in tensors]
    flat = torch.cat([t.float().to(there[0].device).flatten() for t in tensors if t is not None]).cpu()
    parts = iter(flat.split([t.numel() for t in tensors if t is not None]))
    return [None if t is None else next(parts).view(t.shape).numpy() for t in tensors]


def _places(run: ForwardPass) -> Tensor | None:
    """The positions explained, counted in each text's own tokens, (B,) or (B, 2)."""
    if run.positions is None or not run.batch.padded:
        return run.positions
    before = run.batch.mask.cumsum(-1) - run.batch.mask.long()  # (B, T)
    places = before.gather(1, run.positions.reshape(len(before), -1).to(before.device))  # (B, 1) or (B, 2)
    return places.view_as(run.positions)


def _diagnostics(run: ForwardPass, row: int, labelled: bool) -> dict[str, Any]:
    """What the method measured of itself on one text: a number, or a tuple of them along the label axis."""
    found = {name: tuple(values[row].tolist()) for name, values in run.diagnostics.items()}
    return {name: values if labelled else values[0] for name, values in found.items()}


def _token_predictions(model: TaskModel, run: ForwardPass, request: Request) -> Tensor | None:
    """Return what the head says at each real token, (N, 3); by default only where that is nearly free."""
    wanted = request.token_predictions
    if wanted is False or (wanted is None and model.task.vocabulary):
        return None
    if model.task.kind in ("span", "choice"):  # these heads compare tokens or texts; one alone says nothing
        return None
    with torch.inference_mode():
        if run.token_logits is not None:
            return top_predictions(model.task, run.token_logits)
        parts = run.batch.real(run.hidden).split(256)  # a vocabulary is wide
        return torch.cat([top_predictions(model.task, model.parts.head.tokens(part)) for part in parts])  # (N, 3)
