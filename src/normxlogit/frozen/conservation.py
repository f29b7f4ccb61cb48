"""The proof of a frozen pass: what its input and all that the model adds contribute sums to its answer.

The frozen network is affine: f(x) = <g, x> + sum over constants c of <g_c, c>, for all that the model adds, leaves of a
pass that is proved. A rule that is wrong, or an operation that hides what is not linear, shows as a difference.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.module_io import Inputs
from ..errors import UnsupportedModelError
from ..parts.proofs import proof, rounding_of
from .backward import MODULE_PATH
from .rules import RULES
from .slopes import VALUE, divide, keep_value, operation_name, power

_WITH_NUMBERS = frozenset(["add", "sub", "subtract", "rsub", "radd", "iadd", "isub", "where", "masked_fill"])
"""Functions whose constants are part of the bias, also Python's numbers, by name without underscores."""

_ADDITIVE = _WITH_NUMBERS | {
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "append", "copy", "setitem", "lerp",
    "masked_scatter", "index_put", "index_add", "index_copy", "scatter", "scatter_add", "maximum", "minimum", "fmax",
    "fmin", "gru", "lstm", "rnn_tanh", "rnn_relu", "gru_cell", "lstm_cell",
}  # fmt: skip
"""Functions whose constant tensors are part of the bias, by name without underscores."""

_ADDED_ARGUMENTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(["addmm", "baddbmm", "addbmm", "addmv", "addr", "addcmul", "addcdiv"], (0,)),
    **dict.fromkeys(["linear", *(f"conv{form}{axes}d" for form in ("", "_transpose") for axes in (1, 2, 3))], (2,)),
    **dict.fromkeys(["bilinear", "layer_norm", "group_norm"], (3,)),
    **dict.fromkeys(["instance_norm", "batch_norm"], (4,)),
    "multi_head_attention_forward": (6, 7, 8, 12),
}
"""The arguments that other functions add, by position; by keyword, they are an input or a bias."""


