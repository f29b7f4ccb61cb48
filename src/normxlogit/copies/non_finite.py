"""Locate the first NaN or infinity in a forward pass."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..errors import UnsupportedModelError
from .memory import refuse_to_hide
from .pool import private_clone
from .trace import Call, tensor_of, trace

EXCLUDED = 1e4
"""Logits beyond this are no answer: some heads push the question's tokens out of a reader's choice like that."""


def is_finite(values: Tensor) -> bool:
    """Return whether values hold neither NaN nor +inf; heads exclude answers with -inf, but not all of them."""
    if not values.numel() or bool(values.sum(dtype=torch.float32).isfinite()):
        return True
    return not bool((values.isnan() | values.isposinf()).any() or values.isneginf().all())


def mean_logit(logits: Tensor) -> Tensor:
    """Return the mean of logits over the vocabulary, (..., 1), without the entries that a head excludes.

    Heads exclude an entry with -inf or a number so low that the others are lost in the rounding of their mean with it.
    """
    kept = logits > -EXCLUDED
    if bool(kept.all()):
        return logits.mean(-1, keepdim=True)
    kept = kept | ~kept.any(-1, keepdim=True)
    return logits.masked_fill(~kept, 0).sum(-1, keepdim=True) / kept.sum(-1, keepdim=True)


def non_finite_error(model: PreTrainedModel, inputs: Mapping[str, Any]) -> UnsupportedModelError:
    """Return an error that names the module whose output first has NaN or infinity."""
    try:
        calls, _ = trace(private_clone(model), inputs)
    except Exception as error:  # the error is raised all the same, without the module's name
        refuse_to_hide(error)
        calls = []
    return not_finite(model, calls, inputs)


def not_finite(model: nn.Module, calls: list[Call], inputs: Mapping[str, Any]) -> UnsupportedModelError:
    """Return the error for calls that were traced already."""
    first = min((call for call in calls if _spoiled(call, inputs)), key=lambda call: call.end, default=None)
    where = "in its head" if first is None else f"first in what {first.path or 'the model itself'} returns"
    cause = "; load the model in float32 or bfloat16 if it overflows, and check its weights"
    if first is not None:
        weights = dict(model.get_submodule(first.path).named_parameters(recurse=False))
        bad = next((name for name, weight in weights.items() if not weight.is_meta and not _finite(weight)), None)
        if bad is not None:
            cause = f", whose {bad} is not finite: the weights are broken"
    return UnsupportedModelError(f"{type(model).__name__} answers with NaN or infinite values, {where}{cause}")


def _spoiled(call: Call, inputs: Mapping[str, Any]) -> bool:
    output, mask = tensor_of(call.returned), inputs.get("attention_mask")
    if output is None or not output.is_floating_point():
        return False
    if isinstance(mask, Tensor) and mask.shape == output.shape[:2]:
        output = output[mask.bool().to(output.device)]  # values at padding do not matter
    return not is_finite(output)


def _finite(weight: Tensor) -> bool:
    try:
        return bool(weight.isfinite().all())
    except (RuntimeError, NotImplementedError):  # not implemented for quantised weights
        return True
