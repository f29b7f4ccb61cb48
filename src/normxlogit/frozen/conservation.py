"""Conservation: the proof that the contributions of inputs and constants add up to the model's output.

The frozen network is affine, so that f(x) = <g, x> + sum over constants c of <g_c, c>: every bias, every table of
positions, every vector that the model adds. In a pass under `constants_as_leaves` each of these is a leaf of the graph
with its own gradient, where it is added. One backward pass gives all of them, and their sum is compared with the
answer. A rule that is wrong, or an operation that hides what is not linear, shows as a difference.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.non_finite import EXCLUDED
from ..errors import UnsupportedModelError
from ..parts.proofs import proof, rounding_of
from .backward import MODULE_PATH, RecordedInputs, frozen_backward, has_rule, operations_without_gradient
from .rules import VALUE, holds_its_value

_ADDITIVE = frozenset([
    "add", "sub", "subtract", "rsub", "radd", "iadd", "isub", "where", "cat", "concat", "concatenate", "stack",
    "hstack", "vstack", "dstack", "masked_fill", "masked_scatter", "index_put", "index_add", "index_copy",
    "scatter", "scatter_add", "copy", "setitem", "lerp", "maximum", "minimum", "fmax", "fmin",
    "append", "gru", "lstm", "rnn_tanh", "rnn_relu", "gru_cell", "lstm_cell",
])  # fmt: skip
"""Functions whose constant tensors are part of the bias, by name without outer underscores."""

_WITH_NUMBERS = frozenset(["add", "sub", "subtract", "rsub", "radd", "iadd", "isub", "where", "masked_fill"])
"""Those of them that accept a number instead of a tensor."""

_ADDED_ARGUMENTS: dict[str, dict[int, str]] = {
    "multi_head_attention_forward": {6: "in_proj_bias", 7: "bias_k", 8: "bias_v", 12: "out_proj_bias"},
    "linear": {2: "bias"},
    "bilinear": {3: "bias"},
    "layer_norm": {3: "bias"},
    "group_norm": {3: "bias"},
    "instance_norm": {4: "bias"},
    "batch_norm": {4: "bias"},
    **{f"conv{transposed}{axes}d": {2: "bias"} for transposed in ("", "_transpose") for axes in (1, 2, 3)},
    **{name: {0: "input"} for name in ("addmm", "baddbmm", "addbmm", "addmv", "addr", "addcmul", "addcdiv")},
}
"""The arguments that other functions add, by position and name."""


@dataclass
class Constants:
    """The constants that a pass adds, which are its bias.

    Attributes:
        leaves: Of each constant, its value and in which module it is added; the value is a leaf of the graph.
        held_bias: The sum of the products of held values and their gradients.
    """

    leaves: list[tuple[Tensor, str]] = field(default_factory=list)
    held_bias: float = 0.0

    def collect(self, products: Tensor) -> None:
        """Add a product of held values and gradients that a rule reports to the bias."""
        self.held_bias += float(products.double().sum())


class _ConstantLeaves(RecordedInputs):
    """Turns the constants that a pass adds into leaves, and records outputs and modules in the nodes' metadata.

    Args:
        constants: Gets the leaves.
        paths: The paths of modules, by their ids.
    """

    def __init__(self, constants: Constants, paths: Mapping[int, str]) -> None:
        super().__init__()
        self.constants, self.paths = constants, paths

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, with the constants that it adds as leaves, and note its value and module."""
        kwargs = kwargs or {}
        function_name = getattr(func, "__name__", "")
        name = function_name.strip("_")
        if (name in _ADDITIVE or name in _ADDED_ARGUMENTS) and _depends_on_input((args, kwargs)):
            is_operator = function_name.endswith("__")
            in_place = function_name.startswith(("__i", "__set")) or (function_name.endswith("_") and not is_operator)
            added_arguments = _ADDED_ARGUMENTS.get(name)

            def is_added(index: int) -> bool:
                if index == 0 and in_place:  # a leaf cannot be changed in place
                    return False
                return added_arguments is None or index in added_arguments

            args = tuple(
                self._as_leaf(value, scalars=name in _WITH_NUMBERS) if is_added(index) else value
                for index, value in enumerate(args)
            )
            kwargs = {
                key: self._as_leaf(value) if added_arguments is None or key in added_arguments.values() else value
                for key, value in kwargs.items()
            }
            if in_place and not _depends_on_input(args[0]):
                self._make_written_leaf(args[0])
        result = super().__torch_function__(func, types, args, kwargs)
        node: Any = result.grad_fn if isinstance(result, Tensor) else None
        if node is not None and holds_its_value(node):
            node.metadata[VALUE] = result.detach()
        # Operations without a rule are named by their module in errors; a function may add several nodes at once.
        while node is not None and not has_rule(node) and MODULE_PATH not in node.metadata:
            node.metadata[MODULE_PATH] = self._path()
            node = node.next_functions[0][0] if node.next_functions else None
        return result

    def _make_written_leaf(self, value: Any) -> None:
        """Replace a constant by a leaf before it is changed in place."""
        if isinstance(value, Tensor) and value.is_floating_point() and not value.is_inference() and bool(value.any()):
            leaf = value.detach().clone().requires_grad_()
            value.copy_(leaf)
            self.constants.leaves.append((leaf, self._path()))

    def _as_leaf(self, value: Any, *, scalars: bool = False) -> Any:
        """Return a constant as a leaf; anything else unchanged."""
        if isinstance(value, Tensor):
            if _depends_on_input(value) or not value.is_floating_point() or value.is_meta:
                return value
            leaf = value.detach().requires_grad_()
        elif isinstance(value, (tuple, list)) and any(isinstance(part, Tensor) for part in value):
            return type(value)(self._as_leaf(part, scalars=scalars) for part in value)
        elif scalars and isinstance(value, (int, float)) and not isinstance(value, bool) and value and isfinite(value):
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