class Conservation:
    """The proof of a recorded pass over one text, in a backward pass through it.

    The pass is run with `watch` and under a `Recording`, which calls `as_leaves` and `note` for each operation. The
    backward pass calls `hold` for each held value, and `check` compares the sum with the answer.

    Args:
        accept: Called when the proof holds.

    Attributes:
        leaves: The constants that the pass adds, which are its bias.
        modules_to_record: The paths of modules that need a `Recording` in later passes, "" for the whole model.
        held: What held values contribute in the backward pass.
    """

    def __init__(self, accept: Callable[[], object] = lambda: None) -> None:
        self._accept = accept
        self._dtypes = {torch.float32}  # of the results of operations: a model may compute in another than its weights'
        self.leaves: list[Tensor] = []
        self.modules_to_record: set[str] = set()
        self.held: list[Tensor] = []
        self._paths: dict[int, str] = {}  # where the modules of the copy are, by their ids

    def watch(self, copy: nn.Module, stack: ExitStack) -> None:
        """Make biases that autograd functions of other packages may add leaves until an exit stack is closed.

        Args:
            copy: The copy that runs.
            stack: The exit stack, at whose end the copy has its own biases again.
        """
        self._paths = {id(module): path for path, module in copy.named_modules()}
        tables: list[Any] = []  # where a module may hold its bias
        for module in copy.modules():
            # The modules of torch call functions of torch, which `as_leaves` sees.
            if not type(module).__module__.startswith("torch."):
                tables += [module._parameters, module._buffers, module.__dict__]
        for table in tables:
            bias = table.get("bias")
            # Other shapes are no bias of channels; and only floating numbers have a gradient.
            if isinstance(bias, Tensor) and bias.is_floating_point() and bias.ndim == 1:
                stack.callback(table.__setitem__, "bias", bias)
                table["bias"] = nn.Parameter(bias.detach())
                self.leaves.append(table["bias"])

    def as_leaf(self, value: Any, *, numbers: bool = False) -> Any:
        """Return a constant as a leaf, also in a tuple or list; anything else unchanged.

        Args:
            value: Any argument of a call.
            numbers: Whether Python's numbers become leaves, too.
        """
        if type(value) in (tuple, list):
            return type(value)(self.as_leaf(part, numbers=numbers) for part in value)
        if _is_constant(value):
            leaf = value.detach()
        elif numbers and type(value) in (int, float) and value and isfinite(value):  # 0 adds nothing, infinity excludes
            leaf = torch.tensor(value, dtype=torch.float64)  # without axes, it changes no precision of float tensors
        else:
            return value
        self.leaves.append(leaf.requires_grad_())
        return leaf

    def as_leaves(self, function_name: str, args: Any, kwargs: Inputs) -> tuple[Any, Any]:
        """Return the arguments of a call with the constants that it adds as leaves.

        Args:
            function_name: The name of the function, such as "__add__" or "conv2d".
            args: The positional arguments.
            kwargs: The others.

        Returns:
            Both, with leaves in the places of the constants that the call adds to what depends on the input.
        """
        name = function_name.strip("_")
        added = range(len(args)) if name in _ADDITIVE else _ADDED_ARGUMENTS.get(name)  # indices of `args`
        # What is computed of constants alone is a constant, and a leaf where it is added to what depends on the input.
        if added is None or not _depends_on_input((args, kwargs)):
            return args, kwargs
        leaves = list(args)
        is_written_on = _writes_on_first(function_name)
        if is_written_on:
            self._watch_overwritten(args[0])
        for index in added:
            if index < len(args) and not (index == 0 and is_written_on):  # autograd lets nobody write on a leaf
                leaves[index] = self.as_leaf(args[index], numbers=name in _WITH_NUMBERS)
        return tuple(leaves), {**kwargs, **{key: self.as_leaf(kwargs[key]) for key in _added_keywords(name, kwargs)}}

    def _watch_overwritten(self, written: Tensor) -> None:
        """Let a constant that a function writes on be the copy of a leaf; zeros add nothing."""
        if _is_constant(written) and not written.is_inference() and written.any():
            written.copy_(self.as_leaf(written.clone()))

    def note(self, node: Any, result: Tensor) -> None:
        """Note what the proof needs of an operation: its precision, its value if a slope may hold it, and its module.

        Args:
            node: The last node that its call added to the autograd graph, which computed the result.
            result: The tensor that it returned.
        """
        self._dtypes.add(result.dtype)  # `check` allows for the rounding of the coarsest
        row = RULES.get(operation_name(node))
        # These slopes may treat the result as a constant, and count it in the sum; see `keep_value`.
        if row is not None and row.slope in (keep_value, divide, power):
            node.metadata[VALUE] = result.detach()
        # The backward pass refuses a node without a rule, and its error names the module. A call may add several nodes:
        # go back over them until a node that needs no module, or has that of an earlier call.
        while node is not None and operation_name(node) not in RULES and MODULE_PATH not in node.metadata:
            node.metadata[MODULE_PATH] = self.path()
            node = node.next_functions[0][0] if node.next_functions else None

    def require_recording(self) -> None:
        """Note that the module that is being called needs a `Recording`."""
        path = self.path()
        if path is not None:
            self.modules_to_record.add(path)

    def path(self) -> str | None:
        """Find the innermost module that is being called, "" for the model itself; None if none is."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            # Torch calls each module in `nn.Module._call_impl`. To read the local variables of every frame would take
            # longer than the pass.
            if frame.f_code.co_name == "_call_impl":
                path = self._paths.get(id(frame.f_locals.get("self")))
                if path is not None:
                    return path
            frame = frame.f_back
        return None

    def hold(self, contribution: Tensor) -> None:
        """Count the contribution of a value that a rule holds constant: it is part of the answer, and no input's."""
        self.held.append(contribution.double().sum())

    @proof(
        compares="what the input and all constants of the model contribute, and what is explained; of the head alone, "
        "a random sum of its logits",
        tolerance="rounding, relative to the sum of all contributions without their signs",
        why="each rule gives what its operation passes on; what hides how it depends on the input shows",
        when="first use of frozen-gradient; nothing more for a short text alone, otherwise a backward pass",
    )
    def check(self, answer: Tensor, inputs: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
        """Refuse the pass if its inputs and constants, times their gradients, do not add up to the answer.

        Args:
            answer: What the pass answers, of any shape.
            inputs: What enters the graph, (1, T, H) each.
            gradients: Those of the answer, of the inputs, and of `leaves`; None where none arrived.

        Raises:
            UnsupportedModelError: If they do not.
        """
        input_count = len(inputs)
        if all(gradient is None for gradient in gradients[1 : 1 + input_count]):
            raise UnsupportedModelError("the model cannot be frozen: nothing flows from the input to the answer")
        explained, *products = map(_products, [answer, *inputs, *self.leaves], gradients)
        by_token = [product.sum(-1) for product in products[:input_count]]  # contributions, whose magnitudes are summed
        of_constants = products[input_count:]
        terms = [explained, *self.held, *by_token, *of_constants]
        # Of each term its sum, and the sum of its magnitudes, to which rounding is relative.
        sums = [torch.stack((term.sum(), term.abs().sum())).to(answer.device) for term in terms]
        explained_and_total = torch.stack((sums[0], torch.stack(sums[1:]).sum(0)))
        (value, value_size), (total, size) = explained_and_total.tolist()  # one transfer
        dtypes = {*self._dtypes, answer.dtype, *(vector.dtype for vector in inputs)}
        # Not those of one byte, whose rounding would allow any difference.
        floating = [dtype for dtype in dtypes if dtype.is_floating_point and dtype.itemsize > 1]
        coarsest = max(floating, key=lambda dtype: torch.finfo(dtype).eps)
        # Written so that NaN is refused.
        if not abs(value - total) <= rounding_of(coarsest) * max(1.0, value_size, size):
            raise UnsupportedModelError(
                "the model cannot be frozen: contributions of its input and its biases do not add up to its answer, by "
                f"{abs(value - total):.2g} of {value:.4g}: an operation that is not linear has no rule, or a wrong one"
            )
        self._accept()


def _products(vector: Tensor, gradient: Tensor | None) -> Tensor:
    """Return a gradient times its vector, in the vector's shape; zero where no gradient arrived."""
    if gradient is None:
        return torch.zeros((), dtype=torch.float64)
    gradient = gradient.double()
    # What excludes an output is infinite, and times its gradient of zero NaN.
    return gradient * vector.detach().double().masked_fill(gradient == 0, 0.0)


def _added_keywords(name: str, kwargs: Inputs) -> list[str]:
    """Return the keywords of arguments that a function adds: an input or a bias."""
    return [key for key in kwargs if name in _ADDITIVE or key == "input" or "bias" in key]


def _writes_on_first(function_name: str) -> bool:
    """Return whether a function writes on its first argument, as `add_`, `__iadd__` and `__setitem__` do."""
    is_operator = function_name.endswith("__")
    return function_name.startswith(("__i", "__set")) or (function_name.endswith("_") and not is_operator)


def _is_constant(value: Any) -> bool:
    """Return whether a value is a tensor of the model's own, or computed from such, that may have a gradient."""
    # A subclass may store quantised values, and a meta tensor, of offloaded weights, has none.
    if type(value) not in (Tensor, nn.Parameter) or value.is_meta:
        return False
    return value.is_floating_point() and not _depends_on_input(value)


def _depends_on_input(value: Any) -> bool:
    """Return whether a tensor, or one of some arguments, depends on the input: it has a graph and is not a weight."""
    if isinstance(value, Tensor):
        return value.requires_grad and not isinstance(value, nn.Parameter)
    if isinstance(value, dict):
        return any(map(_depends_on_input, value.values()))
    return isinstance(value, (tuple, list)) and any(map(_depends_on_input, value))
