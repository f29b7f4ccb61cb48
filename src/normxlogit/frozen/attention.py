"""Fused attention whose weights are held: a backward pass that computes the gradient of the values alone.

Torch's own computes those of queries and keys with it, two fifths of its work for one, and they would be dropped.
"""

# torch declares backward(ctx, *grad_outputs), for any number of outputs; the function here has one.
# pyright: reportIncompatibleMethodOverride=false

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

ELEMENTS = 1 << 22
"""Most attention weights that are computed at once."""


def held_attention(
    attend: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attend as `torch.nn.functional.scaled_dot_product_attention`, which is given; with its own arguments."""

    def call() -> Tensor:
        return attend(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    # Kernels of other devices write no attention weights, which would be more than is saved.
    if not value.requires_grad or query.ndim != 4 or dropout_p or value.device.type != "cpu":
        return call()
    held = (part if part is None else part.detach() for part in (query, key, attn_mask))
    return _ValuesFlow.apply(value, *held, is_causal, scale, call)  # type: ignore[no-any-return, no-untyped-call]


class _ValuesFlow(Function):
    """Attention weights @ values, the weights a constant."""

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        causal: bool,
        scale: float | None,
        call: Callable[[], Tensor],
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, mask)
        ctx.causal, ctx.scale, ctx.heads = causal, scale or query.shape[-1] ** -0.5, value.shape[1]
        return call()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return (None,) * 7
        query, key, mask = ctx.saved_tensors  # (B, N, T, D), (B, N', S, D), (B or 1, N or 1, T, S)
        (texts, heads, rows, _), columns = query.shape, key.shape[2]
        if ctx.causal:
            mask = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril()
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -torch.inf)
        mask = None if mask is None else mask.expand(texts, heads, rows, columns)
        key = key.repeat_interleave(heads // key.shape[1], 1)  # (B, N, S, D)
        size = max(1, ELEMENTS // (texts * rows * columns))
        masks = itertools.repeat(None) if mask is None else mask.split(size, 1)
        parts = []
        for q, k, m, g in zip(query.split(size, 1), key.split(size, 1), masks, gradient.split(size, 1), strict=False):
            weights = (q * ctx.scale) @ k.transpose(-2, -1)  # (B, n, T, S)
            weights = (weights if m is None else weights.add_(m)).softmax(-1)
            if not ctx.causal and m is not None:
                weights.nan_to_num_(0.0)  # of a token that attends to none
            parts.append(weights.transpose(-2, -1) @ g)  # (B, n, S, D)
        slope = torch.cat(parts, 1) if len(parts) > 1 else parts[0]  # (B, N, S, D)
        shape = (texts, ctx.heads, heads // ctx.heads, columns, slope.shape[-1])
        return (slope.reshape(shape).sum(2), *(None,) * 6)  # (B, N', S, D)
