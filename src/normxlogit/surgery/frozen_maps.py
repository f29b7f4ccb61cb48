"""Linear maps for non-linear operations: the same value, with a constant slope.

Each forward pass is the operation's own fast kernel. Each backward pass uses what was saved and nothing that depends on
the input, so the gradient has no gradient.
"""

# torch declares backward(ctx, *grad_outputs), for any number of outputs; each function here has one.
# pyright: reportIncompatibleMethodOverride=false

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

Held = tuple[Tensor | None, Tensor | None]

SMOOTH = frozenset({"gelu", "silu", "mish", "tanh"})
"""Activations with f(0) = 0 and a slope there, which f(x) / x tends to."""

SCORES = 1 << 22
"""Attention scores that a backward pass works out at once."""


class _Ratio(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: list[Tensor], slope: Tensor, kind: str) -> Tensor:
        ctx.save_for_backward(slope)
        ctx.activation = kind  # by which `frozen_products.activated` knows the node
        return value[0]  # in a list, for autograd would make a view of an argument, which cannot be changed in place

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors
        return grad * slope, None, None, None


def off_zero(x: Tensor, kind: str) -> Tensor:
    """Replace zeros of x by a tiny number where f(x) / x has a limit.

    Args:
        x: What flows.
        kind: The activation's name.
    """
    return x.masked_fill(x == 0, torch.finfo(x.dtype).tiny * 1024) if kind in SMOOTH else x


def ratio(x: Tensor, value: Tensor, kind: str) -> Tensor:
    """Return `value` = f(x), with the constant slope f(x) / x.

    Args:
        x: What flows.
        value: What the activation makes of it, of the same shape; of smooth activations of x `off_zero`.
        kind: The activation's name.
    """
    with torch.no_grad():
        slope = value / off_zero(x, kind)
        slope.nan_to_num_(0.0, 0.0, 0.0)  # at zero alone: a wider gap would turn rounding into a jump
    result: Tensor = _Ratio.apply(x, [value], slope, kind)  # type: ignore[no-untyped-call]
    return result


