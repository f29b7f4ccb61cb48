"""Which factor of a product is the signal, and which is held as its weight.

A product of two tensors that both depend on the input is not linear in it: one factor has to be held. *The signal
takes all* (Arras et al., 2017). Which one is the signal is decided from the autograd graph, by the first of these that
applies:

1. **Computed from the other.** If b was computed from a, then b is a weight that a is given: held is b. This is how
   x * sigmoid(x), squeeze-and-excitation, and a state-space model's input-dependent matrices are read.
2. **Activated.** If one factor is the result of an activation, held is that one: silu(gate) * up. A gate that does not
   vanish at zero (sigmoid, softplus) comes before any other activation: sigmoid(i) * tanh(g) lets the tanh flow. In a
   product of matrices only gates count: there, activated values are mixed by weights. A kernel that `linear` is
   given transposed is held like one.
3. **Stretched.** If one factor is broadcast to fit the other, or is a single vector that a matrix is read with, held
   is that one: keys and queries that write to and read from a state.
4. **Left.** Held is the left factor, where one writes weights: weights @ values.

Both choices conserve the answer, so that no proof can tell them apart: this is a convention.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from .graph import LEAF, Edge, shape_of, stem

STEPS = 64
"""How many operations are looked at to see whether one factor was computed from the other."""

DEPTH = 24
"""How many operations may lie between an activation and the product that it acts in."""

GATES = frozenset({"Sigmoid", "Hardsigmoid", "Softplus", "LogSigmoid"})

ACTIVATIONS = GATES | frozenset([
    "Abs", "Asinh", "Atan", "Celu", "Elu", "Erf", "Expm1", "Gelu", "Hardshrink", "Hardswish", "Hardtanh", "LeakyRelu",
    "Log", "Log1P", "Mish", "PreluKernel", "Relu", "RreluWithNoise", "Silu", "Softshrink", "Tanh", "Threshold",
])  # fmt: skip
"""Elementwise operations of which f(x) / x is held."""

_KEEPING = frozenset([
    "Alias", "AsStrided", "Expand", "Permute", "Transpose", "T", "Numpy_T", "Squeeze", "Unsqueeze", "View",
    "UnsafeView", "ReshapeAlias", "Clone", "ToCopy", "Identity", "MovedimInt", "Swapaxes", "_MeasuredBackward",
])  # fmt: skip
"""Nodes that pass all of one tensor on, under another shape."""

_PASSING = _KEEPING | frozenset([
    "Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Slice", "Select", "Split", "SplitWithSizes", "Chunk", "Unbind",
    "Index", "IndexSelect", "Gather", "Topk", "Sort", "MaskedFill", "Where", "Clamp", "ClampMin", "ClampMax",
    "Repeat", "RepeatInterleave", "Flip", "Roll", "ConstantPadNd", "Cat", "Stack", "Narrow", "Unfold", "Tril",
    "Triu", "Copies", "CopySlices", "Cumsum",
])  # fmt: skip
"""Nodes through which an activated tensor stays one, if nothing else flows into them."""

_ELEMENTWISE = (
    _KEEPING
    | ACTIVATIONS
    | frozenset(["Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Pow", "Exp", "Reciprocal", "Where", "Clamp", "Minimum"])
)

_SCALING = _KEEPING | frozenset(["Mul", "Div", "Neg"])

Flow = Callable[[Any], list[Edge]]
"""Tells over which edges the input flows into a node."""


def held_factor(left: Edge, right: Edge, *, matrices: bool, flow: Flow) -> int:
    """Decide which of two factors that depend on the input is held.

    Args:
        left: The first factor.
        right: The second.
        matrices: Whether it is a product of matrices.
        flow: Tells over which edges the input flows into a node.

    Returns:
        0 for the left one, 1 for the right one.
    """
    if _computed_from(right, left, flow):
        return 1
    if _computed_from(left, right, flow):
        return 0
    if matrices and stem(right[0]) == "T":
        return 1  # as `linear` transposes its kernel
    least = 2 if matrices else 1
    ranks = [rank if rank >= least else 0 for rank in (_activated(left, flow), _activated(right, flow))]
    if ranks[0] != ranks[1]:
        return int(ranks[1] > ranks[0])
    shapes = shape_of(left), shape_of(right)
    stretched = _vectors(*shapes) if matrices else _broadcast(*shapes)
    return int(stretched[1] and not stretched[0])


def _activated(edge: Edge, flow: Flow) -> int:
    """Return whether a factor is the result of a gate (2), another activation (1) or none (0).

    Its shape, a constant factor and a constant addend do not count.
    """
    node = edge[0]
    for _ in range(DEPTH):
        name = stem(node)
        if name in ACTIVATIONS:
            return 2 if name in GATES else 1
        edges = flow(node)
        if name == "Mul" and len(edges) == 2:  # a product is a signal, unless it is an activation written out
            return int(_function_of(edges[1], edges[0], flow) or _function_of(edges[0], edges[1], flow))
        if name not in _PASSING or len(set(edges)) != 1:
            return 0
        node = edges[0][0]
    return 0


def _computed_from(late: Edge, early: Edge, flow: Flow) -> bool:
    """Tell whether one factor was computed from all of the other, a few operations ago."""
    source = _source(early, flow)
    if _source(late, flow) == source:
        return False
    first = 0 if stem(source[0]) == LEAF else source[0]._sequence_nr()
    waiting, visited = deque([late]), set[Edge]()
    while waiting and len(visited) < STEPS:
        edge = waiting.popleft()
        node = edge[0]
        if edge in visited:
            continue
        if edge == source:
            return True
        if stem(node) == LEAF or node._sequence_nr() < first:
            continue
        visited.add(edge)
        waiting += flow(node)
    return False


def _function_of(late: Edge, early: Edge, flow: Flow) -> bool:
    """Tell whether one factor is an elementwise function of the other alone, as in x * (1 + tanh(x))."""
    source, waiting, visited = _source(early, flow), [late], set[Edge]()
    while waiting:
        edge = waiting.pop()
        if edge == source or edge in visited:
            continue
        if stem(edge[0]) not in _ELEMENTWISE or len(visited) >= DEPTH:
            return False
        visited.add(edge)
        waiting += flow(edge[0])
    return bool(visited)


def _source(edge: Edge, flow: Flow) -> Edge:
    """Find the operation that made a factor, before any reshaping and constant factor."""
    while stem(edge[0]) in _SCALING:
        edges = flow(edge[0])
        if len(edges) != 1 or stem(edges[0][0]) == LEAF:
            break
        edge = edges[0]
    return edge


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[bool, bool]:
    """Return which of two factors are broadcast to the shape of the product."""
    count = max(len(left), len(right))
    shapes = [(1,) * (count - len(shape)) + shape for shape in (left, right)]
    stretched = [
        any(mine == 1 and other > 1 for mine, other in zip(shapes[i], shapes[1 - i], strict=True)) for i in (0, 1)
    ]
    return stretched[0], stretched[1]


def _vectors(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[bool, bool]:
    """Return which of two matrices are a single row or column vector."""
    row = len(left) == 1 or left[-2] == 1
    column = len(right) == 1 or right[-1] == 1
    inner = left[-1] > 1
    return row and inner, column and inner