def _depends_on_input(value: Any) -> bool:
    """Return whether a tensor, or one among some arguments, depends on the input: it has a graph and is no weight."""
    if isinstance(value, Tensor):
        return value.requires_grad and not isinstance(value, nn.Parameter)
    if isinstance(value, dict):
        return any(map(_depends_on_input, value.values()))
    return isinstance(value, (tuple, list)) and any(map(_depends_on_input, value))


@contextmanager
def constants_as_leaves(model: nn.Module) -> Iterator[Constants]:
    """Run a pass inside the block with its constants as leaves of its graph."""
    constants = Constants()
    paths = {id(module): path for path, module in model.named_modules()}
    with _biases_as_leaves(model, constants), _ConstantLeaves(constants, paths):
        yield constants


@contextmanager
def _biases_as_leaves(model: nn.Module, constants: Constants) -> Iterator[None]:
    """Turn the biases of modules from outside torch into leaves, as custom functions may add them.

    Additions by torch's own functions are turned into leaves as they are called. Where a module adds its bias by one,
    it is a leaf twice: the later leaf gets the gradient, and this one none, so that the bias counts once.
    """
    replaced: list[tuple[dict[str, Any], Tensor]] = []
    try:
        for path, module in model.named_modules():
            if type(module).__module__.startswith("torch."):
                continue
            for table in (module._parameters, module._buffers, module.__dict__):
                bias = table.get("bias")
                if isinstance(bias, Tensor) and bias.is_floating_point() and bias.ndim == 1:
                    leaf = nn.Parameter(bias.detach())
                    constants.leaves.append((leaf, path))
                    replaced.append((table, bias))
                    table["bias"] = leaf
        yield
    finally:
        for table, bias in replaced:
            table["bias"] = bias


@dataclass(frozen=True)
class Balance:
    """The contributions to an output, and their difference from it.

    Attributes:
        answer: The explained quantity.
        inputs: The sum of the inputs' contributions.
        bias: By module, what the constants that are added in it contribute; "" for held values.
        size: The sum of all contributions without their signs, of which rounding is a part.
    """

    answer: float
    inputs: float
    bias: Mapping[str, float]
    size: float

    def __str__(self) -> str:
        shares = sorted(self.bias.items(), key=lambda pair: -abs(pair[1]))
        lines = [f"{self.answer:+9.4f}  the answer", f"{self.inputs:+9.4f}  its input"]
        return "\n".join(lines + [f"{share:+9.4f}  {path or 'held values'}" for path, share in shares if share])

    @property
    def difference(self) -> float:
        """The difference between the output and the sum of the contributions."""
        return abs(self.answer - self.inputs - sum(self.bias.values()))


