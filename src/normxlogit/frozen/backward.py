"""The frozen backward pass: one walk of an autograd graph, which registers the rules on its nodes as hooks."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..errors import UnsupportedModelError
from .rules import LEAF, PRODUCTS, RULES, UNKNOWN, Edge, Row, held_factor
from .slopes import INPUT, INVERSE, Constant, Gradients, stem

MODULE_PATH = "normxlogit_place"
"""Key in a node's `metadata` for the module that created it, in a pass that is proved."""


class NotRecordedError(Exception):
    """The inputs of some operations are needed, were not noted, and can be in another pass."""


@contextmanager
def frozen_backward(
    outputs: Tensor | Sequence[Tensor],
    entries: Sequence[Tensor | GradientEdge],
    constant: Constant = None,
    *,
    is_recorded: bool = True,
) -> Iterator[None]:
    """Backpropagate by the rules of the frozen network inside the block, through the graph of some tensors.

    Args:
        outputs: The tensors to backpropagate from.
        entries: Where the input enters the graph.
        constant: Called in each backward pass with the products of held values and their gradients.
        is_recorded: Whether all operations of the pass were recorded.

    Raises:
        NotRecordedError: If they were not, and one needs an input that was not noted.
        UnsupportedModelError: In the backward pass, where a gradient arrives at an operation without a rule.
    """
    handles: list[Any] = []
    rules = _Walk(outputs, entries).rules
    if not is_recorded and any(stem(node) in INVERSE and INPUT not in node.metadata for node in rules):
        raise NotRecordedError
    try:
        for node, (row, held) in rules.items():
            if row is UNKNOWN:  # before it runs: a function of the model's own may fail in another way
                handles.append(node.register_prehook(partial(_refuse, node)))
            else:
                handles.append(node.register_hook(partial(_apply, node, row, held, constant)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _apply(
    node: Any, row: Row, held: Collection[int], constant: Constant, inputs: Gradients, outputs: Gradients
) -> Gradients:
    """Return what a node passes back: what its slope gives, and nothing to its held inputs."""
    gradient, slope = outputs[0], row.slope
    if slope is not None and gradient is not None:
        try:
            found = slope(node, gradient, inputs, constant)
        except AttributeError as error:  # another version of torch, or another device
            raise UnsupportedModelError(f"cannot be frozen: {stem(node)} does not save what its rule reads") from error
        inputs = (found.to(gradient.dtype), *inputs[1:]) if isinstance(found, Tensor) else found
    return tuple([None if index in held else part for index, part in enumerate(inputs)]) if held else inputs


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
    """One walk of the graph of a forward pass, which finds the rule of each node.

    Attributes:
        rules: By node, of those that need a hook, its row in the table and which inputs are held.
    """

    def __init__(self, outputs: Tensor | Sequence[Tensor], entries: Sequence[Tensor | GradientEdge]) -> None:
        self.rules: dict[Any, tuple[Row, Collection[int]]] = {}
        self._entries = {(get_gradient_edge(e) if isinstance(e, Tensor) else e).node for e in entries}
        self._input_edges: dict[Any, list[Edge]] = {}  # by node, the edges over which the input flows into it
        visited: set[Any] = {None}
        outputs = [outputs] if isinstance(outputs, Tensor) else outputs
        # Depth first. A node is visited twice: without its edges, to find them and visit the nodes that they lead to,
        # and again with them, when those nodes have been added.
        to_visit: list[tuple[Any, Sequence[Edge] | None]] = [(tensor.grad_fn, None) for tensor in outputs]
        while to_visit:
            node, edges = to_visit.pop()
            if edges is not None:
                self._add(node, edges)
            elif node not in visited and (name := stem(node)) != LEAF:
                visited.add(node)
                edges = () if node in self._entries else self._passing_edges(node, name)
                to_visit.append((node, edges))
                to_visit += [(parent, None) for parent, _ in edges]

    def _passing_edges(self, node: Any, name: str) -> Sequence[Edge]:
        """Return a node's edges to inputs that its row does not hold, and note whether it needs a hook."""
        row = RULES.get(name, UNKNOWN)
        held = row.held(node) if callable(row.held) else row.held
        if held or row.slope is not None or row is UNKNOWN:
            self.rules[node] = row, held
        edges: Sequence[Edge] = node.next_functions
        return [edge for index, edge in enumerate(edges) if index not in held] if held else edges

    def _add(self, node: Any, edges: Sequence[Edge]) -> None:
        """Add a node, whose inputs have been added: choose which factor of a product is held."""
        input_edges, entries = self._input_edges, self._entries
        from_input = [edge for edge in edges if edge[0] in input_edges or edge[0] in entries]
        if len(edges) > 1 and (name := stem(node)) in PRODUCTS and None not in (edges[-2][0], edges[-1][0]):
            left, right = edges[-2:]
            held = 1 if left in from_input else 0  # one that does not depend on the input
            if left in from_input and right in from_input:
                held = held_factor(left, right, name not in ("Mul", "Addcmul"), lambda node: input_edges.get(node, []))
            self.rules[node] = RULES[name], (len(edges) - 2 + held,)
            from_input = [edge for edge in from_input if edge is not edges[len(edges) - 2 + held]]
        if from_input:
            input_edges[node] = from_input


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
