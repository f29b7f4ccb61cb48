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
from .slopes import INPUT, INVERSES, AddConstant, Gradients, operation_name

MODULE_PATH = "normxlogit_place"
"""Key in a node's `metadata` for the module that created it, in a pass that is proved."""

NO_GRADIENT = (
    "the model cannot be frozen: no gradient flows through {}, as where weights and activations are quantised; load it "
    "in another precision, or use a method without gradients"
)


class NotRecordedError(Exception):
    """Rules need the inputs of operations that were not recorded; another pass can record them."""


class NodeRule(NamedTuple):
    """What a node of the graph passes back."""

    row: Row  # the row of its operation in the table of rules
    held: Collection[int]  # the indices of its inputs that are held, which get no gradient


@contextmanager
def frozen_backward(
    output: Tensor,
    entries: Sequence[Tensor | GradientEdge],
    add_constant: AddConstant = None,
    *,
    is_recorded: bool = True,
) -> Iterator[None]:
    """Backpropagate by the rules of the frozen network in the block.

    Args:
        output: What is backpropagated, of any shape, with its graph.
        entries: Where the input enters the graph: leaves, or their edges.
        add_constant: Called with held values times their gradients, which are part of the answer; None to leave them
            out.
        is_recorded: Whether the whole pass was recorded, so that another pass would tell no more of its inputs.

    Raises:
        NotRecordedError: If the rules need inputs that were not recorded, and can be.
        UnsupportedModelError: If no gradient flows, or one arrives at an operation without a rule.
    """
    if not output.requires_grad:
        raise UnsupportedModelError(NO_GRADIENT.format("any of its operations"))
    walk = _GraphWalk(entries)
    handles = list[Any]()
    walk.visit_all(output)
    if not is_recorded and walk.reads_unknown_inputs():
        raise NotRecordedError
    try:
        for node, rule in walk.rules.items():
            handles.append(_register(node, rule, add_constant))
        yield
    except RuntimeError as error:
        if "inplace" not in str(error):  # as torch says of a saved tensor that was "modified by an inplace operation"
            raise
        raise UnsupportedModelError("the model cannot be frozen: it writes on what its backward pass needs") from error
    finally:
        for handle in handles:
            handle.remove()


def _register(node: Any, rule: NodeRule, add_constant: AddConstant) -> Any:
    """Register the rule of a node as a hook on it; return torch's handle, whose `remove` removes the hook."""
    if rule.row is UNKNOWN:  # before the node runs: a function of the model's own may fail in another way
        return node.register_prehook(partial(_refuse, node))
    return node.register_hook(partial(_apply, node, rule, add_constant))


def _apply(
    node: Any, rule: NodeRule, add_constant: AddConstant, input_gradients: Gradients, output_gradients: Gradients
) -> Gradients:
    """Return the gradients that a node passes to its inputs: those of its slope, and none to held inputs.

    Autograd calls it after the node has run, with the last two arguments.

    Args:
        node: The node.
        rule: Its rule.
        add_constant: As in `frozen_backward`.
        input_gradients: The gradients that torch computed for its inputs.
        output_gradients: The gradients that arrived at its outputs.
    """
    gradient = output_gradients[0]
    slope = rule.row.slope
    if slope is not None and gradient is not None:
        try:
            passed = slope(node, gradient, input_gradients, add_constant)
        except AttributeError as error:  # another version of torch, or another device
            raise UnsupportedModelError(
                f"the model cannot be frozen: {operation_name(node)} does not save what its rule reads"
            ) from error
        # The gradient of the first input alone, in float32 where a norm saved its statistics so.
        if isinstance(passed, Tensor):
            passed = (passed.to(gradient.dtype), *input_gradients[1:])
        input_gradients = passed
    return tuple([None if index in rule.held else part for index, part in enumerate(input_gradients)])


