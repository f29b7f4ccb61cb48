"""Forward passes for a frozen backward pass: the one place that intercepts what a copy of the model computes.

The answer stays the model's own. What the backward pass needs beside autograd's graph is noted on its nodes: the inputs
of functions of which torch saves only the output, and, in a pass that is proved, what is held and the modules' paths.
There, the constants that the model adds become leaves of the same graph.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from .backward import MODULE_PATH
from .rules import LEAF, RULES
from .slopes import INPUT, VALUE, divide, keep_value, power, stem

_SAVING_OUTPUTS = frozenset(
    getattr(namespace, name)
    for namespace in (torch, Tensor, torch.special)
    for name in ("tanh", "sigmoid", "expm1", "expit", "log_softmax", "tanh_", "sigmoid_", "expm1_")
    if hasattr(namespace, name)
) | {torch.nn.functional.log_softmax}
"""Functions of which torch saves only the output."""

_WITH_NUMBERS = frozenset(["add", "sub", "subtract", "rsub", "radd", "iadd", "isub", "where", "masked_fill"])
_ADDITIVE = _WITH_NUMBERS | {
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "append", "copy", "setitem", "lerp",
    "masked_scatter", "index_put", "index_add", "index_copy", "scatter", "scatter_add", "maximum", "minimum", "fmax",
    "fmin", "gru", "lstm", "rnn_tanh", "rnn_relu", "gru_cell", "lstm_cell",
}  # fmt: skip
"""Functions whose constant tensors, and of some whose numbers, are part of the bias, by name without underscores."""

_ADDED_ARGUMENTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(["addmm", "baddbmm", "addbmm", "addmv", "addr", "addcmul", "addcdiv"], (0,)),
    **dict.fromkeys(["linear", *(f"conv{way}{axes}d" for way in ("", "_transpose") for axes in (1, 2, 3))], (2,)),
    **dict.fromkeys(["bilinear", "layer_norm", "group_norm"], (3,)),
    **dict.fromkeys(["instance_norm", "batch_norm"], (4,)),
    "multi_head_attention_forward": (6, 7, 8, 12),
}
"""The arguments that other functions add, by position; by keyword, they are an input or a bias."""


class Constants:
    """The constants that a pass of a copy adds, which are its bias.

    Attributes:
        leaves: Their values, which are leaves of the graph.
        recorded: The paths of the modules that need a `Recording`, "" for the whole model.
    """

    def __init__(self) -> None:
        self.leaves: list[Tensor] = []
        self.recorded: set[str] = set()
        self._paths: dict[int, str] = {}

    def watch(self, copy: nn.Module, stack: ExitStack) -> None:
        """Make the biases of a copy's modules that are not torch's leaves until an exit stack is closed.

        Autograd functions of other packages may add them. Where a function of torch adds one, it is a leaf twice: the
        later leaf gets the gradient.
        """
        self._paths = {id(module): path for path, module in copy.named_modules()}
        for module in copy.modules():
            if type(module).__module__.startswith("torch."):
                continue
            tables: tuple[Any, ...] = module._parameters, module._buffers, module.__dict__
            for table in tables:
                bias = table.get("bias")
                if isinstance(bias, Tensor) and bias.is_floating_point() and bias.ndim == 1:
                    stack.callback(table.__setitem__, "bias", bias)
                    table["bias"] = leaf = nn.Parameter(bias.detach())
                    self.leaves.append(leaf)

    def as_leaf(self, value: Any, *, numbers: bool = False) -> Any:
        """Return a constant as a leaf; anything else unchanged."""
        if type(value) in (tuple, list):
            return type(value)(self.as_leaf(part, numbers=numbers) for part in value)
        if type(value) in (Tensor, nn.Parameter):
            if _depends_on_input(value) or not value.is_floating_point() or value.is_meta:
                return value
            leaf = value.detach().requires_grad_()
        elif numbers and type(value) in (int, float) and value and isfinite(value):
            leaf = torch.tensor(value, dtype=torch.float64).requires_grad_()
        else:
            return value
        self.leaves.append(leaf)
        return leaf

    def as_leaves(self, function_name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments of a call with the constants that it adds as leaves."""
        name = function_name.strip("_")
        added = range(len(args)) if name in _ADDITIVE else _ADDED_ARGUMENTS.get(name)
        if added is None or not _depends_on_input((args, kwargs)):
            return args, kwargs
        numbers, is_operator = name in _WITH_NUMBERS, function_name.endswith("__")
        in_place = function_name.startswith(("__i", "__set")) or (function_name.endswith("_") and not is_operator)
        written: Any = args[0] if in_place else None  # no leaf is written on
        overwritten = in_place and not _depends_on_input(written) and not written.is_inference()
        if overwritten and written.is_floating_point() and written.any():
            written.copy_(self.as_leaf(written.clone()))
        args = tuple(
            self.as_leaf(value, numbers=numbers) if index in added and value is not written else value
            for index, value in enumerate(args)
        )
        biases = [key for key in kwargs if name in _ADDITIVE or key == "input" or "bias" in key]
        return args, kwargs | {key: self.as_leaf(kwargs[key]) for key in biases}

    def note(self, node: Any, result: Tensor) -> None:
        """Note a value that may be held, and of operations without a rule their module; a call may add several."""
        if (row := RULES.get(stem(node))) is not None and row.slope in (keep_value, divide, power):
            node.metadata[VALUE] = result.detach()
        while node is not None and stem(node) not in RULES and stem(node) != LEAF and MODULE_PATH not in node.metadata:
            node.metadata[MODULE_PATH] = self.path()
            node = node.next_functions[0][0] if node.next_functions else None

    def path(self) -> str | None:
        """Find the innermost module that is being called, "" for the model itself; None if none is."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            # The local variables of every frame would take longer to read than the pass.
            if frame.f_code.co_name == "_call_impl":
                path = self._paths.get(id(frame.f_locals.get("self")))
                if path is not None:
                    return path
            frame = frame.f_back
        return None


def _depends_on_input(value: Any) -> bool:
    """Return whether a tensor, or one among some arguments, depends on the input: it has a graph and is no weight."""
    if isinstance(value, Tensor):
        return value.requires_grad and not isinstance(value, nn.Parameter)
    if isinstance(value, dict):
        return any(map(_depends_on_input, value.values()))
    return isinstance(value, (tuple, list)) and any(map(_depends_on_input, value))


class Recording(TorchFunctionMode):
    """Notes on the nodes of a pass what the rules read and autograd does not save.

    Args:
        constants: Gets the constants of a pass that is proved, as leaves.
    """

    def __init__(self, constants: Constants | None = None) -> None:
        super().__init__()
        self.constants = constants

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, constants, x = kwargs or {}, self.constants, None
        noted = func in _SAVING_OUTPUTS or func is torch._C._set_grad_enabled
        if noted and constants is not None and (path := constants.path()) is not None:
            constants.recorded.add(path)
        if func is torch._C._set_grad_enabled:  # what a model computes without gradients is part of its answer, too
            return None
        if constants is not None:
            args, kwargs = constants.as_leaves(getattr(func, "__name__", ""), args, kwargs)
        if func in _SAVING_OUTPUTS:
            x = args[0] if args else kwargs["input"]
            x = _Saved.apply(x.clone() if func.__name__.endswith("_") else x)  # type: ignore[no-untyped-call]
        result = func(*args, **kwargs)
        if (x is not None or constants is not None) and isinstance(result, Tensor) and result.grad_fn is not None:
            node: Any = result.grad_fn
            if x is not None:
                node.metadata[INPUT] = x.grad_fn
            if constants is not None:
                constants.note(node, result)
        return result


def call_recorded(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a module with a `Recording`, which elsewhere would cost every operation some time."""
    with Recording():
        return call(*args, **kwargs)


class _Saved(Function):
    """Saves a tensor as autograd does, so that hooks of saved tensors see it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Save a tensor."""
        ctx.save_for_backward(x)
        return x.new_empty(0)


@contextmanager
def recorded(copy: nn.Module, constants: Constants | None = None) -> Iterator[None]:
    """Run passes of a copy inside the block with a graph; the constants of one that is proved are leaves of it."""
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(Recording(constants))
        if constants is not None:
            constants.watch(copy, stack)
        yield
