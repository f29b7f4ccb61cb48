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
    walk = _Walk(outputs, leaves)
    handles = []
    try:
        for node in walk.rules.keys() & walk.reached(outputs):
            rule = walk.rules[node]
            handles.append(node.register_hook(partial(_apply, rule, node, constant)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def nodes_with_gradient(outputs: Tensor | Sequence[Tensor], leaves: Sequence[Tensor]) -> set[Any]:
    """Return the nodes that a frozen backward pass gives a gradient."""
    return _Walk(outputs, leaves).reached(outputs)


def _apply(rule: Rule, node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Call a rule as a hook of a node."""
    with torch.no_grad():
        return rule(node, inputs, outputs, constant)


class _Walk:
    """A graph in the order of the forward pass.

    Attributes:
        rules: Of the nodes that need one.
        passed: By node, the edges over which a gradient is passed on: to inputs that are not held.
    """

    def __init__(self, outputs: Tensor | Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
        self.rules: dict[Any, Rule] = {}
        self.passed: dict[Any, list[Edge]] = {}
        entries = {torch.autograd.graph.get_gradient_edge(leaf).node for leaf in leaves}
        flow: dict[Any, list[Edge]] = {}  # the edges over which the input flows, into nodes that it flows into

        def flows_into(node: Any) -> list[Edge]:
            return flow.get(node, [])

        for node in nodes_of(outputs):
            name, edges = stem(node), node.next_functions
            held = held_inputs(node, name)
            rule = RULES.get(name, _refuse)
            if name in FACTORS:
                first, second, matrices = FACTORS[name]
                held, rule = (), None
                factors = [edges[index] for index in (first, second) if index < len(edges)]
                if len(factors) == 2 and all(factor[0] is not None for factor in factors):
                    moving = [factor[0] in entries or factor[0] in flow for factor in factors]
                    index = int(moving[0] and not moving[1])
                    if all(moving):
                        index = held_factor(factors[0], factors[1], matrices=matrices, flow=flows_into)
                    held, rule = ((first, second)[index],), hold((first, second)[index])
            passed = [edge for index, edge in enumerate(edges) if index not in held and edge[0] is not None]
            moving_edges = [edge for edge in passed if edge[0] in entries or edge[0] in flow]
            if moving_edges:
                flow[node] = moving_edges
            self.passed[node] = passed
            if rule is not None and node not in entries:
                self.rules[node] = rule

    def reached(self, outputs: Tensor | Sequence[Tensor]) -> set[Any]:
        """Return the nodes that a gradient arrives at."""
        tensors = [outputs] if isinstance(outputs, Tensor) else outputs
        waiting = [tensor.grad_fn for tensor in tensors]
        reached = set(waiting)
        while waiting:
            for parent, _ in self.passed.get(waiting.pop(), ()):
                if parent not in reached:
                    reached.add(parent)
                    waiting.append(parent)
        return reached


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
