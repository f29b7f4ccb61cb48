"""The frozen backward pass: one walk of an autograd graph, which registers the rules on its nodes as hooks."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..errors import UnsupportedModelError
from .products import LEAF, Edge, held_factor
from .rules import PRODUCTS, RULES, Row
from .slopes import Constant, Gradients, stem

MODULE_PATH = "normxlogit_place"
"""Key in a node's `metadata` for the module that created it, in a pass that is proved."""

UNKNOWN = Row((), "refused", "", "test_backward.py::test_what_has_no_rule_is_named_with_its_place")
"""The row of every operation that has none."""


@contextmanager
def frozen_backward(
    outputs: Tensor | Sequence[Tensor], entries: Sequence[Tensor | GradientEdge], constant: Constant = None
) -> Iterator[None]:
    """Backpropagate by the rules of the frozen network inside the block, through the graph of some tensors.

    Args:
        outputs: The tensors to backpropagate from.
        entries: Where the input enters the graph.
        constant: Called in each backward pass with the products of held values and their gradients.

    Raises:
        UnsupportedModelError: In the backward pass, where a gradient arrives at an operation without a rule.
    """
    graph = _Walk(outputs, entries)
    handles = []
    try:
        hooked = graph.rules.keys() & graph.reached()
        handles += [node.register_hook(partial(_apply, node, *graph.rules[node], constant)) for node in hooked]
        yield
    finally:
        for handle in handles:
            handle.remove()


def nodes_with_gradient(outputs: Tensor, entries: Sequence[Tensor | GradientEdge]) -> set[Any]:
    """Return the nodes that receive a gradient in a frozen backward pass."""
    return _Walk(outputs, entries).reached()


def _apply(
    node: Any, row: Row, held: Collection[int], constant: Constant, inputs: Gradients, outputs: Gradients
) -> Gradients:
    """Return what a node passes back: what its slope gives, and nothing to its held inputs."""
    found: Gradients | None = None
    if row is UNKNOWN:
        _refuse(node, outputs)
    elif row.slope is not None:
        try:
            found = row.slope(node, constant, inputs, outputs)
        except AttributeError as error:  # another version of torch, or another device
            raise UnsupportedModelError(f"cannot be frozen: {stem(node)} does not save what its rule reads") from error
    found = inputs if found is None else found
    return tuple(None if index in held else gradient for index, gradient in enumerate(found)) if held else found


def _refuse(node: Any, outputs: Gradients) -> None:
    """Refuse an operation without a rule if a non-zero gradient arrives.

    The values of a gradient that is batched (vmap) cannot be looked at, so it counts as one.
    """
    is_batched = torch._C._functorch.is_batchedtensor  # pyright: ignore[reportAttributeAccessIssue]
    if any(gradient is not None and (is_batched(gradient) or bool(gradient.any())) for gradient in outputs):
        raise UnsupportedModelError(
            f"cannot be frozen: the answer depends on {stem(node)}{in_module(node)}, an operation without a rule"
        )


class _Walk:
    """The graph of a forward pass, with the edges over which the frozen network passes gradients.

    Attributes:
        rules: By node, of those that need a hook, its row in the table and which inputs are held.
    """

    def __init__(self, outputs: Tensor | Sequence[Tensor], entries: Sequence[Tensor | GradientEdge]) -> None:
        self.rules: dict[Any, tuple[Row, Collection[int]]] = {}
        self._passing: dict[Any, Sequence[Edge]] = {}  # by node, the edges to inputs that are not held
        self._entries = {(get_gradient_edge(e) if isinstance(e, Tensor) else e).node for e in entries}
        self._input_edges: dict[Any, list[Edge]] = {}  # by node, the edges over which the input flows into it
        self._roots = [tensor.grad_fn for tensor in ([outputs] if isinstance(outputs, Tensor) else outputs)]
        # Depth first. A node is visited twice: without its name, to find its edges and visit the nodes that they lead
        # to, and again with it, when those nodes have been added.
        to_visit: list[tuple[Any, str]] = [(node, "") for node in self._roots]
        while to_visit:
            node, name = to_visit.pop()
            if name:
                self._add(node, name)
            elif node is not None and node not in self._passing and (name := stem(node)) != LEAF:
                self._passing[node] = edges = self._edges(node, name)
                to_visit.append((node, name))
                to_visit += [(parent, "") for parent, _ in edges if parent is not None]

    def _edges(self, node: Any, name: str) -> Sequence[Edge]:
        """Return a node's edges to inputs that its rule does not hold, and note that it needs a hook."""
        if node in self._entries:
            return ()
        row = RULES.get(name, UNKNOWN)
        held: Collection[int] = row.held(node) if callable(row.held) else row.held
        edges: Sequence[Edge] = node.next_functions
        if held or row.slope is not None or row is UNKNOWN:
            self.rules[node] = row, held
        return [edge for index, edge in enumerate(edges) if index not in held] if held else edges

    def _add(self, node: Any, name: str) -> None:
        """Add a node, whose inputs have been added: choose which factor of a product is held."""
        edges = self._passing[node]
        if name in PRODUCTS and (index := self._held_in_product(name, edges)) is not None:
            self.rules[node] = RULES.get(name, UNKNOWN), (index,)
            edges = self._passing[node] = [edge for other, edge in enumerate(edges) if other != index]
        if from_input := [edge for edge in edges if self._depends_on_input(edge)]:
            self._input_edges[node] = from_input

    def _depends_on_input(self, edge: Edge) -> bool:
        """Return whether an edge leads to the input."""
        return edge[0] in self._entries or edge[0] in self._input_edges

    def _held_in_product(self, name: str, edges: Sequence[Edge]) -> int | None:
        """Return which input of a product is held; None if only one factor is in the graph."""
        first, second, matrices = PRODUCTS[name]
        factors = [edges[index] for index in (first, second) if index < len(edges)]
        if len(factors) < 2 or any(node is None for node, _ in factors):
            return None
        left, right = map(self._depends_on_input, factors)
        index = 1 if left else 0
        if left and right:
            index = held_factor(*factors, matrices=matrices, input_edges=lambda node: self._input_edges.get(node, []))
        return (first, second)[index]

    def reached(self) -> set[Any]:
        """Return the nodes that receive a gradient."""
        to_visit, reached = list(self._roots), set(self._roots)
        while to_visit:
            for parent, _ in self._passing.get(to_visit.pop(), ()):
                if parent is not None and parent not in reached:
                    reached.add(parent)
                    to_visit.append(parent)
        return reached


def has_rule(node: Any) -> bool:
    """Return whether the frozen network has a rule for a node's operation, or it is a leaf."""
    name = stem(node)
    return name in RULES or name == LEAF


def operations_without_gradient(outputs: Tensor) -> list[str]:
    """Return the operations in an output's graph that have no backward pass, such as those of quantised weights."""
    descriptions, visited, waiting = dict[str, None](), set[Any](), [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if stem(node) in ("WarnNotImplemented", "NotImplemented"):
            descriptions[f"an operation{in_module(node)}"] = None
        waiting += [parent for parent, _ in node.next_functions]
    return list(descriptions)


def in_module(node: Any) -> str:
    """Return " in " and the path of a node's module, "" if it was not recorded."""
    path = node.metadata.get(MODULE_PATH)
    return f" in {path}" if path else ""
