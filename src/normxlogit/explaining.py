"""From a forward pass and a question to attributions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ._version import __version__
from .attribution import Attribution, Prediction
from .errors import MethodError
from .methods.registry import Method, MethodInfo
from .modeling.forward import ForwardPass, TaskModel
from .targets import Choice, TargetSpec, answers, predictions, resolve

__all__ = ["Asked", "Layers", "explain", "layer_numbers"]

Layers = str | int | Sequence[int] | None
"""Which layers: "all", a number from 1, several, or None for the model's answer as it is."""


@dataclass(frozen=True)
class Asked:
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


def layer_numbers(asked: Asked, model: TaskModel) -> tuple[int, ...]:
    """The layers asked for as numbers from 1.

    Raises:
        MethodError: If the model has no such layer.
        UnsupportedModelError: If the model's layers cannot be read.
    """
    if asked.layers is None:
        return ()
    count = model.layer_count()
    if isinstance(asked.layers, str):
        if asked.layers != "all":
            raise MethodError(f"layers must be 'all', a number or a list of numbers, not {asked.layers!r}")
        return tuple(range(1, count + 1))
    numbers = (asked.layers,) if isinstance(asked.layers, int) else tuple(asked.layers)
    for number in numbers:
        if not 1 <= number <= count:
            raise MethodError(f"no layer {number}; the model has layers 1 to {count}")
    return numbers


def explain(model: TaskModel, run: ForwardPass, asked: Asked) -> list[Attribution]:
    """Explain a forward pass.

    Args:
        model: The model.
        run: Its forward pass over B texts.
        asked: What is wanted.

    Returns:
        B results.
    """
    wanted = layer_numbers(asked, model)
    target = resolve(model, run, asked.target, asked.contrast)
    with torch.inference_mode(not getattr(asked.method, "needs_grad", False)):
        scores = asked.method(model, run, target, wanted)  # (B, K, L, T)
    signed = getattr(asked.method, "signed", asked.info.signed and model.task.kind != "regression")
    said = answers(run) if model.task.kind == "span" else predictions(model, run.logits)
    heard = _token_predictions(model, run, asked)
    table = scores.float().cpu().numpy()
    mask = run.batch.mask.cpu()
    results = []
    for row, encoding in enumerate(run.batch.encodings):
        own = table[row][..., mask[row].numpy()]  # (K, L, T)
        own = own if wanted else own[:, 0]
        own = own if target.labelled else own[0]
        results.append(
            Attribution(
                scores=np.ascontiguousarray(own, dtype=np.float32),
                tokens=encoding.tokens,
                token_ids=tuple(encoding.ids),
                offsets=encoding.offsets,
                word_ids=encoding.word_ids,
                sequence_ids=encoding.sequence_ids,
                special_tokens_mask=encoding.special,
                text=encoding.text,
                text_pair=encoding.text_pair,
                prediction=said[row],
                target=target.info(row, mask),
                layers=wanted or None,
                token_predictions=heard[row] if heard else None,
                method=asked.info.name,
                settings=asked.settings,
                model=model.name,
                signed=signed,
                notes=encoding.notes,
                version=__version__,
                diagnostics=_diagnostics(run, row, target.labelled),
            )
        )
    return results


def _diagnostics(run: ForwardPass, row: int, labelled: bool) -> dict[str, Any]:
    """What the method measured of itself on one text: a number, or a tuple of them along the label axis."""
    found = {name: tuple(values[row].tolist()) for name, values in run.diagnostics.items()}
    return {name: values if labelled else values[0] for name, values in found.items()}


def _token_predictions(model: TaskModel, run: ForwardPass, asked: Asked) -> list[tuple[Prediction, ...]]:
    """What the head says at each token; by default only where that costs nothing to speak of."""
    wanted = asked.token_predictions
    if wanted is False or (wanted is None and model.task.vocabulary):
        return []
    if model.task.kind in ("span", "choice"):  # these heads compare tokens or texts; one alone says nothing
        return []
    mask = run.batch.mask
    if run.token_logits is not None:
        said = predictions(model, run.token_logits)
    else:
        said = []
        with torch.inference_mode():
            for part in run.hidden[mask].split(256):  # a vocabulary is wide
                said += predictions(model, model.anatomy.head.tokens(part))
    rows, start = [], 0
    for count in mask.sum(-1).tolist():
        rows.append(tuple(said[start : start + count]))
        start += count
    return rows
