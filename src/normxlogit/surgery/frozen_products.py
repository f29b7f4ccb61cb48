"""Which factor of a product is the signal, and which is held as its weight.

A product of two tensors that both depend on the input is not linear in it: one factor has to be held. *The signal
takes all* (Arras et al., 2017). Which one is the signal is decided from the autograd graph, by the first of these that
applies:

1. **Computed from the other.** If b was computed from a, then b is a weight that a is given: held is b. This is how
   x * sigmoid(x), squeeze-and-excitation, and a state-space model's input-dependent matrices are read.
2. **Activated.** If one factor is the result of an activation, held is that one: silu(gate) * up. A gate that does not
   vanish at zero (sigmoid, softplus) comes before any other activation: sigmoid(i) * tanh(g) lets the tanh flow. In a
   product of matrices only gates count: there, activated values are mixed by weights.
3. **Stretched.** If one factor is broadcast to fit the other, or is a single vector that a matrix is read with, held
   is that one: keys and queries that write to and read from a state.
4. **Left.** Held is the left factor, where one writes weights: weights @ values.

A tensor times itself is not such a product. Squared, a ReLU is an activation; anything else is linear only inside
something that is held anyway, as in a norm's mean of squares, and elsewhere the proof names it.
"""

from collections import deque
from typing import Any

from torch import Tensor

STEPS = 64
"""How many operations are looked at to see whether one factor was computed from the other."""

DEPTH = 24
"""How many operations may lie between an activation and the product that it acts in."""

SIGNAL = "signal"
"""Marks the autograd node of a product of two flowing factors: what it gives is a signal, whatever its factors were."""

GATES = frozenset({"sigmoid", "hardsigmoid", "softplus", "expit", "logsigmoid", "log_sigmoid"})

_KEEPING = frozenset([
    "Alias", "AsStrided", "Expand", "Permute", "Transpose", "T", "Numpy_T", "Squeeze", "Unsqueeze", "View",
    "UnsafeView", "ReshapeAlias", "Clone", "ToCopy", "Identity", "MovedimInt", "Swapaxes", "_Measured",
])  # fmt: skip
"""Autograd nodes that pass all of one tensor on, under another shape."""

_PASSING = _KEEPING | frozenset([
    "Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Slice", "Select", "Split", "SplitWithSizes", "Chunk", "Unbind",
    "Index", "IndexSelect", "Gather", "Topk", "Sort", "MaskedFill", "Where", "Clamp", "ClampMin", "ClampMax",
    "Repeat", "RepeatInterleave", "Flip", "Roll", "ConstantPadNd", "Cat", "Stack", "Narrow", "Unfold", "Tril",
    "Triu", "Copies", "CopySlices", "Cumsum",
])  # fmt: skip
"""Autograd nodes through which an activated tensor stays one, if nothing else flows into them."""


def held_factor(left: Tensor, right: Tensor, matrices: bool | None = False) -> tuple[int, str]:
    """Decide which of two flowing factors is held.

    Args:
        left: The first factor.
        right: The second.
        matrices: Whether it is a product of matrices; None for another sum of products, whose axes are not compared.

    Returns:
        0 for the left one, 1 for the right one; and the rule that decided.
    """
    if _computed_from(right, left):
        return 1, "computed from the other factor"
    if _computed_from(left, right):
        return 0, "computed from the other factor"
    least = 1 if matrices is False else 2
    ranks = [rank if rank >= least else 0 for rank in (activated(left)[0], activated(right)[0])]
    if ranks[0] != ranks[1]:
        return int(ranks[1] > ranks[0]), "activated"
    if matrices is None:
        return 0, "left"
    stretched = _vectors(left, right) if matrices else _broadcast(left, right)
    if stretched[0] != stretched[1]:
        return int(stretched[1]), "stretched"
    return 0, "left"


def signal_of(factors: list[Tensor], elementwise: bool) -> int:
    """Decide which of several factors is the signal, by comparing them in turn.

    Args:
        factors: Of an `einsum`.
        elementwise: Whether they are of one shape and multiplied element by element.
    """
    best = 0
    for index in range(1, len(factors)):
        held, _ = held_factor(factors[best], factors[index], False if elementwise else None)
        best = index if held == 0 else best
    return best


def same(left: Tensor, right: Tensor) -> bool:
    """Tell whether two tensors are one and the same."""
    return left is right or (
        left.data_ptr() == right.data_ptr()
        and left.shape == right.shape
        and left.stride() == right.stride()
        and left.dtype == right.dtype
    )


def activated(tensor: Tensor) -> tuple[int, str]:
    """Find the activation that a tensor is the result of, up to its shape, a constant factor and a constant addend.

    Returns:
        2 for a gate, 1 for any other activation, 0 for none; and the activation's name.
    """
    node: Any = tensor.grad_fn
    for _ in range(DEPTH):
        if node is None:
            break
        kind = getattr(node, "activation", None)  # see `frozen_maps.ratio`
        if kind is not None:
            return (2 if kind in GATES else 1), kind
        stem = _stem(node)
        if stem not in _PASSING or (stem == "Mul" and SIGNAL in node.metadata):
            break
        parents = node.next_functions[:1] if stem == "_Measured" else node.next_functions  # the second is a leaf
        above = {parent for parent, _ in parents if parent is not None}
        node = above.pop() if len(above) == 1 else None
    return 0, ""


def _computed_from(late: Tensor, early: Tensor) -> bool:
    """Tell whether one tensor was computed from all of the other, a few operations ago."""
    source = _source(early)
    if _source(late) == source:
        return False
    first = 0 if source[0] is None else source[0]._sequence_nr()
    waiting = deque([(late.grad_fn, late.output_nr)])
    visited: set[tuple[Any, int]] = set()
    while waiting and len(visited) < STEPS:
        edge = waiting.popleft()
        node = edge[0]
        if node is None or edge in visited or node._sequence_nr() < first:
            continue
        if edge == source or (source[0] is None and getattr(node, "variable", None) is early):
            return True
        visited.add(edge)
        waiting += node.next_functions
    return False


def _source(tensor: Tensor) -> tuple[Any, int]:
    """Find the operation that made a tensor, before any reshaping."""
    node, output = tensor.grad_fn, tensor.output_nr
    while node is not None and _stem(node) in _KEEPING:
        above, number = node.next_functions[0]
        if above is None or above.name().endswith("AccumulateGrad"):
            break
        node, output = above, number
    return node, output


def _stem(node: Any) -> str:
    """Return an autograd node's name without `Backward0`."""
    stem: str = node.name().rpartition("Backward")[0]
    return stem


def _broadcast(left: Tensor, right: Tensor) -> tuple[bool, bool]:
    """Return which of two factors are broadcast to the shape of the product."""
    count = max(left.ndim, right.ndim)
    shapes = [(1,) * (count - t.ndim) + tuple(t.shape) for t in (left, right)]
    stretched = tuple(
        any(mine == 1 and other > 1 for mine, other in zip(shapes[i], shapes[1 - i], strict=True)) for i in (0, 1)
    )
    return stretched[0], stretched[1]


def _vectors(left: Tensor, right: Tensor) -> tuple[bool, bool]:
    """Return which of two matrices are a single row or column vector."""
    row = left.ndim == 1 or left.shape[-2] == 1
    column = right.ndim == 1 or right.shape[-1] == 1
    inner = left.shape[-1] > 1
    return row and inner, column and inner
