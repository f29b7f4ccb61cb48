"""Which factor of a product is held.

A product of two tensors that both depend on the input is not linear in it: one factor has to be held. *The signal
takes all* (Arras et al., 2017, section 3). Which one is the signal is decided from the autograd graph, by the first
of `CRITERIA` that applies; if none does, held is the left factor, where one writes weights: weights @ values. Both
choices conserve the answer, so that no sum can tell them apart: this is a convention, tested against plain loops.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

import torch

from ..results.storage.schema import Indices
from .rules import LEAF
from .slopes import ACTIVATIONS, operation_name

Edge = tuple[Any, int]
"""A node of the graph and the index of one of its outputs: a tensor of the forward pass."""

InputEdges = Mapping[Any, list[Edge]]
"""By node that the input reaches, the edges over which it does; none where it enters the graph."""

LEFT, RIGHT = 0, 1
"""The factors of a product."""

Criterion = Callable[[Edge, Edge, bool, InputEdges], int | None]
"""Returns which factor is held, `LEFT` or `RIGHT`; None to leave it to the next. All take what `held_factor` does."""

MOST_SEARCHED = 64
"""Most operations that are searched to see whether one factor was computed from the other."""

MOST_ELEMENTWISE = 24
"""Most operations that are searched to see whether a factor is an activation."""

GATES = frozenset({"Sigmoid", "Hardsigmoid", "Softplus", "LogSigmoid"})
"""Activations that are factors of other values, and held before another activation."""

GATE, ACTIVATION, NEITHER = 2, 1, 0
"""Ranks of factors, see `activated`: the higher one is held."""

ACTIVATED = frozenset(ACTIVATIONS) - {"Clamp", "ClampMin", "ClampMax", "GeLUFunctionBackward"} | {
    "Abs", "Hardshrink", "LeakyRelu", "PreluKernel", "Relu", "RreluWithNoise", "Threshold",
}  # fmt: skip
"""Elementwise operations f, of which f(x) / x is held."""

_RESHAPING = frozenset([
    "Alias", "AsStrided", "Expand", "Permute", "Transpose", "T", "Squeeze", "Unsqueeze", "View", "UnsafeView",
    "ReshapeAlias", "Clone", "ToCopy",
])  # fmt: skip
"""Operations that leave the values of a tensor as they are."""

_ACTIVATION_KEEPING = _RESHAPING | {
    "Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Slice", "Select", "Split", "SplitWithSizes", "Chunk", "Unbind",
    "Index", "IndexSelect", "Gather", "Topk", "Sort", "MaskedFill", "Where", "Clamp", "ClampMin", "ClampMax",
    "Repeat", "Flip", "Roll", "ConstantPadNd", "Cat", "Stack", "Unfold", "Tril", "Triu", "CopySlices", "Cumsum",
}  # fmt: skip
"""Operations whose output still counts as an activation's, if they have no other input."""

_ELEMENTWISE = _RESHAPING | ACTIVATED | {
    "Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Pow", "Exp", "Reciprocal", "Where", "Clamp", "Minimum",
}  # fmt: skip
"""Operations whose output is a function of their input, element by element."""


