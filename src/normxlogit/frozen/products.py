"""Products of two factors that depend on the input: which factor is held constant.

A product of two tensors that both depend on the input is not linear in it: one factor has to be held. *The signal
takes all* (Arras et al., 2017, section 3). Which one is the signal is decided from the autograd graph, by the first of
`CRITERIA` that applies; if none does, held is the left factor, where one writes weights: weights @ values. Both choices
conserve the answer, so that no sum can tell them apart: this is a convention, tested against plain loops.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from .slopes import ACTIVATIONS as SMOOTH
from .slopes import stem

Edge = tuple[Any, int]
"""A node of the graph and the index of one of its outputs: a tensor of the forward pass."""

InputEdges = Callable[[Any], list[Edge]]
"""Returns the edges over which the input reaches a node."""

Criterion = Callable[[Edge, Edge, bool, InputEdges], int | None]
"""Returns which factor is held, 0 or 1, of the left and the right one; None to leave it to the next."""

LEAF = "AccumulateGrad"
"""The name of the node of a leaf."""

STEPS = 64
"""Most operations that are searched to see whether one factor was computed from the other."""

DEPTH = 24
"""Most operations between an activation and the product that it is a factor of."""

GATES = frozenset({"Sigmoid", "Hardsigmoid", "Softplus", "LogSigmoid"})

ACTIVATIONS = frozenset(SMOOTH) - {"Clamp", "ClampMin", "ClampMax", "GeLUFunctionBackward"} | {
    "Abs", "Hardshrink", "LeakyRelu", "PreluKernel", "Relu", "RreluWithNoise", "Threshold",
}  # fmt: skip
"""Elementwise operations f, of which f(x) / x is held."""

_RESHAPING = frozenset([
    "Alias", "AsStrided", "Expand", "Permute", "Transpose", "T", "Squeeze", "Unsqueeze", "View", "UnsafeView",
    "ReshapeAlias", "Clone", "ToCopy",
])  # fmt: skip

_ACTIVATION_KEEPING = _RESHAPING | frozenset([
    "Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Slice", "Select", "Split", "SplitWithSizes", "Chunk", "Unbind",
    "Index", "IndexSelect", "Gather", "Topk", "Sort", "MaskedFill", "Where", "Clamp", "ClampMin", "ClampMax",
    "Repeat", "Flip", "Roll", "ConstantPadNd", "Cat", "Stack", "Unfold", "Tril", "Triu", "CopySlices", "Cumsum",
])  # fmt: skip
"""Nodes whose output still counts as an activation's, if they have no other input."""

_ELEMENTWISE = (
    _RESHAPING
    | ACTIVATIONS
    | frozenset(["Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Pow", "Exp", "Reciprocal", "Where", "Clamp", "Minimum"])
)