def _refuse(node: Any, output_gradients: Gradients) -> None:
    """Refuse an operation without a rule if a gradient arrives that is not zero.

    Values of a gradient of several quantities at once, batched by `is_grads_batched`, cannot be read: it is refused.
    """
    is_batched = torch._C._functorch.is_batchedtensor  # pyright: ignore[reportAttributeAccessIssue]
    if any(gradient is not None and (is_batched(gradient) or bool(gradient.any())) for gradient in output_gradients):
        path = node.metadata.get(MODULE_PATH)
        place = f" in {path}" if path else ""
        name = operation_name(node)
        if name in ("WarnNotImplemented", "NotImplemented"):  # torch's own nodes of functions without a gradient
            raise UnsupportedModelError(NO_GRADIENT.format(f"an operation{place}"))
        raise UnsupportedModelError(
            f"the model cannot be frozen: the answer depends on {name}{place}, an operation without a rule"
        )


class _GraphWalk:
    """The rules of the nodes of a graph, found in one walk, depth first.

    A node is visited twice: first to find its edges and visit the nodes that they lead to, and again when it is known
    which of those nodes the input reaches.
    """

    def __init__(self, entries: Sequence[Tensor | GradientEdge]) -> None:
        edges = [get_gradient_edge(entry) if isinstance(entry, Tensor) else entry for entry in entries]
        # By node that the input reaches, the outputs of earlier nodes through which it does; none at the entries.
        self.input_edges: dict[Any, list[Edge]] = {edge.node: [] for edge in edges}
        self.rules: dict[Any, NodeRule] = {}  # by node, of nodes whose gradients are not all torch's own

    def visit_all(self, output: Tensor) -> None:
        """Find the rules of all nodes from an output to the entries."""
        visited: set[Any] = {None, *self.input_edges}  # None stands for the node of a constant
        # Nodes, with the edges over which they pass gradients at the second visit, and None at the first.
        to_visit: list[tuple[Any, Sequence[Edge] | None]] = [(output.grad_fn, None)]
        while to_visit:
            node, edges = to_visit.pop()
            if edges is not None:
                self._after_its_inputs(node, edges)
            elif node not in visited and operation_name(node) != LEAF:  # a leaf that is no entry is a constant
                visited.add(node)
                passing = self._before_its_inputs(node)
                to_visit.append((node, passing))
                to_visit += [(parent, None) for parent, _ in passing]

    def reads_unknown_inputs(self) -> bool:
        """Return whether a rule reads an input that torch does not save and no `Recording` noted."""
        return any(operation_name(node) in INVERSES and INPUT not in node.metadata for node in self.rules)

    def _before_its_inputs(self, node: Any) -> Sequence[Edge]:
        """Add the rule of a node; return the edges over which it passes gradients."""
        row = RULES.get(operation_name(node), UNKNOWN)
        held = row.held(node) if callable(row.held) else row.held
        if held or row.slope is not None or row is UNKNOWN:
            self.rules[node] = NodeRule(row, held)
        return [edge for index, edge in enumerate(node.next_functions) if index not in held]

    def _after_its_inputs(self, node: Any, edges: Sequence[Edge]) -> None:
        """Choose the held factor of a product of two tensors; note over which edges the input reaches a node."""
        held_edge = None  # the index of the edge of the held factor
        name = operation_name(node)
        # The first edge of `addmm` is that of what it adds. By its row a product holds nothing: `edges` has all inputs.
        factors = edges[-2:] if name in PRODUCTS else ()
        if len(factors) == 2 and all(factor_node is not None for factor_node, _ in factors):  # None: a constant
            left, right = factors
            held = held_factor(left, right, name not in ELEMENTWISE_PRODUCTS, self.input_edges)
            held_edge = len(edges) - 2 + held
            self.rules[node] = NodeRule(RULES[name], (held_edge,))
        from_input = [edge for index, edge in enumerate(edges) if edge[0] in self.input_edges and index != held_edge]
        if from_input:
            self.input_edges[node] = from_input
