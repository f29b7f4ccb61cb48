"""Forward passes for a frozen backward pass: the one place that intercepts what a copy of the model computes.

The answer stays the model's own. What the backward pass needs beside autograd's graph is noted on its nodes: the inputs
of functions of which torch saves only the output, and, in a pass that is proved, what is held and the modules' paths.
The proof's constants become leaves of the same graph (`Constants`).
"""

import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from .backward import MODULE_PATH, frozen_backward, has_rule
from .rules import RULES
from .slopes import INPUT, VALUE, divide, keep_value, power, stem

_SAVING_OUTPUTS = frozenset(
    getattr(namespace, name)
    for namespace in (torch, Tensor, torch.special)
    for name in ("tanh", "sigmoid", "expm1", "expit", "log_softmax", "tanh_", "sigmoid_", "expm1_")
    if hasattr(namespace, name)
) | {torch.nn.functional.log_softmax}
"""Functions of which torch saves only the output."""

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
    **{f"{kind}_norm": {3: "bias"} for kind in ("layer", "group")},
    **{f"{kind}_norm": {4: "bias"} for kind in ("instance", "batch")},
    **{f"conv{transposed}{axes}d": {2: "bias"} for transposed in ("", "_transpose") for axes in (1, 2, 3)},
    **{name: {0: "input"} for name in ("addmm", "baddbmm", "addbmm", "addmv", "addr", "addcmul", "addcdiv")},
}
"""The arguments that other functions add, by position and name."""


