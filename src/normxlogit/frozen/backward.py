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

MODULE_PATH = "normxlogit_place"  # key in a node's `metadata` for the module that created it, in a pass that is proved

NO_GRADIENT = (
    "the model cannot be frozen: no gradient flows through {}, as where weights and activations are quantised; load it "
    "in another precision, or use a method without gradients"
)


class NotRecordedError(Exception):
    """The inputs of some operations are needed, were not noted, and can be in another pass."""


@contextmanager
def frozen_backward(
    output: Tensor, entries: Sequence[Tensor | GradientEdge], constant: Constant = None, *, is_recorded: bool = True
) -> Iterator[None]:
    """Backpropagate by the rules of the frozen network in the block; `constant` gets held values times gradients."""
    if not output.requires_grad:
        raise UnsupportedModelError(NO_GRADIENT.format("any of its operations"))
    handles: list[Any] = []
    rules = _rules_of(output, entries)
    if not is_recorded and any(stem(node) in INVERSE and INPUT not in node.metadata for node in rules):
        raise NotRecordedError
    try:
        for node, (row, held) in rules.items():
            if row is UNKNOWN:  # before it runs: a function of the model's own may fail in another way
                handles.append(node.register_prehook(partial(_refuse, node)))
            else:
                handles.append(node.register_hook(partial(_apply, node, row, held, constant)))
        yield
    except RuntimeError as error:
        if "inplace" not in str(error):
            raise
        raise UnsupportedModelError("the model cannot be frozen: it writes on what its backward pass needs") from error
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
            passed = slope(node, gradient, inputs, constant)
        except AttributeError as error:  # another version of torch, or another device
            raise UnsupportedModelError(
                f"the model cannot be frozen: {stem(node)} does not save what its rule reads"
            ) from error
        inputs = (passed.to(gradient.dtype), *inputs[1:]) if isinstance(passed, Tensor) else passed
    return tuple([None if index in held else part for index, part in enumerate(inputs)]) if held else inputs


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


def _rules_of(output: Tensor, entries: Sequence[Tensor | GradientEdge]) -> dict[Any, tuple[Row, Collection[int]]]:
    """Return, of each node that needs a hook, its row in the table and which inputs are held, in one walk."""
    rules = dict[Any, tuple[Row, Collection[int]]]()
    # By node that the input reaches, the edges over which it does.
    input_edges: dict[Any, list[Edge]] = {
        (get_gradient_edge(entry) if isinstance(entry, Tensor) else entry).node: [] for entry in entries
    }
    visited: set[Any] = {None, *input_edges}
    # Depth first. A node is visited twice: without its edges, to find them and visit the nodes that they lead to, and
    # again with them, when it is known which of those nodes the input reaches.
    to_visit: list[tuple[Any, Sequence[Edge] | None]] = [(output.grad_fn, None)]
    while to_visit:
        node, edges = to_visit.pop()
        if edges is not None:
            from_input = [edge for edge in edges if edge[0] in input_edges]
            if len(edges) > 1 and stem(node) in PRODUCTS and None not in (edges[-2][0], edges[-1][0]):
                of_matrices = stem(node) not in ("Mul", "Addcmul")
                held = len(edges) - 2 + held_factor(edges[-2], edges[-1], of_matrices, input_edges)
                rules[node] = RULES[stem(node)], (held,)
                from_input = [edge for edge in from_input if edge is not edges[held]]
            if from_input:
                input_edges[node] = from_input
        elif node not in visited and (name := stem(node)) != LEAF:
            visited.add(node)
            row, edges = RULES.get(name, UNKNOWN), node.next_functions
            held_inputs = row.held(node) if callable(row.held) else row.held
            if held_inputs or row.slope is not None or row is UNKNOWN:
                rules[node] = row, held_inputs
            passing = [edge for index, edge in enumerate(edges) if index not in held_inputs] if held_inputs else edges
            to_visit.append((node, passing))
            to_visit += [(parent, None) for parent, _ in passing]
    return rules
