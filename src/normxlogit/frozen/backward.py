"""The frozen backward pass: the rules of `rules.py` as hooks on the nodes of an autograd graph."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import UnsupportedModelError
from .products import held_factor
from .rules import FACTORS, INPUT, LEAF, RULES, Constant, Edge, Gradients, Rule, held_inputs, hold, stem

MODULE_PATH = "normxlogit_place"
"""Key in a node's `metadata` for the module that created it, in a pass that is proved."""

BACKPROPAGATED_AT_ONCE = 8
"""Quantities that are backpropagated together; each needs memory for its own gradients."""


def _ignore_constant(_: Tensor) -> None:
    """Ignore a constant; the default if the bias is not computed."""


@contextmanager
def frozen_backward(
    outputs: Tensor | Sequence[Tensor], leaves: Sequence[Tensor], constant: Constant = _ignore_constant
) -> Iterator[None]:
    """Backpropagate by the rules of the frozen network inside the block, through the graph of some tensors.

    Args:
        outputs: The tensors to backpropagate from.
        leaves: The leaves at which the input enters the graph.
        constant: Called in each backward pass with the products of held values and their gradients.

    Raises:
        UnsupportedModelError: In the backward pass, where a gradient arrives at an operation without a rule.
    """
    graph = _FrozenGraph(outputs, leaves)
    handles = []
    try:
        for node in graph.rules.keys() & graph.reached(outputs):
            rule = graph.rules[node]
            handles.append(node.register_hook(partial(rule, node, constant)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def nodes_with_gradient(outputs: Tensor | Sequence[Tensor], leaves: Sequence[Tensor]) -> set[Any]:
    """Return the nodes that receive a gradient in a frozen backward pass."""
    return _FrozenGraph(outputs, leaves).reached(outputs)


class _FrozenGraph:
    """The graph of a forward pass, with the edges over which the frozen network passes gradients.

    Attributes:
        rules: By node, of those that need one.
        gradient_edges: By node, the edges over which a gradient is passed on: to inputs that are not held.
    """

    def __init__(self, outputs: Tensor | Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
        self.rules: dict[Any, Rule] = {}
        self.gradient_edges: dict[Any, Sequence[Edge]] = {}
        self._entry_nodes = {torch.autograd.graph.get_gradient_edge(leaf).node for leaf in leaves}
        self._input_edges: dict[Any, list[Edge]] = {}  # by node, the edges over which the input flows into it
        tensors = [outputs] if isinstance(outputs, Tensor) else outputs
        # Depth first. A node is visited twice: without its name and edges, to find these and visit the nodes that they
        # lead to, and again with them, when those nodes have been added.
        to_visit: list[tuple[Any, str, Sequence[Edge] | None]] = [(tensor.grad_fn, "", None) for tensor in tensors]
        while to_visit:
            node, name, edges = to_visit.pop()
            if edges is not None:
                self._add(node, name, edges)
            elif node is not None and node not in self.gradient_edges and (name := stem(node)) != LEAF:
                edges = node.next_functions
                if held := held_inputs(node, name):  # the nodes behind these receive no gradient
                    edges = [edge for index, edge in enumerate(edges) if index not in held]
                self.gradient_edges[node] = edges
                to_visit.append((node, name, edges))
                to_visit += [(parent, "", None) for parent, _ in edges if parent is not None]

    def _add(self, node: Any, name: str, edges: Sequence[Edge]) -> None:
        """Add a node with the edges to its inputs that are not held."""
        if name in FACTORS:
            held, rule = self._held_in_product(name, edges)
            if held is not None:
                edges = self.gradient_edges[node] = [edge for index, edge in enumerate(edges) if index != held]
        else:
            rule = RULES.get(name, _refuse_unknown)
        if from_input := [edge for edge in edges if self._depends_on_input(edge)]:
            self._input_edges[node] = from_input
        if rule is not None and node not in self._entry_nodes:
            self.rules[node] = rule

    def _depends_on_input(self, edge: Edge) -> bool:
        """Return whether an edge leads to the input."""
        return edge[0] in self._entry_nodes or edge[0] in self._input_edges

    def _held_in_product(self, name: str, edges: Sequence[Edge]) -> tuple[int | None, Rule | None]:
        """Return which input of a product is held, and its rule; (None, None) if only one factor is in the graph."""
        first, second, matrices = FACTORS[name]
        factors = [edges[index] for index in (first, second) if index < len(edges)]
        if len(factors) < 2 or any(node is None for node, _ in factors):
            return None, None
        left, right = map(self._depends_on_input, factors)
        if left and right:
            index = held_factor(
                factors[0], factors[1], matrices=matrices, input_edges=lambda node: self._input_edges.get(node, [])
            )
        else:
            index = 1 if left else 0
        held = (first, second)[index]
        return held, hold(held)

    def reached(self, outputs: Tensor | Sequence[Tensor]) -> set[Any]:
        """Return the nodes that receive a gradient."""
        tensors = [outputs] if isinstance(outputs, Tensor) else outputs
        to_visit = [tensor.grad_fn for tensor in tensors]
        reached = set(to_visit)
        while to_visit:
            for parent, _ in self.gradient_edges.get(to_visit.pop(), ()):
                if parent is not None and parent not in reached:
                    reached.add(parent)
                    to_visit.append(parent)
        return reached


def has_rule(node: Any) -> bool:
    """Return whether the frozen network has a rule for a node's operation, or uses its own gradient."""
    name = stem(node)
    return name in RULES or name in FACTORS or name == LEAF


def _refuse_unknown(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> None:
    """Refuse an operation without a rule if a non-zero gradient arrives; this is the rule of all such operations.

    The values of a gradient that is batched cannot be looked at, so it counts as one.
    """
    if any(gradient is not None and (_is_batched(gradient) or bool(gradient.any())) for gradient in outputs):
        raise UnsupportedModelError(
            f"cannot be frozen: the answer depends on {stem(node)}{_in_module(node)}, an operation without a rule"
        )


def _is_batched(gradient: Tensor) -> bool:
    """Return whether a gradient is batched (vmap), so that its values cannot be inspected."""
    return bool(torch._C._functorch.is_batchedtensor(gradient))  # pyright: ignore[reportAttributeAccessIssue]


class RecordedInputs(TorchFunctionMode):
    """Records the inputs of operations for which torch saves only the output, in the metadata of their nodes."""

    _FUNCTIONS = frozenset(
        getattr(namespace, name)
        for namespace in (torch, Tensor, torch.special)
        for name in ("tanh", "sigmoid", "expm1", "expit", "log_softmax", "tanh_", "sigmoid_", "expm1_")
        if hasattr(namespace, name)
    ) | {torch.nn.functional.log_softmax, torch._C._set_grad_enabled}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in self._FUNCTIONS:
            return func(*args, **kwargs) if kwargs else func(*args)
        if func is torch._C._set_grad_enabled:  # what a model computes without gradients is part of its answer, too
            return None
        x = args[0] if args else kwargs["input"]
        x = x.detach().clone() if func.__name__.endswith("_") else x.detach()
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.grad_fn is not None:
            metadata: Any = result.grad_fn.metadata
            metadata[INPUT] = x
        return result


WITHOUT_BACKWARD = ("WarnNotImplemented", "NotImplemented")
"""Nodes of operations that have no backward pass, such as those of quantised weights."""


def operations_without_gradient(outputs: Tensor) -> list[str]:
    """Return descriptions of the operations in the graph of an output that pass no gradient on."""
    descriptions, visited, waiting = dict[str, None](), set[Any](), [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if stem(node) in WITHOUT_BACKWARD:
            descriptions[f"an operation{_in_module(node)}"] = None
        waiting += [parent for parent, _ in node.next_functions]
    return list(descriptions)


def _in_module(node: Any) -> str:
    """Return " in " and the path of a node's module, "" if it was not recorded."""
    path = node.metadata.get(MODULE_PATH)
    return f" in {path}" if path else ""