def balance(answer: Tensor, input_leaves: Sequence[Tensor], constants: Constants) -> Balance:
    """Return the contributions of the inputs and of all constants to an output, from one backward pass.

    Args:
        answer: The explained quantity, a scalar with the graph of a pass under `constants_as_leaves`; it is kept.
        input_leaves: By what the input enters the graph; their gradients are contributions, see `readout.read_out`.
        constants: The constants of the pass.

    Raises:
        UnsupportedModelError: If no gradient arrives at an input.
    """
    leaves = [*input_leaves, *(leaf for leaf, _ in constants.leaves)]
    constants.held_bias = 0.0
    with frozen_backward(answer, input_leaves, constants.collect):
        gradients = torch.autograd.grad(answer, leaves, retain_graph=True, allow_unused=True)
    if all(gradient is None for gradient in gradients[: len(input_leaves)]):
        raise UnsupportedModelError("cannot be frozen: nothing flows from the input to the answer")
    inputs, size = 0.0, 0.0
    bias: dict[str, float] = defaultdict(float)
    for index, (leaf, gradient) in enumerate(zip(leaves, gradients, strict=True)):
        if gradient is None:
            continue
        is_input = index < len(input_leaves)
        products = gradient.double()
        if not is_input:  # a constant that excludes an answer may be infinite, and nothing of it arrives
            products = products * leaf.detach().double().masked_fill(gradient == 0, 0.0)
        contribution = float(products.sum())
        size += float(products.abs().sum())
        if is_input:
            inputs += contribution
        else:
            bias[constants.leaves[index - len(input_leaves)][1]] += contribution
    bias[""] += constants.held_bias
    return Balance(float(answer.detach()), inputs, dict(bias), size + abs(constants.held_bias))


@proof(
    compares="what the input and all constants of the model contribute, and the model's logits",
    tolerance="rounding, relative to the sum of all contributions without their signs",
    why="each rule gives what its operation passes on; what hides how it depends on the input shows",
    when="first use of frozen-gradient; one backward pass",
)
def prove_conservation(
    name: str, answer: Tensor, input_leaves: Sequence[Tensor], constants: Constants, dtype: torch.dtype
) -> Balance:
    """Prove that the contributions of a frozen backward pass add up to the output.

    Args:
        name: The model's class.
        answer: Logits with the graph of a pass under `constants_as_leaves`; a random sum of them is compared.
        input_leaves: As for `balance`.
        constants: As for `balance`.
        dtype: The precision of the model.

    Returns:
        The sums.

    Raises:
        UnsupportedModelError: If contributions do not add up to the answer, or an operation has no rule.
    """
    blocked = operations_without_gradient(answer) if answer.requires_grad else ["any of its operations"]
    if blocked:
        raise UnsupportedModelError(
            f"{name} cannot be frozen: no gradient flows through {', '.join(blocked[:3])}, as where weights and "
            "activations are quantised; load it in another precision, or use a method without gradients"
        )
    weights = torch.randn(answer.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(answer)
    finite = answer.isfinite() & (answer.abs() < EXCLUDED)
    finite = finite if finite.any() else answer.isfinite()  # the values of a regression model may all be large
    total = (answer.masked_fill(~finite, 0.0) * weights).sum()
    try:
        result = balance(total, input_leaves, constants)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{name} {error}") from error
    if not result.difference <= rounding_of(dtype) * max(1.0, result.size, abs(result.answer)):
        raise UnsupportedModelError(
            f"{name} cannot be frozen: the contributions of its input and its biases do not add up to its answer, by "
            f"{result.difference:.2g} of {result.answer:.4g}: an operation that is not linear has no rule, or a wrong "
            "one"
        )
    return result
