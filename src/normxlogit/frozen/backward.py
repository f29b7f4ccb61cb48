"""The frozen backward pass: one walk of an autograd graph, which registers the rules on its nodes as hooks."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..errors import UnsupportedModelError
from .products import Edge, held_factor
from .rules import ELEMENTWISE_PRODUCTS, LEAF, PRODUCTS, RULES, UNKNOWN, Row
from .slopes import INPUT, INVERSE, Constant, Gradients, stem

MODULE_PATH = "normxlogit_place"
"""Key in a node's `metadata` for the module that created it, in a pass that is proved."""

NO_GRADIENT = (
    "the model cannot be frozen: no gradient flows through {}, as where weights and activations are quantised; load it "
    "in another precision, or use a method without gradients"
)


class NotRecordedError(Exception):
    """The inputs of some operations are needed, were not noted, and can be in another pass."""


class NodeRule(NamedTuple):
    """What a node of the graph passes back."""

    row: Row
    held: Collection[int]  # the inputs that are held


@contextmanager
def frozen_backward(
    output: Tensor, entries: Sequence[Tensor | GradientEdge], constant: Constant = None, *, is_recorded: bool = True
) -> Iterator[None]:
    """Backpropagate by the rules of the frozen network in the block.

    Args:
        output: What is backpropagated, of any shape, with its graph.
        entries: Where the input enters the graph: leaves, or their edges.
        constant: Called with held values times their gradients, which are part of the answer; None to leave them out.
        is_recorded: Whether the whole pass was recorded, so that inputs that are not known cannot be known.

    Raises:
        NotRecordedError: If the rules need inputs that were not recorded, and can be.
        UnsupportedModelError: If no gradient flows, or one arrives at an operation without a rule.
    """
    if not output.requires_grad:
        raise UnsupportedModelError(NO_GRADIENT.format("any of its operations"))
    walk = _GraphWalk(entries)
    handles = list[Any]()
    walk.visit_all(output)
    if not is_recorded and any(stem(node) in INVERSE and INPUT not in node.metadata for node in walk.rules):
        raise NotRecordedError
    try:
        for node, rule in walk.rules.items():
            handles.append(_register(node, rule, constant))
        yield
    except RuntimeError as error:
        if "inplace" not in str(error):
            raise
        raise UnsupportedModelError("the model cannot be frozen: it writes on what its backward pass needs") from error
    finally:
        for handle in handles:
            handle.remove()


def _register(node: Any, rule: NodeRule, constant: Constant) -> Any:
    """Register the rule of a node as a hook; return what removes it."""
    if rule.row is UNKNOWN:  # before it runs: a function of the model's own may fail in another way
        return node.register_prehook(partial(_refuse, node))
    return node.register_hook(partial(_apply, node, *rule, constant))


def _apply(
    node: Any, row: Row, held: Collection[int], constant: Constant, inputs: Gradients, outputs: Gradients
) -> Gradients:
    """Return what a node passes back: what its slope gives, and nothing to its held inputs."""
    gradient = outputs[0]
    slope = row.slope
    if slope is not None and gradient is not None:
        try:
            passed = slope(node, gradient, inputs, constant)
        except AttributeError as error:  # another version of torch, or another device
            raise UnsupportedModelError(
                f"the model cannot be frozen: {stem(node)} does not save what its rule reads"
            ) from error
        inputs = (passed.to(gradient.dtype), *inputs[1:]) if isinstance(passed, Tensor) else passed
    if not held:
        return inputs
    return tuple([None if index in held else part for index, part in enumerate(inputs)])


def _refuse(node: Any, outputs: Gradients) -> None:
    """Refuse an operation without a rule if a gradient arrives that is not zero, or batched: it cannot be looked at."""
    is_batched = torch._C._functorch.is_batchedtensor  # pyright: ignore[reportAttributeAccessIssue]
    if any(gradient is not None and (is_batched(gradient) or bool(gradient.any())) for gradient in outputs):
        path = node.metadata.get(MODULE_PATH)
        place = f" in {path}" if path else ""
        if stem(node) in ("WarnNotImplemented", "NotImplemented"):
            raise UnsupportedModelError(NO_GRADIENT.format(f"an operation{place}"))
        raise UnsupportedModelError(
            f"the model cannot be frozen: the answer depends on {stem(node)}{place}, an operation without a rule"
        )


class _GraphWalk:
    """The rules of the nodes of a graph, found in one walk, depth first.

    A node is visited twice: first to find its edges and visit the nodes that they lead to, and again when it is known
    which of those nodes the input reaches.
    """

    def __init__(self, entries: Sequence[Tensor | GradientEdge]) -> None:
        edges = [get_gradient_edge(entry) if isinstance(entry, Tensor) else entry for entry in entries]
        # By node that the input reaches, the edges over which it does.
        self.input_edges: dict[Any, list[Edge]] = {edge.node: [] for edge in edges}
        self.rules: dict[Any, NodeRule] = {}  # of nodes that need a hook

    def visit_all(self, output: Tensor) -> None:
        """Find the rules of all nodes from an output to the entries."""
        visited: set[Any] = {None, *self.input_edges}
        to_visit: list[tuple[Any, Sequence[Edge] | None]] = [(output.grad_fn, None)]  # with edges at the second visit
        while to_visit:
            node, edges = to_visit.pop()
            if edges is not None:
                self._after_its_inputs(node, edges)
            elif node not in visited and stem(node) != LEAF:
                visited.add(node)
                passing = self._before_its_inputs(node)
                to_visit.append((node, passing))
                to_visit += [(parent, None) for parent, _ in passing]

    def _before_its_inputs(self, node: Any) -> Sequence[Edge]:
        """Add the rule of a node; return the edges over which it passes gradients."""
        row = RULES.get(stem(node), UNKNOWN)
        held = row.held(node) if callable(row.held) else row.held
        if held or row.slope is not None or row is UNKNOWN:
            self.rules[node] = NodeRule(row, held)
        return [edge for index, edge in enumerate(node.next_functions) if index not in held]

    def _after_its_inputs(self, node: Any, edges: Sequence[Edge]) -> None:
        """Choose the held factor of a product of two tensors; note over which edges the input reaches a node."""
        held_edge = None  # the index of the edge of the held factor
        if len(edges) > 1 and stem(node) in PRODUCTS and edges[-2][0] is not None and edges[-1][0] is not None:
            of_matrices = stem(node) not in ELEMENTWISE_PRODUCTS
            left_edge = len(edges) - 2  # before them `addmm` has what it adds
            held_edge = left_edge + held_factor(edges[-2], edges[-1], of_matrices, self.input_edges)
            self.rules[node] = NodeRule(RULES[stem(node)], (held_edge,))
        from_input = [edge for index, edge in enumerate(edges) if edge[0] in self.input_edges and index != held_edge]
        if from_input:
            self.input_edges[node] = from_input
