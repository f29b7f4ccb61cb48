"""The backward pass of the frozen network: the rules of `rules`, as hooks on the nodes of an autograd graph."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import UnsupportedModelError
from .graph import LEAF, Edge, nodes_of, stem
from .products import held_factor
from .rules import FACTORS, INPUT, RULES, Constant, Gradients, Rule, held_inputs, hold

PLACE = "normxlogit_place"
"""Under this name a node's `metadata` has the module that it was made in, in a pass that is proved."""


def _nowhere(_: Tensor) -> None:
    """Drop a constant: the bias is what is left of the answer."""


@contextmanager
def frozen_backward(
    outputs: Tensor | Sequence[Tensor], leaves: Sequence[Tensor], constant: Constant = _nowhere
) -> Iterator[None]:
    """Backpropagate as the frozen network does, in this block, through the graph that made some tensors.

    Args:
        outputs: What is backpropagated from.
        leaves: What the input enters the graph by.
        constant: Is given, in each backward pass, the products of held values and their gradients.

    Raises:
        UnsupportedModelError: In the backward pass, where a gradient arrives at an operation without a rule.
    """
    handles = []
    try:
        for node, rule in _rules_of(outputs, leaves):
            handles.append(node.register_hook(partial(_apply, rule, node, constant)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _apply(rule: Rule, node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Call a rule as a hook of a node."""
    with torch.no_grad():
        return rule(node, inputs, outputs, constant)


def _rules_of(outputs: Tensor | Sequence[Tensor], leaves: Sequence[Tensor]) -> Iterator[tuple[Any, Rule]]:
    """Go through a graph in the order of the forward pass, and give each node that needs one its rule."""
    entries = {torch.autograd.graph.get_gradient_edge(leaf).node for leaf in leaves}
    flow: dict[Any, list[Edge]] = {}

    def moves(edge: Edge) -> bool:
        return edge[0] in entries or bool(flow.get(edge[0]))

    def flows_into(node: Any) -> list[Edge]:
        return flow.get(node, [])

    for node in nodes_of(outputs):
        name, edges = stem(node), node.next_functions
        held = set(held_inputs(node, name))
        rule = RULES.get(name, _refuse)
        factors = FACTORS.get(name)
        if factors is not None:
            first, second, matrices = factors
            rule = None
            if len(edges) > second and edges[first][0] is not None and edges[second][0] is not None:
                factor = first
                if moves(edges[first]) and moves(edges[second]):
                    factor += (second - first) * held_factor(
                        edges[first], edges[second], matrices=matrices, flow=flows_into
                    )
                elif moves(edges[first]):
                    factor = second
                held, rule = {factor}, hold(factor)
        flow[node] = [
            edge for index, edge in enumerate(edges) if index not in held and edge[0] is not None and moves(edge)
        ]
        if node in entries:
            continue
        if rule is not None:
            yield node, rule


def has_rule(node: Any) -> bool:
    """Return whether a node's operation is known."""
    name = stem(node)
    return name in RULES or name in FACTORS or name == LEAF


def _refuse(node: Any, inputs: Gradients, outputs: Gradients, constant: Constant) -> None:
    """Refuse an operation without a rule if it matters to the answer."""
    if any(gradient is not None and (_is_batched(gradient) or bool(gradient.any())) for gradient in outputs):
        raise UnsupportedModelError(
            f"cannot be frozen: the answer depends on {stem(node)}{_place(node)}, an operation without a rule"
        )


def _is_batched(gradient: Tensor) -> bool:
    return bool(torch._C._functorch.is_batchedtensor(gradient))  # pyright: ignore[reportAttributeAccessIssue]


class NotedInputs(TorchFunctionMode):
    """Keeps the input of operations of which torch saves the output alone, on the node, as long as the graph lives."""

    _FUNCTIONS = frozenset(
        getattr(home, name)
        for home in (torch, Tensor, torch.special)
        for name in ("tanh", "sigmoid", "expm1", "expit", "log_softmax", "tanh_", "sigmoid_", "expm1_")
        if hasattr(home, name)
    ) | {torch.nn.functional.log_softmax}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch._C._set_grad_enabled:  # what a model computes without gradients is part of its answer, too
            return None
        if func not in self._FUNCTIONS:
            return func(*args, **kwargs) if kwargs else func(*args)
        x = args[0] if args else kwargs["input"]
        x = x.detach().clone() if func.__name__.endswith("_") else x.detach()
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.grad_fn is not None:
            metadata: Any = result.grad_fn.metadata
            metadata[INPUT] = x
        return result


BLOCKED = ("WarnNotImplemented", "NotImplemented")
"""Nodes of operations that have no backward pass, such as those of quantised weights."""


def operations_without_gradient(outputs: Tensor) -> list[str]:
    """Name the modules in the graph of an answer through which no gradient flows."""
    nodes = [node for node in nodes_of(outputs) if stem(node) in BLOCKED]
    return list(dict.fromkeys(f"an operation{_place(node)}" for node in nodes))


def _place(node: Any) -> str:
    """Say in which module a node was made, where it was noted."""
    path = node.metadata.get(PLACE)
    return f" in {path}" if path else ""
