"""The proof that a frozen pass is affine: its gradient has no gradient."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from . import frozen_maps as maps
from .proofs import EXCLUDED, proof
from .run import watch_backward

BLOCKED = ("WarnNotImplemented", "NotImplemented")
"""Nodes of operations that have no way back, such as those of quantised weights."""


@proof(
    compares="the autograd graph of the frozen pass, and operations that have no backward pass",
    tolerance="none may be there",
    why="quantised weights and activations: no gradient flows through them",
    when="first use of frozen-gradient; nothing more to compute",
)
def operations_without_gradient(nodes: Sequence[Any], places: Mapping[Any, tuple[str, str]] | None = None) -> list[str]:
    """Name the operations among the nodes of an answer through which no gradient flows."""
    names = places or {}
    operations: dict[str, None] = {}
    for node in nodes:
        if node.name().rpartition("::")[2] in BLOCKED:
            function, path = names.get(node, ("an operation", ""))
            operations[f"{function} in {path}" if path else function] = None
    return list(operations)


@proof(
    compares="the autograd graph of the frozen pass, and functions with a backward pass of their own",
    tolerance="none may be there; once more with the model's own functions run as what they are written as",
    why="a fused kernel computes a slope that depends on the input, and no second derivative shows it",
    when="first use of frozen-gradient; nothing more to compute",
)
def functions_with_their_own_backward(nodes: Sequence[Any], places: Mapping[Any, tuple[str, str]]) -> list[str]:
    """Name the custom autograd functions among the nodes of an answer.

    What such a function does forward cannot be frozen, and what its slope depends on need not show: a kernel that works
    it out leaves no trace for autograd, so that no gradient of the gradient would tell.

    Those of this package are the maps that hold.
    """
    functions: dict[str, None] = {}
    for node in nodes:
        function_class: Any = getattr(node, "_forward_cls", None) if isinstance(node, BackwardCFunction) else None
        if function_class is not None and function_class.__module__ != maps.__name__:
            _, path = places.get(node, ("", ""))
            functions[f"{function_class.__name__} in {path}" if path else function_class.__name__] = None
    return list(functions)


@proof(
    compares="the gradient of the frozen pass, and itself at any other input: it has no gradient",
    tolerance="none",
    why="the contributions add up to the answer only if the frozen pass is affine; what is not linear is named",
    when="first use of frozen-gradient; one backward pass",
)
def operations_that_are_not_linear(
    answer: Tensor, leaves: Sequence[Tensor], places: Mapping[Any, tuple[str, str]]
) -> list[str]:
    """Name the operations whose slope depends on the input, and where they were called."""
    weights = torch.randn(answer.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(answer)
    finite = answer.isfinite() & (answer.abs() < EXCLUDED)
    finite = finite if finite.any() else answer.isfinite()  # the values of a regression model may all be large
    total = (answer.masked_fill(~finite, 0.0) * weights).sum()
    slopes = torch.autograd.grad(total, leaves, create_graph=True, retain_graph=True, allow_unused=True)
    if all(slope is None for slope in slopes):
        return ["nothing flows from the input to the answer"]
    if not any(map(_flows, slopes)):
        return []
    operations: dict[str, None] = {}

    def look(node: Any, after: Any, before: Any) -> None:
        if any(map(_flows, after)) and not any(map(_flows, before)):
            function, path = places.get(node, (node.name(), ""))
            operations[f"{function} ({node.name()}) in {path or 'the model itself'}"] = None

    def work() -> None:
        torch.autograd.grad(total, leaves, create_graph=True, retain_graph=True, allow_unused=True)

    watch_backward(nodes_of(total), look, work)
    return list(operations) or ["an operation that could not be found"]


def nodes_of(tensor: Tensor) -> list[Any]:
    """List the autograd nodes that a tensor was made by."""
    nodes: dict[Any, None] = {}
    waiting = [tensor.grad_fn]
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in nodes or "AccumulateGrad" in node.name():
            continue
        nodes[node] = None
        waiting += [parent for parent, _ in node.next_functions]
    return list(nodes)


def _flows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
