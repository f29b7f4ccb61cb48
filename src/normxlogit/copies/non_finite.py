"""Locate the first NaN or infinity in a forward pass."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from .memory import reraise_out_of_memory
from .run import private_clone, tensor_of
from .trace import Call, trace

EXCLUDED = 1e4
"""Logits below minus this are excluded outputs; some question-answering heads exclude the question's tokens so."""


def is_finite(values: Tensor) -> bool:
    """Return whether values hold neither NaN nor +inf, and not -inf alone, as heads exclude some outputs with -inf."""
    if not values.numel() or bool(values.sum(dtype=torch.float32).isfinite()):
        return True
    return not bool((values.isnan() | values.isposinf()).any() or values.isneginf().all())


def mean_logit(logits: Tensor) -> Tensor:
    """Return the mean of logits over the vocabulary, (..., 1), without the entries that a head excludes."""
    included = logits > -EXCLUDED
    if logits.device.type == "cpu" and bool(included.all()):  # to ask an accelerator would cost more
        return logits.mean(-1, keepdim=True)
    included = included | ~included.any(-1, keepdim=True)
    return logits.masked_fill(~included, 0).sum(-1, keepdim=True) / included.sum(-1, keepdim=True)


def non_finite_error(
    model: nn.Module, inputs: Mapping[str, Any], calls: list[Call] | None = None
) -> UnsupportedModelError:
    """Return an error that names the module whose output first has NaN or infinity, in recorded calls or a new pass."""
    try:
        calls = trace(private_clone(model), inputs)[0] if calls is None else calls
    except Exception as error:  # the error is raised all the same, without the module's name
        reraise_out_of_memory(error)
        calls = []
    first_call = min(
        (call for call in calls if _returns_non_finite(call, inputs)), key=lambda call: call.end, default=None
    )
    where = "in its head" if first_call is None else f"first in what {first_call.path or 'the model itself'} returns"
    cause = "; load the model in float32 or bfloat16 if it overflows, and check its weights"
    if first_call is not None:
        for name, weight in model.get_submodule(first_call.path).named_parameters(recurse=False):
            if type(weight) is nn.Parameter and not weight.is_meta and not weight.isfinite().all():
                cause = f", whose {name} is not finite: the weights are broken"
    return UnsupportedModelError(f"{type(model).__name__} answers with NaN or infinite values, {where}{cause}")


def _returns_non_finite(call: Call, inputs: Mapping[str, Any]) -> bool:
    """Return whether a module returned NaN or infinity at a real token."""
    output, mask = tensor_of(call.returned), inputs.get("attention_mask")
    if output is None or not output.is_floating_point():
        return False
    if isinstance(mask, Tensor) and mask.shape == output.shape[:2]:
        output = output[mask.bool().to(output.device)]  # values at padding do not matter
    return not is_finite(output)