def computed_from_the_other(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold the factor that was computed from the other: it is a weight that the other is given.

    This is how x * sigmoid(x), squeeze-and-excitation, and a state-space model's input-dependent matrices are read.
    """
    if _computed_from(right, left, input_edges):
        return 1
    return 0 if _computed_from(left, right, input_edges) else None


def transposed_kernel(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold a matrix that is transposed as `linear` transposes its kernel."""
    return 1 if matrices and stem(right[0]) == "T" else None


def activated(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold the factor that an activation returned, silu(gate) * up, and a gate rather than another activation.

    A gate does not vanish at zero: sigmoid(i) * tanh(g) lets the tanh flow. In a product of matrices only gates count:
    there, activated values are mixed by weights.
    """
    lowest_rank = 2 if matrices else 1
    ranks = [_activation_rank(factor, input_edges) for factor in (left, right)]
    ranks = [rank if rank >= lowest_rank else 0 for rank in ranks]
    return None if ranks[0] == ranks[1] else int(ranks[1] > ranks[0])


def stretched(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold a factor that is broadcast, or a single vector that a matrix is read with: keys and queries of a state."""
    shapes = _shape_of(left), _shape_of(right)
    of_left, of_right = _which_are_vectors(*shapes) if matrices else _which_are_broadcast(*shapes)
    return None if of_left == of_right else int(of_right)


CRITERIA: tuple[Criterion, ...] = (computed_from_the_other, transposed_kernel, activated, stretched)


def held_factor(left: Edge, right: Edge, *, matrices: bool, input_edges: InputEdges) -> int:
    """Return which of two factors that depend on the input is held: 0 for the left one, 1 for the right one.

    Args:
        left: The first factor.
        right: The second.
        matrices: Whether it is a product of matrices.
        input_edges: Tells over which edges the input flows into a node.
    """
    for criterion in CRITERIA:
        held = criterion(left, right, matrices, input_edges)
        if held is not None:
            return held
    return 0


def _activation_rank(edge: Edge, input_edges: InputEdges) -> int:
    """Return 2 for a factor that a gate such as sigmoid returned, 1 for that of another activation, 0 for others.

    Reshaping it, multiplying it by a constant or adding a constant to it does not change this.
    """
    node = edge[0]
    for _ in range(DEPTH):
        name = stem(node)
        if name in ACTIVATIONS:
            return 2 if name in GATES else 1
        edges = input_edges(node)
        if name == "Mul" and len(edges) == 2:  # an activation that is written out, such as x * sigmoid(x), or neither
            return int(_function_of(edges[1], edges[0], input_edges) or _function_of(edges[0], edges[1], input_edges))
        if name not in _ACTIVATION_KEEPING or len(set(edges)) != 1:
            return 0
        node = edges[0][0]
    return 0


def _computed_from(later: Edge, earlier: Edge, input_edges: InputEdges) -> bool:
    """Return whether a factor, `later`, was computed from all of another, `earlier`, a few operations ago."""
    origin = _origin(earlier, input_edges)
    if _origin(later, input_edges) == origin:
        return False
    origin_number = 0 if stem(origin[0]) == LEAF else origin[0]._sequence_nr()
    edges_to_visit, visited = deque([later]), set[Edge]()
    while edges_to_visit and len(visited) < STEPS:
        edge = edges_to_visit.popleft()
        node = edge[0]
        if edge in visited:
            continue
        if edge == origin:
            return True
        if stem(node) == LEAF or node._sequence_nr() < origin_number:
            continue
        visited.add(edge)
        edges_to_visit += input_edges(node)
    return False


def _function_of(later: Edge, earlier: Edge, input_edges: InputEdges) -> bool:
    """Return whether one factor is an elementwise function of another alone, as (1 + tanh(x)) in x * (1 + tanh(x))."""
    origin, edges_to_visit, visited = _origin(earlier, input_edges), [later], set[Edge]()
    while edges_to_visit:
        edge = edges_to_visit.pop()
        if edge == origin or edge in visited:
            continue
        if stem(edge[0]) not in _ELEMENTWISE or len(visited) >= DEPTH:
            return False
        visited.add(edge)
        edges_to_visit += input_edges(edge[0])
    return bool(visited)


def _origin(edge: Edge, input_edges: InputEdges) -> Edge:
    """Return the edge of the operation that computed a factor, before reshaping and constant factors."""
    while (name := stem(edge[0])) in _RESHAPING or name in ("Mul", "Div", "Neg"):
        edges = input_edges(edge[0])
        if len(edges) != 1 or stem(edges[0][0]) == LEAF:
            break
        edge = edges[0]
    return edge


def _shape_of(edge: Edge) -> tuple[int, ...]:
    """Return the shape of an edge's tensor."""
    node, output = edge
    return tuple(node.variable.shape if stem(node) == LEAF else node._input_metadata[output].shape)


def _which_are_broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[bool, bool]:
    """Return which of two factors are broadcast to the shape of the product."""
    count = max(len(left), len(right))
    left, right = ((1,) * (count - len(shape)) + shape for shape in (left, right))
    sizes = list(zip(left, right, strict=True))
    return any(a == 1 and b > 1 for a, b in sizes), any(b == 1 and a > 1 for a, b in sizes)


def _which_are_vectors(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[bool, bool]:
    """Return which of two matrices are a single row or column vector."""
    row, column, inner = len(left) == 1 or left[-2] == 1, len(right) == 1 or right[-1] == 1, left[-1] > 1
    return row and inner, column and inner