class _Shifted(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: list[Tensor]) -> Tensor:
        return value[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


def shifted(x: Tensor, value: Tensor) -> Tensor:
    """Return `value`, which differs from x by a held constant, such as the normaliser of a log-softmax."""
    result: Tensor = _Shifted.apply(x, [value])  # type: ignore[no-untyped-call]
    return result


class _LayerNorm(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Tensor:
        value, _, rstd = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(rstd, weight)
        ctx.axes = tuple(range(-len(shape), 0))
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        rstd, weight = ctx.saved_tensors
        kind = grad.dtype
        grad = grad * rstd if weight is None else grad * weight * rstd
        return (grad - grad.mean(ctx.axes, keepdim=True)).to(kind), None, None, None, None


def layer_norm(x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Normalise with the standard deviation held; gradients flow through the mean."""
    result: Tensor = _LayerNorm.apply(x, list(shape), weight, bias, eps)  # type: ignore[no-untyped-call]
    return result


def rms_norm(x: Tensor, shape: list[int], weight: Tensor | None, eps: float | None) -> Tensor:
    """Normalise by the root mean square, held."""
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    with torch.no_grad():
        scale = wide.pow(2).mean(tuple(range(-len(shape), 0)), keepdim=True).add_(eps).rsqrt_()
    result = (wide * scale).to(x.dtype)
    return result if weight is None else result * weight


def grouped_norm(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Normalise each group of channels with its standard deviation held; gradients flow through the mean.

    Args:
        x: (B, C, ...).
        groups: The number of groups; C of them for an instance norm.
        weight: (C,).
        bias: (C,).
        eps: Added to the variance.
    """
    rows = x.reshape(len(x), groups, -1)  # (B, G, N)
    with torch.no_grad():
        scale = torch.rsqrt(rows.var(-1, correction=0, keepdim=True) + eps)  # (B, G, 1)
    result = ((rows - rows.mean(-1, keepdim=True)) * scale).reshape(x.shape)  # (B, C, ...)
    wide = (1, -1) + (1,) * (x.ndim - 2)
    result = result if weight is None else result * weight.reshape(wide)
    return result if bias is None else result + bias.reshape(wide)


class _Local(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.enable_grad():
            ctx.leaf = x.detach().requires_grad_()
            ctx.value = run(ctx.leaf)
        value: Tensor = ctx.value.detach()
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # Where the gradient itself has a gradient, it must go on: else what is not linear above would be hidden.
        (slope,) = torch.autograd.grad(
            ctx.value, ctx.leaf, grad, retain_graph=True, create_graph=grad.requires_grad and torch.is_grad_enabled()
        )
        return slope, None


def local(x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """Run an operation that is linear, or linear for a held choice (max-pooling), whose backward in torch reads x."""
    result: Tensor = _Local.apply(x, run)  # type: ignore[no-untyped-call]
    return result


class _Measured(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, leaf: Tensor, width: tuple[int, ...], held: Callable[[], Held]) -> Tensor:
        ctx.save_for_backward(x.detach())
        ctx.width, ctx.held = width, held
        return x.clone()  # some models work on it in place

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        (x,), (direction, detached) = ctx.saved_tensors, ctx.held()
        share = (grad.float() * (x if direction is None else direction).float()).sum(ctx.width)
        if not ctx.needs_input_grad[0]:
            return None, share, None, None
        return grad if detached is None else grad.masked_fill(detached, 0.0), share, None, None


def measured(x: Tensor, leaf: Tensor, width: tuple[int, ...], held: Callable[[], Held]) -> Tensor:
    """Return x itself, with <gradient, x> as the gradient of a leaf.

    Args:
        x: What flows.
        leaf: Of the shape of x without its axes `width`.
        width: The axes that the product is summed over.
        held: Asked in each backward pass: what the gradient is multiplied by in the place of x, and where no gradient
            goes on to x, of the shape of x with one for its width; None for neither.
    """
    result: Tensor = _Measured.apply(x, leaf, width, held)  # type: ignore[no-untyped-call]
    return result


class _Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, settings: tuple[Any, ...], run: Callable[[], Tensor]) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.settings, ctx.like = settings, (x.shape, x.dtype, x.device)
        return run()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = ctx.saved_tensors
        shape, kind, device = ctx.like
        blank = torch.empty(1, dtype=kind, device=device).expand(shape)  # only its shape is read
        gradients = torch.ops.aten.convolution_backward(grad, blank, weight, None, *ctx.settings, [True, False, False])
        return gradients[0], None, None, None


def convolved(x: Tensor, weight: Tensor, settings: tuple[Any, ...], run: Callable[[], Tensor]) -> Tensor:
    """Convolve with a custom backward pass: torch's own reads x, on which the gradient does not depend.

    Args:
        x: (B, C, ...).
        weight: The kernel.
        settings: Stride, padding, dilation, transposed, output padding and groups.
        run: Gives the value.
    """
    result: Tensor = _Convolution.apply(x, weight, settings, run)  # type: ignore[no-untyped-call]
    return result


class _Attended(Function):
    @staticmethod
    def forward(ctx: Any, v: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, options: dict[str, Any]) -> Tensor:
        ctx.save_for_backward(q, k, mask)
        ctx.options, ctx.shape = options, v.shape
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        q, k, mask = ctx.saved_tensors
        heads, length = q.shape[-3] if q.ndim > 3 else 1, k.shape[-2]
        step = max(1, SCORES // max(1, math.prod(q.shape[:-2]) * length))
        gradient: Any = 0
        for start in range(0, q.shape[-2], step):
            part = slice(start, min(start + step, q.shape[-2]))
            key_count = (
                min(part.stop, length) if ctx.options.get("is_causal") else length
            )  # keys that these queries see
            held = _mask_part(key_count, mask, ctx.options, part, q.device)
            weights = _attention(q[..., part, :], k[..., :key_count, :], held, ctx.options)
            rows = grad if step >= q.shape[-2] else grad.narrow(-2, start, weights.shape[-2])
            share = weights.transpose(-2, -1) @ rows  # (..., seen, D)
            gradient = gradient + (
                share if key_count == length else torch.nn.functional.pad(share, (0, 0, 0, length - key_count))
            )
        if gradient.ndim > 3 and gradient.shape[-3] != ctx.shape[-3]:  # heads that share their keys and values
            gradient = gradient.reshape(
                *gradient.shape[:-3], ctx.shape[-3], heads // ctx.shape[-3], *gradient.shape[-2:]
            ).sum(-3)
        if gradient.shape != ctx.shape:
            gradient = gradient.sum_to_size(ctx.shape)
        return gradient, None, None, None, None


def _mask_part(
    key_count: int, mask: Tensor | None, options: dict[str, Any], part: slice, device: torch.device
) -> Tensor | None:
    """Return the rows of an attention mask for some queries, over the first `key_count` keys."""
    if options.get("is_causal"):
        return torch.arange(part.start, part.stop, device=device)[:, None] >= torch.arange(key_count, device=device)
    return mask if mask is None or mask.shape[-2] == 1 else mask[..., part, :]


def _attention(q: Tensor, k: Tensor, mask: Tensor | None, options: dict[str, Any]) -> Tensor:
    """Recompute attention weights, (..., T, S)."""
    scale = options.get("scale")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if q.ndim > 3 and k.shape[-3] != q.shape[-3]:
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    scores = (q * scale) @ k.transpose(-2, -1)  # (..., T, S)
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf) if mask.dtype == torch.bool else scores + mask
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype)
    if mask is not None:
        weights = weights.nan_to_num()  # a row without anything to attend to
    return weights


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, options: dict[str, Any]) -> Tensor:
    """Attend with the fused kernel; backpropagate through the values only, with recomputed attention weights.

    Args:
        q: (..., T, D).
        k: (..., S, D).
        v: (..., S, D).
        mask: Boolean or added, (..., T, S).
        options: The kernel's other arguments.
    """
    result: Tensor = _Attended.apply(v, q, k, mask, options)  # type: ignore[no-untyped-call]
    return result