def independent_of_the_input(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold the factor that the input does not reach, such as a weight: the product is linear in the other."""
    (left_node, _), (right_node, _) = left, right
    if left_node not in input_edges:
        return LEFT
    return None if right_node in input_edges else RIGHT


def computed_from_the_other(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold the factor that was computed from the other, as in x * sigmoid(x), squeeze-and-excitation, state spaces."""
    if _computed_from(right, left, input_edges):
        return RIGHT
    return LEFT if _computed_from(left, right, input_edges) else None


def transposed_kernel(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold a matrix that is transposed as `linear` transposes its kernel."""
    right_node, _ = right
    return RIGHT if matrices and operation_name(right_node) == "T" else None


def activated(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold the factor that an activation returned, silu(gate) * up, and a gate rather than another activation.

    Sigmoid(i) * tanh(g) lets the tanh flow. Of matrices only gates count: there, weights mix activated values.
    """
    left_rank, right_rank = (_activation_rank(factor, input_edges) for factor in (left, right))
    if matrices:
        left_rank, right_rank = left_rank == GATE, right_rank == GATE
    if left_rank == right_rank:
        return None
    return LEFT if left_rank > right_rank else RIGHT


def stretched(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int | None:
    """Hold a factor that is broadcast, or a single vector that a matrix is read with: keys and queries of a state."""
    left_shape, right_shape = _shape_of(left), _shape_of(right)
    if matrices:
        is_sum = left_shape[-1] > 1  # of several products; of one, each factor is as good as a single vector
        is_left_stretched = is_sum and (len(left_shape) == 1 or left_shape[-2] == 1)  # a row
        is_right_stretched = is_sum and (len(right_shape) == 1 or right_shape[-1] == 1)  # a column
    else:
        product_shape = torch.broadcast_shapes(left_shape, right_shape)
        is_left_stretched = _is_broadcast(left_shape, product_shape)
        is_right_stretched = _is_broadcast(right_shape, product_shape)
    if is_left_stretched == is_right_stretched:  # both or neither, which tells nothing
        return None
    return LEFT if is_left_stretched else RIGHT


def _is_broadcast(shape: Indices, product_shape: Indices) -> bool:
    """Return whether a factor has an axis of one entry, or none, where its product has several."""
    missing_axes = len(product_shape) - len(shape)
    return (1,) * missing_axes + shape != tuple(product_shape)


CRITERIA: tuple[Criterion, ...] = (
    independent_of_the_input, computed_from_the_other, transposed_kernel, activated, stretched,
)  # fmt: skip


def held_factor(left: Edge, right: Edge, matrices: bool, input_edges: InputEdges) -> int:
    """Return which of two factors, or of two matrices, is held, `LEFT` or `RIGHT`.

    Args:
        left: The edge of the left factor.
        right: That of the right one.
        matrices: Whether it is a product of matrices, not of elements.
        input_edges: By node that the input reaches, the edges over which it does.
    """
    choices = (criterion(left, right, matrices, input_edges) for criterion in CRITERIA)
    return next((held for held in choices if held is not None), LEFT)


def _activation_rank(edge: Edge, input_edges: InputEdges) -> int:
    """Return whether a factor is a `GATE` such as sigmoid, another `ACTIVATION`, or neither; reshaped or scaled too.

    Args:
        edge: The edge of the factor, which the input reaches.
        input_edges: By node that the input reaches, the edges over which it does.
    """
    node, _ = edge
    for _ in range(MOST_ELEMENTWISE):
        name = operation_name(node)
        if name in ACTIVATED:
            return GATE if name in GATES else ACTIVATION
        if name == "Mul" and _is_activation(node, input_edges):
            return ACTIVATION
        edges = input_edges[node]
        # The other operand of a sum may not be activated; an entry of the input has no edges.
        if name not in _ACTIVATION_KEEPING or len(set(edges)) != 1:
            return NEITHER
        node, _ = edges[0]
    return NEITHER


def _is_activation(product: Any, input_edges: InputEdges) -> bool:
    """Return whether a product is an activation that is written out, such as x * sigmoid(x)."""
    factors = [edge for edge in product.next_functions if edge[0] in input_edges]
    pairs = permutations(factors) if len(factors) == 2 else ()  # either may be the function of the other
    return any(_function_of(later, earlier, input_edges) for later, earlier in pairs)


def _computed_from(later: Edge, earlier: Edge, input_edges: InputEdges) -> bool:
    """Return whether a factor, `later`, was computed from all of another, `earlier`, a few operations ago."""
    origin = _origin(earlier, input_edges)
    if _origin(later, input_edges) == origin:  # both are one tensor, as in x * x
        return False
    # Autograd numbers operations in their order: what has a lower number was computed before the origin. A leaf, which
    # is before all, has the highest number.
    origin_number = 0 if operation_name(origin[0]) == LEAF else origin[0]._sequence_nr()
    edges_to_visit = deque([later])
    visited = set[Edge]()
    while edges_to_visit and len(visited) < MOST_SEARCHED:
        edge = edges_to_visit.popleft()
        if edge == origin:
            return True
        if edge not in visited and operation_name(edge[0]) != LEAF and edge[0]._sequence_nr() >= origin_number:
            visited.add(edge)
            edges_to_visit += input_edges[edge[0]]
    return False


def _function_of(later: Edge, earlier: Edge, input_edges: InputEdges) -> bool:
    """Return whether one factor is an elementwise function of another alone, as (1 + tanh(x)) in x * (1 + tanh(x))."""
    origin = _origin(earlier, input_edges)
    edges_to_visit = [later]
    visited = set[Edge]()
    while edges_to_visit:
        edge = edges_to_visit.pop()
        if edge != origin and edge not in visited:
            if operation_name(edge[0]) not in _ELEMENTWISE or len(visited) >= MOST_ELEMENTWISE:
                return False
            visited.add(edge)
            edges_to_visit += input_edges[edge[0]]
    return bool(visited)  # none if both have one origin, as in x * x


def _origin(edge: Edge, input_edges: InputEdges) -> Edge:
    """Return the edge of the operation that computed a factor, before reshaping and constant factors."""
    while operation_name(edge[0]) in _RESHAPING | {"Mul", "Div", "Neg"} or _is_whole_slice(edge, input_edges):
        edges = input_edges[edge[0]]
        if len(edges) != 1 or operation_name(edges[0][0]) == LEAF:
            break
        edge = edges[0]
    return edge


def _is_whole_slice(edge: Edge, input_edges: InputEdges) -> bool:
    """Return whether a slice is all of its tensor, as some versions of torch record them for `x[:, None]`."""
    return operation_name(edge[0]) == "Slice" and all(
        _shape_of(whole) == _shape_of(edge) for whole in input_edges[edge[0]]
    )


def _shape_of(edge: Edge) -> Indices:
    """Return the shape of an edge's tensor."""
    node, output = edge
    return tuple(node.variable.shape if operation_name(node) == LEAF else node._input_metadata[output].shape)
