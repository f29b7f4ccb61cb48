"""The proof of a frozen backward pass: what the inputs and all constants contribute adds up to the model's answer.

The frozen network is affine, so that f(x) = <g, x> + sum over constants c of <g_c, c>: every bias, every table of
positions, every vector that the model adds. In a pass under `constants_as_leaves` each of these is a leaf of the graph
with its own gradient, where it is added; one backward pass gives all of them, and their sum is compared with the answer.
A rule that is wrong, or an operation that hides what is not linear, shows as a difference.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .backward import _NotedInputs, frozen_backward

_ADDITIVE = frozenset(
    "add sub subtract rsub radd iadd isub where cat concat concatenate stack hstack vstack dstack masked_fill "
    "masked_scatter index_put index_add index_copy scatter scatter_add copy setitem lerp maximum minimum "
    "fmax fmin multi_head_attention_forward append".split()
)
"""Functions, without underscores around their names, of which constant tensors are part of the bias."""

_BIAS: dict[str, tuple[tuple[int, str], ...]] = {
    "linear": ((2, "bias"),),
    "bilinear": ((3, "bias"),),
    "layer_norm": ((3, "bias"),),
    "group_norm": ((3, "bias"),),
    "instance_norm": ((4, "bias"),),
    "batch_norm": ((4, "bias"),),
    **{f"conv{transposed}{axes}d": ((2, "bias"),) for transposed in ("", "_transpose") for axes in (1, 2, 3)},
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "addr", "addcmul", "addcdiv"), ((0, "input"),)),
}
"""Of other functions, which arguments are added: their places and names."""


@dataclass
class Constants:
    """What a pass adds to what flows from its input.

    Attributes:
        leaves: Of each constant, its value and in which module it is added; the value is a leaf of the graph.
        held: The sum of the products of held values and their gradients.
    """

    leaves: list[tuple[Tensor, str]] = field(default_factory=list)
    held: float = 0.0

    def collect(self, products: Tensor) -> None:
        """Add what a rule left out."""
        self.held += float(products.double().sum())


class _ConstantLeaves(_NotedInputs):
    def __init__(self, constants: Constants, paths: Mapping[int, str]) -> None:
        super().__init__()
        self.constants, self.paths = constants, paths

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        if torch.is_grad_enabled():
            if name in _ADDITIVE:
                if _flows((args, kwargs)):
                    changed = func.__name__.endswith("_") and bool(args)  # an in-place operation changes no leaf
                    scalars = name in ("add", "sub", "rsub", "radd", "iadd", "isub", "where", "subtract")
                    args = tuple(
                        value if changed and index == 0 else self._leaf(value, scalars) for index, value in enumerate(args)
                    )
                    kwargs = {key: self._leaf(value, False) if key != "alpha" else value for key, value in kwargs.items()}
            elif name in _BIAS and _flows((args, kwargs)):
                for index, key in _BIAS[name]:
                    if index < len(args):
                        args = (*args[:index], self._leaf(args[index], False), *args[index + 1 :])
                    elif key in kwargs:
                        kwargs = {**kwargs, key: self._leaf(kwargs[key], False)}
        return super().__torch_function__(func, types, args, kwargs)

    def _leaf(self, value: Any, scalars: bool) -> Any:
        """Return a constant as a leaf, or what else was given as it is."""
        if isinstance(value, Tensor):
            if value.requires_grad or not value.is_floating_point() or value.is_meta:
                return value
            leaf = value.detach().requires_grad_()
        elif isinstance(value, (tuple, list)) and any(isinstance(part, Tensor) for part in value):
            return type(value)(self._leaf(part, scalars) for part in value)
        elif scalars and isinstance(value, (int, float)) and not isinstance(value, bool) and value != 0:
            leaf = torch.tensor(value, dtype=torch.float64).requires_grad_()
        else:
            return value
        self.constants.leaves.append((leaf, self._path()))
        return leaf

    def _path(self) -> str:
        """Find the module whose forward is running."""
        frame = sys._getframe(2)
        while frame is not None:
            path = self.paths.get(id(frame.f_locals.get("self")))
            if path is not None:
                return path
            frame = frame.f_back  # type: ignore[assignment]
        return ""


def _flows(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.requires_grad
    if isinstance(value, dict):
        return any(map(_flows, value.values()))
    return isinstance(value, (tuple, list)) and any(map(_flows, value))


@contextmanager
def constants_as_leaves(model: nn.Module) -> Iterator[Constants]:
    """Run a pass in this block whose constants are leaves of its graph."""
    constants = Constants()
    with _ConstantLeaves(constants, {id(module): path for path, module in model.named_modules()}):
        yield constants


@dataclass(frozen=True)
class Balance:
    """What contributes to an answer, and what is left over.

    Attributes:
        answer: The explained quantity.
        inputs: What the inputs contribute.
        bias: By module, what the constants that are added in it contribute; "" for held values.
        size: The sum of all contributions without their signs, of which rounding is a part.
    """

    answer: float
    inputs: float
    bias: Mapping[str, float]
    size: float

    @property
    def difference(self) -> float:
        """How far the contributions are from the answer."""
        return abs(self.answer - self.inputs - sum(self.bias.values()))


def balance(
    answer: Tensor, readings: Sequence[Tensor], constants: Constants, leaves: Sequence[Tensor], values: Sequence[Tensor] = ()
) -> Balance:
    """Backpropagate once from an answer, and add up what everything contributes to it.

    Args:
        answer: The explained quantity, a scalar with the graph of a pass under `constants_as_leaves`; it is kept.
        readings: Leaves whose gradients are the contributions of inputs, see `sinks.read_out`.
        constants: Of the pass.
        leaves: What flows from.
        values: Other leaves, which contribute the product of their value and their gradient.
    """
    asked = [*readings, *values, *(leaf for leaf, _ in constants.leaves)]
    constants.held = 0.0
    with frozen_backward(answer, leaves, constants.collect):
        gradients = torch.autograd.grad(answer, asked, retain_graph=True, allow_unused=True)
    inputs = size = 0.0
    bias: Counter[str] = Counter()
    for index, (leaf, gradient) in enumerate(zip(asked, gradients, strict=True)):
        if gradient is None:
            continue
        products = gradient.double() if index < len(readings) else gradient.double() * leaf.detach().double()
        share = float(products.sum())
        size += float(products.abs().sum())
        if index < len(readings) + len(values):
            inputs += share
        else:
            bias[constants.leaves[index - len(readings) - len(values)][1]] += share
    bias[""] += constants.held
    return Balance(float(answer.detach()), inputs, dict(bias), size + abs(constants.held))