@dataclass
class Constants:
    """The constants that a pass of a copy adds, which are its bias.

    Attributes:
        copy: The copy.
        leaves: Of each constant, its value and in which module it is added; the value is a leaf of the graph.
        paths: The paths of modules, by their ids.
    """

    copy: nn.Module
    leaves: list[tuple[Tensor, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paths: dict[int, str] = {id(module): path for path, module in self.copy.named_modules()}

    def as_leaf(self, value: Any, *, numbers: bool = False) -> Any:
        """Return a constant as a leaf; anything else unchanged."""
        if isinstance(value, Tensor):
            if _depends_on_input(value) or not value.is_floating_point() or value.is_meta:
                return value
            leaf = value.detach().requires_grad_()
        elif isinstance(value, (tuple, list)) and any(isinstance(part, Tensor) for part in value):
            return type(value)(self.as_leaf(part, numbers=numbers) for part in value)
        elif numbers and isinstance(value, (int, float)) and not isinstance(value, bool) and value and isfinite(value):
            leaf = torch.tensor(value, dtype=torch.float64).requires_grad_()
        else:
            return value
        self.leaves.append((leaf, self.path()))
        return leaf

    def added(self, function_name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments of a call with the constants that it adds as leaves."""
        name = function_name.strip("_")
        arguments = _ADDED_ARGUMENTS.get(name)
        if (arguments is None and name not in _ADDITIVE) or not _depends_on_input((args, kwargs)):
            return args, kwargs
        is_operator = function_name.endswith("__")
        in_place = function_name.startswith(("__i", "__set")) or (function_name.endswith("_") and not is_operator)
        args = tuple(
            self.as_leaf(value, numbers=name in _WITH_NUMBERS)
            if not (in_place and index == 0) and (arguments is None or index in arguments)  # no leaf is written on
            else value
            for index, value in enumerate(args)
        )
        kwargs = {
            key: self.as_leaf(value) if arguments is None or key in arguments.values() else value
            for key, value in kwargs.items()
        }
        if in_place and not _depends_on_input(args[0]):  # a constant that the input is written on
            value = args[0]
            if isinstance(value, Tensor) and value.is_floating_point() and not value.is_inference() and value.any():
                value.copy_(self.as_leaf(value.clone()))
        return args, kwargs

    def path(self) -> str:
        """Find the module whose forward is running."""
        frame = sys._getframe(1)
        while frame is not None:
            if (path := self.paths.get(id(frame.f_locals.get("self")))) is not None:
                return path
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    @contextmanager
    def biases_as_leaves(self) -> Iterator[None]:
        """Turn the biases of modules from outside torch into leaves, as custom functions may add them.

        Where a module adds its bias by a function of torch, it is a leaf twice: the later leaf gets the gradient, and
        this one none, so that the bias counts once.
        """
        replaced: list[tuple[dict[str, Any], Tensor]] = []
        try:
            for path, module in self.copy.named_modules():
                if type(module).__module__.startswith("torch."):
                    continue
                for table in (module._parameters, module._buffers, module.__dict__):
                    bias = table.get("bias")
                    if isinstance(bias, Tensor) and bias.is_floating_point() and bias.ndim == 1:
                        table["bias"] = leaf = nn.Parameter(bias.detach())
                        self.leaves.append((leaf, path))
                        replaced.append((table, bias))
            yield
        finally:
            for table, bias in replaced:
                table["bias"] = bias


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
        if func is torch._C._set_grad_enabled:  # what a model computes without gradients is part of its answer, too
            return None
        kwargs, constants, x = kwargs or {}, self.constants, None
        if constants is not None:
            args, kwargs = constants.added(getattr(func, "__name__", ""), args, kwargs)
        if func in _SAVING_OUTPUTS:
            x = args[0] if args else kwargs["input"]
            x = x.detach().clone() if func.__name__.endswith("_") else x.detach()
        result = func(*args, **kwargs)
        if (x is not None or constants is not None) and isinstance(result, Tensor) and result.grad_fn is not None:
            node: Any = result.grad_fn
            if x is not None:
                node.metadata[INPUT] = x
            if constants is not None:
                _note_for_proof(node, result, constants)
        return result


def _note_for_proof(node: Any, result: Tensor, constants: Constants) -> None:
    """Note a value that may be held, and of operations without a rule their module; a call may add several nodes."""
    if (row := RULES.get(stem(node))) is not None and row.slope in (keep_value, divide, power):
        node.metadata[VALUE] = result.detach()
    while node is not None and not has_rule(node) and MODULE_PATH not in node.metadata:
        node.metadata[MODULE_PATH] = constants.path()
        node = node.next_functions[0][0] if node.next_functions else None


def with_constant_weights(copy: nn.Module) -> nn.Module:
    """Make the weights of a private copy constants of its passes: no graph is built for them.

    They share the storage of the model's own, see `copies.pool.PooledCopy.refresh`.
    """
    constants: dict[int, nn.Parameter] = {}
    for module in copy.modules():
        table = module.__dict__["_parameters"]
        for name, weight in table.items():
            if weight is not None and weight.requires_grad and type(weight) is nn.Parameter:
                table[name] = constants.setdefault(id(weight), nn.Parameter(weight.detach(), requires_grad=False))
        config: Any = getattr(module, "config", None)
        if hasattr(config, "use_cache"):
            config.use_cache = False  # a layer that runs again must not find the keys that it left
    return copy


@contextmanager
def recorded(copy: nn.Module, *, careful: bool = False, constants: Constants | None = None) -> Iterator[None]:
    """Run passes of a copy inside the block with a graph for a frozen backward pass.

    Args:
        copy: The copy.
        careful: For models that write on what their backward pass needs, or bring autograd functions of their own:
            what is saved is cloned, and autograd differentiates the inside of these functions.
        constants: Gets the constants of a pass that is proved.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        if constants is not None:
            stack.enter_context(constants.biases_as_leaves())
        stack.enter_context(Recording(constants))
        if careful:
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_cloned, lambda saved: saved))
            for module in copy.modules():
                if (forward := _with_plain_functions(module)) is not None:
                    _replace_forward(stack, module, forward)
        yield


def _cloned(saved: Tensor) -> Tensor:
    """Return a copy of a tensor that autograd saves, unless it is a weight."""
    return saved if isinstance(saved, nn.Parameter) else saved.detach().clone()  # with its graph it would not be freed


def _replace_forward(stack: ExitStack, module: nn.Module, forward: Callable[..., Any]) -> None:
    """Replace a module's `forward` until an exit stack is closed."""
    replaced = module.__dict__.get("forward")
    stack.callback(
        lambda: module.__dict__.pop("forward") if replaced is None else module.__dict__.update(forward=replaced)
    )
    module.__dict__["forward"] = forward


# --- autograd functions of the model's own: opened, where their forward is of torch's operations ---------------------


def _with_plain_functions(module: nn.Module) -> Callable[..., Any] | None:
    """Return a module's forward in which autograd differentiates the inside of custom functions; None without any."""
    forward = getattr(module.forward, "__func__", None)
    if not isinstance(forward, types.FunctionType):
        return None
    used = {name: forward.__globals__.get(name) for name in forward.__code__.co_names}
    functions = {n: _Opened(f) for n, f in used.items() if isinstance(f, type) and issubclass(f, Function)}
    if not functions:
        return None
    opened = types.FunctionType(
        forward.__code__, forward.__globals__ | functions, forward.__name__, forward.__defaults__, forward.__closure__
    )
    opened.__kwdefaults__ = forward.__kwdefaults__
    return types.MethodType(opened, module)


class _Opened:
    """Runs the forward of a custom autograd function as plain operations, with autograd's own backward pass."""

    def __init__(self, function: type[Function]) -> None:
        self.function = function

    def apply(self, *args: Any) -> Any:
        """Run it; if its result has no gradient, as from a kernel of another package, apply the function."""
        separate = self.function.setup_context is not Function.setup_context
        result = self.function.forward(*args) if separate else self.function.forward(_Context(args), *args)
        results = result if isinstance(result, tuple) else (result,)
        return result if any(isinstance(r, Tensor) and r.requires_grad for r in results) else self.function.apply(*args)


class _Context:
    """The context that a custom autograd function writes to in its forward; it is never read."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(isinstance(value, Tensor) and value.requires_grad for value in args)

    def save_for_backward(self, *_: Any) -> None:
        """Save nothing."""

    mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_forward = save_for_backward


# --- gradient checkpointing ------------------------------------------------------------------------------------------


@contextmanager
def checkpointed(copy: nn.Module, paths: Iterable[str]) -> Iterator[None]:
    """Let modules, none inside another, keep only their inputs in the block, and run again in the backward pass."""
    with ExitStack() as stack:
        for path in set(paths):
            module = copy.get_submodule(path)
            _replace_forward(stack, module, partial(_call_checkpointed, module.forward))
        yield


class _Checkpoint(Function):
    """A module that saves only its inputs, and runs again in the frozen backward pass.

    Torch's own checkpointing gives saved tensors out once, to torch's gradient, and not once more to the rules.
    """

    @staticmethod
    def forward(ctx: Any, run: Callable[..., list[Any]], slots: list[Any], *tensors: Tensor) -> Any:
        """Run a module and return its floating-point outputs; list all in `slots`, with this class in their places."""
        ctx.run = run
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        with torch.no_grad():
            values = run(*tensors)
        ctx.floats = [index for index, value in enumerate(values) if _is_float(value)]
        slots += [_Checkpoint if _is_float(value) else value for value in values]
        return tuple(values[index] for index in ctx.floats)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """Run the module again with a graph, and backpropagate through it by the rules of the frozen network."""
        leaves = [value.detach().requires_grad_() for value in ctx.saved_tensors]
        with torch.enable_grad(), Recording():
            values = ctx.run(*(leaf.clone() for leaf in leaves))
        pairs = [(values[index], g) for index, g in zip(ctx.floats, gradients, strict=True) if g is not None]
        pairs = [(value, gradient) for value, gradient in pairs if value.requires_grad]
        if not pairs:
            return (None,) * (2 + len(leaves))
        outputs, output_gradients = zip(*pairs, strict=True)
        with frozen_backward(outputs, leaves):
            return None, None, *torch.autograd.grad(outputs, leaves, output_gradients, allow_unused=True)


def _call_checkpointed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a module's forward with gradient checkpointing.

    An autograd function takes and returns tensors alone, so the arguments and outputs are flattened around it.
    """
    flat, structure = tree_flatten((args, kwargs))
    moving = [index for index, value in enumerate(flat) if isinstance(value, Tensor) and value.requires_grad]
    if not moving:
        return forward(*args, **kwargs)
    output_structures: list[Any] = []

    def run(*tensors: Tensor) -> list[Any]:
        arguments = list(flat)
        for index, value in zip(moving, tensors, strict=True):
            arguments[index] = value
        inner_args, inner_kwargs = tree_unflatten(arguments, structure)
        outputs, output_structure = tree_flatten(forward(*inner_args, **inner_kwargs))
        output_structures[:] = [output_structure]
        return outputs

    slots: list[Any] = []  # the flat outputs, filled by `_Checkpoint`, with the class itself where a float tensor goes
    tensors = [flat[index] for index in moving]
    for index in moving:
        flat[index] = None  # kept by the graph
    floats = iter(_Checkpoint.apply(run, slots, *tensors))  # type: ignore[no-untyped-call]
    return tree_unflatten([next(floats) if v is _Checkpoint else v for v in slots], output_structures[0])


def _is_float(value: Any) -> bool:
    """Return whether a value is a floating-point tensor."""
    return isinstance(value, Tensor) and value.is_floating_point()
