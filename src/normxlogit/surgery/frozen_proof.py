"""The proof that what a frozen pass gives is affine: the gradient has no gradient."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from . import frozen_maps as maps
from .proofs import EXCLUDED
from .run import watch_backward

__all__ = ["blocking", "hiding", "nonlinear"]

BLOCKED = ("WarnNotImplemented", "NotImplemented")
"""Nodes of operations that have no way back, such as those of quantised weights."""


def blocking(answer: Tensor, places: Mapping[Any, tuple[str, str]] | None = None) -> list[str]:
    """Name the operations on the way to an answer through which no gradient flows.

    Args:
        answer: What was worked out, with its graph.
        places: Function and module by node, where they are known.
    """
    known = places or {}
    found: dict[str, None] = {}
    for node in _nodes(answer):
        if node.name().rpartition("::")[2] in BLOCKED:
            function, path = known.get(node, ("an operation", ""))
            found[f"{function} in {path}" if path else function] = None
    return list(found)


def hiding(answer: Tensor, places: Mapping[Any, tuple[str, str]]) -> list[str]:
    """Name the functions on the way to an answer that bring a backward of their own.

    What such a function does forward cannot be frozen, and what its slope depends on need not show: a kernel that works
    it out leaves no trace for autograd, so that no gradient of the gradient would tell.

    Those of this package are the maps that hold.

    Args:
        answer: What was worked out, with its graph.
        places: Function and module by node.
    """
    found: dict[str, None] = {}
    for node in _nodes(answer):
        own: Any = getattr(node, "_forward_cls", None) if isinstance(node, BackwardCFunction) else None
        if own is not None and own.__module__ != maps.__name__:
            _, path = places.get(node, ("", ""))
            found[f"{own.__name__} in {path}" if path else own.__name__] = None
    return list(found)


def nonlinear(answer: Tensor, leaf: Tensor, places: dict[Any, tuple[str, str]]) -> list[str]:
    """Name the operations whose slope depends on the input, and where they were called."""
    weights = torch.randn(answer.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(answer)
    kept = answer.isfinite() & (answer.abs() < EXCLUDED)
    kept = kept if kept.any() else answer.isfinite()  # the values of a regression model may all be large
    total = (answer.masked_fill(~kept, 0.0) * weights).sum()
    (slope,) = torch.autograd.grad(total, leaf, create_graph=True, retain_graph=True, allow_unused=True)
    if slope is None:
        return ["nothing flows from the input to the answer"]
    if not slope.requires_grad:
        return []
    found: dict[str, None] = {}

    def look(node: Any, after: Any, before: Any) -> None:
        if any(map(_flows, after)) and not any(map(_flows, before)):
            function, path = places.get(node, (node.name(), ""))
            found[f"{function} ({node.name()}) in {path or 'the model itself'}"] = None

    def work() -> None:
        torch.autograd.grad(total, leaf, create_graph=True, allow_unused=True)

    watch_backward(_nodes(total), look, work)
    return list(found) or ["an operation that could not be found"]


def _nodes(tensor: Tensor) -> list[Any]:
    """List the autograd nodes that a tensor was made by."""
    found: dict[Any, None] = {}
    waiting = [tensor.grad_fn]
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in found or "AccumulateGrad" in node.name():
            continue
        found[node] = None
        waiting += [parent for parent, _ in node.next_functions]
    return list(found)


def _flows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
