"""The frozen backward pass: one walk of an autograd graph, which registers the rules on its nodes as hooks."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..errors import UnsupportedModelError
from .rules import LEAF, PRODUCTS, RULES, UNKNOWN, Edge, Row, held_factor
from .slopes import Constant, Gradients, stem

MODULE_PATH = "normxlogit_place"
"""Key in a node's `metadata` for the module that created it, in a pass that is proved."""


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
    with ExitStack() as stack:
        for node in graph.rules.keys() & graph.reached():
            row, held = graph.rules[node]
            if row is UNKNOWN:  # before it runs: a function of the model's own may fail in another way
                handle = node.register_prehook(partial(_refuse, node))
            else:
                handle = node.register_hook(partial(_apply, node, row, held, constant))
            stack.callback(handle.remove)
        yield


def _apply(
    node: Any, row: Row, held: Collection[int], constant: Constant, inputs: Gradients, outputs: Gradients
) -> Gradients:
    """Return what a node passes back: what its slope gives, and nothing to its held inputs."""
    gradient, found = outputs[0], inputs
    if row.slope is not None and gradient is not None:
        try:
            slope = row.slope(node, gradient, inputs, constant)
        except AttributeError as error:  # another version of torch, or another device
            raise UnsupportedModelError(f"cannot be frozen: {stem(node)} does not save what its rule reads") from error
        found = (slope.to(gradient.dtype), *inputs[1:]) if isinstance(slope, Tensor) else slope
    return tuple(None if index in held else part for index, part in enumerate(found)) if held else found


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
                self._passing[node] = edges = () if node in self._entries else self._edges(node, name)
                to_visit.append((node, name))
                to_visit += [(parent, "") for parent, _ in edges if parent is not None]

    def _edges(self, node: Any, name: str) -> Sequence[Edge]:
        """Return a node's edges to inputs that its row does not hold, and note whether it needs a hook."""
        row = RULES.get(name, UNKNOWN)
        held = row.held(node) if callable(row.held) else row.held
        if held or row.slope is not None or row is UNKNOWN:
            self.rules[node] = row, held
        edges: Sequence[Edge] = node.next_functions
        return [edge for index, edge in enumerate(edges) if index not in held] if held else edges

    def _add(self, node: Any, name: str) -> None:
        """Add a node, whose inputs have been added: choose which factor of a product is held."""
        edges = self._passing[node]
        if name in PRODUCTS and len(edges) > 1 and None not in (edges[-2][0], edges[-1][0]):
            held = len(edges) - 2 + self._held(edges[-2], edges[-1], matrices=name not in ("Mul", "Addcmul"))
            self.rules[node] = RULES.get(name, UNKNOWN), (held,)
            edges = self._passing[node] = [edge for index, edge in enumerate(edges) if index != held]
        if from_input := [edge for edge in edges if self._depends_on_input(edge)]:
            self._input_edges[node] = from_input

    def _depends_on_input(self, edge: Edge) -> bool:
        """Return whether an edge leads to the input."""
        return edge[0] in self._entries or edge[0] in self._input_edges

    def _held(self, left: Edge, right: Edge, *, matrices: bool) -> int:
        """Return which of two factors is held, 0 or 1: one that does not depend on the input, or by the criteria."""
        of_left, of_right = self._depends_on_input(left), self._depends_on_input(right)
        if of_left and of_right:
            return held_factor(left, right, matrices, lambda node: self._input_edges.get(node, []))
        return int(of_left)

    def reached(self) -> set[Any]:
        """Return the nodes that receive a gradient."""
        to_visit, reached = list(self._roots), set(self._roots)
        while to_visit:
            parents = {parent for parent, _ in self._passing.get(to_visit.pop(), ())} - reached - {None}
            reached |= parents
            to_visit += parents
        return reached


def operations_without_gradient(outputs: Tensor) -> list[str]:
    """Return the operations in an output's graph that have no backward pass, such as those of quantised weights."""
    descriptions, visited, waiting = dict[str, None](), set[Any]([None]), list[Any]([outputs.grad_fn])
    while waiting:
        if (node := waiting.pop()) not in visited:
            visited.add(node)
            if stem(node) in ("WarnNotImplemented", "NotImplemented"):
                descriptions[f"an operation{in_module(node)}"] = None
            waiting += [parent for parent, _ in node.next_functions]
    return list(descriptions)


def in_module(node: Any) -> str:
    """Return " in " and the path of a node's module, "" if it was not recorded."""
    path = node.metadata.get(MODULE_PATH)
    return f" in {path}" if path else ""
