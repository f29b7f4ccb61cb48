"""The autograd graph of a forward pass: its nodes, their names, and where an input flows through it."""

import re
from collections.abc import Iterable
from typing import Any

from torch import Tensor

Edge = tuple[Any, int]
"""A node of the graph and which of its outputs; what is multiplied or added in the forward pass is an edge."""

LEAF = "AccumulateGrad"

_STEMS: dict[type, str] = {}
"""By the class of a node, which is cheaper to ask for than its name."""

_UNREGISTERED = "CppFunction"
"""The class of all nodes whose operation has none of its own in Python."""


def stem(node: Any) -> str:
    """Return the name of a node's operation, `Addmm` of `AddmmBackward0`.

    The names of functions that are written in Python, `_MeasuredBackward`, are returned whole.
    """
    kind = type(node)
    name = _STEMS.get(kind)
    if name is None:
        name = re.sub(r"Backward(CUDA|CPU)?\d+$", "", node.name().rpartition("::")[2])
        if kind.__name__ != _UNREGISTERED:
            _STEMS[kind] = name
    return name


def nodes_of(tensors: Tensor | Iterable[Tensor]) -> list[Any]:
    """Return the nodes that tensors were computed by, without leaves, in the order of the forward pass."""
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    order: list[Any] = []
    visited: set[Any] = set()
    for tensor in tensors:
        waiting: list[tuple[Any, bool]] = [(tensor.grad_fn, False)]
        while waiting:
            node, is_complete = waiting.pop()
            if is_complete:
                order.append(node)
            elif node is not None and node not in visited and stem(node) != LEAF:
                visited.add(node)
                waiting.append((node, True))
                waiting += [(parent, False) for parent, _ in node.next_functions]
    return order


def shape_of(edge: Edge) -> tuple[int, ...]:
    """Return the shape of what flows over an edge."""
    node, output = edge
    if stem(node) == LEAF:
        return tuple(node.variable.shape)
    return tuple(node._input_metadata[output].shape)
