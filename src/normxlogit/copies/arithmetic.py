"""The precision of products of float32, a setting of the process: TF32 and bfloat16 keep 10 and 7 bits of the mantissa.

Explanations are computed as the caller has set it; proofs, which compare answers to rounding, in full precision.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from .memory import reraise_out_of_memory
from .run import private_clone
from .trace import Call, trace

EPS = {"tf32": 2.0**-10, "bf16": 2.0**-7, "high": 2.0**-10, "medium": 2.0**-10, True: 2.0**-10}
"""The relative rounding of a factor, by the value of a setting that reduces the precision."""

EXCLUDED = 1e4
"""Logits below minus this are excluded outputs; some question-answering heads exclude the question's tokens so."""

_lock = threading.Lock()
_blocks = 0  # blocks of all threads that compute in full precision now
_changed: list[tuple[Callable[[Any], None], Any, Any]] = []  # as `_reduced_settings` returns them


@contextmanager
def full_float32() -> Iterator[bool]:
    """Compute float32 in full precision in the block, in all threads; yield whether the caller has set another."""
    global _blocks  # the settings are the process's
    with _lock:
        if not _blocks:
            _changed[:] = _reduced_settings(convolutions=True)
            for change, _, full in _changed:
                change(full)
        _blocks += 1
    try:
        yield bool(_changed)
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                for change, value, _ in _changed:
                    change(value)


def float32_eps() -> float:
    """Return the relative rounding of matrix products of float32 as the caller has set it."""
    return max((EPS[value] for _, value, _ in _reduced_settings()), default=torch.finfo(torch.float32).eps)


def _reduced_settings(*, convolutions: bool = False) -> list[tuple[Callable[[Any], None], Any, Any]]:
    """Return the settings that reduce precision, each how it is changed, its value, and that for full precision."""
    settings: list[tuple[Callable[[Any], None], Any, Any]] = []
    with suppress(RuntimeError):  # the older one first: it changes the newer ones; refused where they contradict it
        settings.append((torch.set_float32_matmul_precision, torch.get_float32_matmul_precision(), "highest"))
    cudnn, mkldnn = torch.backends.cudnn, torch.backends.mkldnn
    owners = [(torch.backends.cuda, "matmul"), (mkldnn, "matmul")]
    owners += [(mkldnn, "conv")] if convolutions else []
    owners += [(cudnn, "conv"), (cudnn, "rnn")] if convolutions and cudnn.is_available() else []
    switches: list[tuple[Any, str, Any]] = [
        (getattr(owner, name, None), "fp32_precision", "ieee") for owner, name in owners
    ]
    if convolutions and cudnn.is_available():
        switches.insert(0, (cudnn, "allow_tf32", False))
    for owner, name, full in switches:
        with suppress(AttributeError, RuntimeError):  # not of this version of torch
            settings.append((partial(setattr, owner, name), getattr(owner, name), full))
    return [setting for setting in settings if setting[1] in EPS]


def is_finite(values: Tensor) -> bool:
    """Return whether values hold neither NaN nor +inf, and not -inf alone, as heads exclude some outputs with -inf."""
    if not values.numel() or bool(values.sum(dtype=torch.float32).isfinite()):
        return True
    return not bool((values.isnan() | values.isposinf()).any() or values.isneginf().all())


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


def non_finite_error(
    model: nn.Module, inputs: Mapping[str, Any], calls: list[Call] | None = None
) -> UnsupportedModelError:
    """Return an error that names the module whose output first has NaN or infinity.

    Args:
        model: The model, of which a clone runs if there are no calls.
        inputs: The inputs of the pass, (B, T).
        calls: The calls of a recorded pass; None to record one.
    """
    try:
        calls = trace(private_clone(model), inputs)[0] if calls is None else calls
    except Exception as error:  # the error is raised all the same, without the module's name
        reraise_out_of_memory(error)
        calls = []
    broken_calls = [call for call in calls if _returns_non_finite(call, inputs)]
    where, cause = "in its head", "; load the model in float32 or bfloat16 if it overflows, and check its weights"
    if broken_calls:
        path = min(broken_calls, key=lambda call: call.end).path
        where = f"first in what {path or 'the model itself'} returns"
        for name, weight in model.get_submodule(path).named_parameters(recurse=False):
            if type(weight) is nn.Parameter and not weight.is_meta and not weight.isfinite().all():
                cause = f", whose {name} is not finite: the weights are broken"
    return UnsupportedModelError(f"{type(model).__name__} answers with NaN or infinite values, {where}{cause}")


def _returns_non_finite(call: Call, inputs: Mapping[str, Any]) -> bool:
    """Return whether a module returned NaN or infinity at a real token."""
    output, mask = call.output, inputs.get("attention_mask")
    if output is None or not output.is_floating_point():
        return False
    if isinstance(mask, Tensor) and mask.shape == output.shape[:2]:
        output = output[mask.bool().to(output.device)]  # values at padding do not matter
    return not is_finite(output)
