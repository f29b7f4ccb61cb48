"""The precision of products of float32, a setting of the process: TF32 and bfloat16 keep 10 and 7 bits of the mantissa.

Explanations are computed as the caller has set it; proofs, which compare answers to rounding, in full precision.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from .memory import attempted
from .run import Inputs, private_clone
from .trace import Call, Calls, trace

EPS = {"tf32": 2.0**-10, "bf16": 2.0**-7, "high": 2.0**-10, "medium": 2.0**-10, True: 2.0**-10}
"""The relative rounding of a factor, by the value of a setting that reduces the precision; True of `allow_tf32`."""

OF_PRODUCTS = ("cuda.matmul.fp32_precision", "mkldnn.matmul.fp32_precision")
OF_CONVOLUTIONS = ("mkldnn.conv.fp32_precision",)
OF_CUDNN = ("cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision")
"""Settings of `torch.backends` for the precision of matrix products, of convolutions, and of cuDNN's."""

EXCLUDED = 1e4
"""Logits below minus this are excluded outputs; some question-answering heads exclude the question's tokens so."""

_lock = threading.Lock()
_blocks = 0  # blocks of all threads that compute in full precision now
_changed: "list[_Setting]" = []  # those that the caller has set


@contextmanager
def full_float32() -> Iterator[bool]:
    """Compute float32 in full precision in the block, in all threads; yield whether the caller has set another.

    The settings are the process's: the first of several blocks changes them, and the last one that ends restores them.
    """
    global _blocks
    with _lock:
        if not _blocks:
            _changed[:] = _reduced_settings(convolutions=True)
            for setting in _changed:
                setting.change(setting.full)
        _blocks += 1
    try:
        yield bool(_changed)
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                for setting in _changed:
                    setting.change(setting.value)


def float32_eps() -> float:
    """Return the relative rounding of matrix products of float32 as the caller has set it."""
    return max((EPS[setting.value] for setting in _reduced_settings()), default=torch.finfo(torch.float32).eps)


class _Setting(NamedTuple):
    """A setting of the process that reduces the precision of float32."""

    change: Callable[[Any], None]
    value: Any  # as the caller has set it
    full: Any  # its value for full precision


def _reduced_settings(*, convolutions: bool = False) -> list[_Setting]:
    """Return the settings that reduce precision: of matrix products, and of convolutions too."""
    settings: list[_Setting] = []
    with suppress(RuntimeError):  # the older one first: it changes the newer ones; refused where they contradict it
        value = torch.get_float32_matmul_precision()
        settings.append(_Setting(torch.set_float32_matmul_precision, value, "highest"))
    paths = [*OF_PRODUCTS, *(OF_CONVOLUTIONS if convolutions else ())]
    if convolutions and torch.backends.cudnn.is_available():
        paths = ["cudnn.allow_tf32", *paths, *OF_CUDNN]
    for path in paths:
        owner_path, name = path.rsplit(".", 1)
        with suppress(AttributeError, RuntimeError):  # not of this version of torch
            owner = attrgetter(owner_path)(torch.backends)
            full = False if name == "allow_tf32" else "ieee"
            settings.append(_Setting(partial(setattr, owner, name), getattr(owner, name), full))
    return [setting for setting in settings if setting.value in EPS]


def finite_or_excluded(values: Tensor) -> bool:
    """Return whether values are finite, but for outputs that a head excludes with -inf, which may not be all.

    Args:
        values: Logits or hidden states of any shape.
    """
    if bool(values.sum(dtype=torch.float32).isfinite()):  # one pass over the values where nothing is wrong
        return True
    is_broken = bool((values.isnan() | values.isposinf()).any())
    return not is_broken and not bool(values.isneginf().all())


def l2_norms(vectors: Tensor) -> Tensor:
    """Return the L2 norms of vectors (..., H) in float32, computed in at least that without a copy: (...)."""
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.promote_types(vectors.dtype, torch.float32))
    return norms.float()


def mean_logit(logits: Tensor) -> Tensor:
    """Return the mean of logits over the vocabulary, (..., 1), without the entries that a head excludes."""
    included = logits > -EXCLUDED
    if logits.device.type == "cpu" and bool(included.all()):  # to ask an accelerator would cost more
        return logits.mean(-1, keepdim=True)
    included = included | ~included.any(-1, keepdim=True)
    return logits.masked_fill(~included, 0).sum(-1, keepdim=True) / included.sum(-1, keepdim=True)


def log_normaliser(logits: Tensor) -> Tensor:
    """Return log sum_u exp(v_u), which log-probabilities subtract from logits: affine in the logits, at their value.

    With p = softmax(v), log sum_u exp(v_u) = sum_u p_u v_u + H(p), H the entropy. Where gradients are on, p and H(p)
    are constants of the graph: the value is exact at these logits, and so is the gradient, p, also where a frozen
    backward pass would give a logarithm none.

    Args:
        logits: v, (..., V); -inf for entries that a head excludes.

    Returns:
        (..., 1), in the precision of the logits.
    """
    normaliser = logits.detach().logsumexp(-1, keepdim=True)  # (..., 1)
    if not logits.requires_grad:
        return normaliser
    probabilities = (logits.detach() - normaliser).exp()  # (..., V)
    expected = (probabilities * logits.masked_fill(probabilities == 0, 0)).sum(-1, keepdim=True)  # (..., 1)
    entropy = normaliser - expected.detach()  # (..., 1)
    return expected + entropy


def non_finite_error(model: nn.Module, inputs: Inputs, calls: Calls | None = None) -> UnsupportedModelError:
    """Return an error that names the module whose output first has NaN or infinity.

    Args:
        model: The model, of which a clone runs if there are no calls.
        inputs: The inputs of the pass, (B, T).
        calls: The calls of a recorded pass; None to record one.
    """
    with attempted():  # the error is raised all the same, without the module's name
        calls = trace(private_clone(model), inputs)[0] if calls is None else calls
    broken_calls = [call for call in calls or () if _returns_non_finite(call, inputs)]
    where = "in its head"
    cause = "; load the model in float32 or bfloat16 if it overflows, and check its weights"
    if broken_calls:
        path = min(broken_calls, key=lambda call: call.end).path
        where = f"first in what {path or 'the model itself'} returns"
        broken_weight = _broken_weight(model.get_submodule(path))
        if broken_weight is not None:
            cause = f", whose {broken_weight} is not finite: the weights are broken"
    return UnsupportedModelError(f"{type(model).__name__} answers with NaN or infinite values, {where}{cause}")


def _broken_weight(module: nn.Module) -> str | None:
    """Return the name of a module's own weight that holds NaN or infinity, the last one; None if none does."""
    broken = None
    for name, weight in module.named_parameters(recurse=False):
        if type(weight) is nn.Parameter and not weight.is_meta and not weight.isfinite().all():
            broken = name
    return broken


def _returns_non_finite(call: Call, inputs: Inputs) -> bool:
    """Return whether a module returned NaN or infinity at a real token."""
    output, mask = call.output, inputs.get("attention_mask")
    if output is None or not output.is_floating_point():
        return False
    if isinstance(mask, Tensor) and mask.shape == output.shape[:2]:
        output = output[mask.bool().to(output.device)]  # values at padding do not matter
    return not finite_or_excluded(output)
