"""Forward passes for a frozen backward pass: constant weights, checkpointing, and no custom backward passes."""

import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils._pytree import tree_flatten, tree_unflatten

from .backward import RecordedInputs, frozen_backward


def with_constant_weights(copy: nn.Module) -> nn.Module:
    """Make the weights of a private copy constants of its passes: no graph is built for them.

    They share the storage of the model's own, see `copies.pool.Lease.refresh`.
    """
    constants: dict[int, nn.Parameter] = {}
    for module in copy.modules():
        table = module.__dict__["_parameters"]
        for name, weight in table.items():
            if weight is not None and weight.requires_grad and type(weight) is nn.Parameter:
                if id(weight) not in constants:
                    constants[id(weight)] = nn.Parameter(weight.detach(), requires_grad=False)
                table[name] = constants[id(weight)]
        config: Any = getattr(module, "config", None)
        if hasattr(config, "use_cache"):
            config.use_cache = False  # a layer that runs again must not find the keys that it left
    return copy


@contextmanager
def differentiable(copy: nn.Module, checkpointed: Iterable[str] = (), *, careful: bool = False) -> Iterator[None]:
    """Run passes of a copy inside the block with a graph for a frozen backward pass.

    Args:
        copy: The copy.
        checkpointed: Paths of modules, none inside another, that keep only their input, and run again in the backward
            pass (gradient checkpointing).
        careful: For models that write on what their backward pass needs, or bring autograd functions of their own:
            what is saved is cloned, and autograd differentiates the inside of these functions.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(RecordedInputs())
        if careful:
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_cloned_saved, lambda saved: saved))
            for module in copy.modules():
                if (forward := _with_plain_functions(module)) is not None:
                    _replace_forward(stack, module, forward)
        for path in set(checkpointed):
            module = copy.get_submodule(path)
            _replace_forward(stack, module, partial(_call_checkpointed, module.forward))
        yield


def _replace_forward(stack: ExitStack, module: nn.Module, forward: Callable[..., Any]) -> None:
    """Replace a module's `forward` until an exit stack is closed."""
    replaced = module.__dict__.get("forward")
    stack.callback(
        lambda: module.__dict__.pop("forward") if replaced is None else module.__dict__.update(forward=replaced)
    )
    module.__dict__["forward"] = forward


def _cloned_saved(saved: Tensor) -> Tensor:
    """Return a copy of a tensor that autograd saves, unless it is a weight."""
    return saved if isinstance(saved, nn.Parameter) else saved.detach().clone()  # with its graph it would not be freed


# --- gradient checkpointing ------------------------------------------------------------------------------------------


class _Checkpoint(Function):
    """Gradient checkpointing: a module that saves only its inputs, and runs again in the frozen backward pass.

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
        ctx.float_indices = [index for index, value in enumerate(values) if _is_float(value)]
        slots += [_Checkpoint if _is_float(value) else value for value in values]
        return tuple(values[index] for index in ctx.float_indices)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """Run the module again with a graph, and backpropagate through it by the rules of the frozen network."""
        leaves = [value.detach().requires_grad_() for value in ctx.saved_tensors]
        with torch.enable_grad(), RecordedInputs():
            values = ctx.run(*(leaf.clone() for leaf in leaves))
        pairs = [
            (values[index], gradient)
            for index, gradient in zip(ctx.float_indices, gradients, strict=True)
            if gradient is not None and values[index].requires_grad
        ]
        outputs = [value for value, _ in pairs]
        if not pairs:
            return (None,) * (2 + len(leaves))
        output_gradients = [gradient for _, gradient in pairs]
        with frozen_backward(outputs, leaves):
            input_gradients = torch.autograd.grad(outputs, leaves, output_gradients, allow_unused=True)
        return None, None, *input_gradients


def _call_checkpointed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a module's forward with gradient checkpointing.

    An autograd function takes and returns tensors alone, so the arguments and outputs are flattened around it.
    """
    flat_arguments, structure = tree_flatten((args, kwargs))
    tensor_indices = [
        index for index, value in enumerate(flat_arguments) if isinstance(value, Tensor) and value.requires_grad
    ]
    if not tensor_indices:
        return forward(*args, **kwargs)
    output_structures: list[Any] = []

    def run(*tensors: Tensor) -> list[Any]:
        arguments = list(flat_arguments)
        for index, value in zip(tensor_indices, tensors, strict=True):
            arguments[index] = value
        inner_args, inner_kwargs = tree_unflatten(arguments, structure)
        outputs, output_structure = tree_flatten(forward(*inner_args, **inner_kwargs))
        output_structures[:] = [output_structure]
        return outputs

    slots: list[Any] = []  # the flat outputs, filled by `_Checkpoint`, with the class itself where a float tensor goes
    tensors = [flat_arguments[index] for index in tensor_indices]
    for index in tensor_indices:
        flat_arguments[index] = None  # kept by the graph
    float_outputs = iter(_Checkpoint.apply(run, slots, *tensors))  # type: ignore[no-untyped-call]
    outputs = [next(float_outputs) if value is _Checkpoint else value for value in slots]
    return tree_unflatten(outputs, output_structures[0])


def _is_float(value: Any) -> bool:
    """Return whether a value is a floating-point tensor."""
    return isinstance(value, Tensor) and value.is_floating_point()


# --- autograd functions of the model's own ---------------------------------------------------------------------------


def _with_plain_functions(module: nn.Module) -> Callable[..., Any] | None:
    """Return a module's forward in which autograd differentiates the inside of custom functions.

    Returns:
        None if it applies none.
    """
    forward = getattr(module.forward, "__func__", None)
    if not isinstance(forward, types.FunctionType):
        return None
    globals_used = {name: forward.__globals__.get(name) for name in forward.__code__.co_names}
    functions = {
        name: _PlainFunction(value)
        for name, value in globals_used.items()
        if isinstance(value, type) and issubclass(value, Function)
    }
    if not functions:
        return None
    forward_copy = types.FunctionType(
        forward.__code__, forward.__globals__ | functions, forward.__name__, forward.__defaults__, forward.__closure__
    )
    forward_copy.__kwdefaults__ = forward.__kwdefaults__
    return types.MethodType(forward_copy, module)


class _PlainFunction:
    """Runs the forward of a custom autograd function as plain operations, with autograd's own backward pass."""

    def __init__(self, function: type[Function]) -> None:
        self.function = function

    def apply(self, *args: Any) -> Any:
        """Run it; if its result has no gradient, as from a kernel of another package, apply the function."""
        separate = self.function.setup_context is not Function.setup_context
        result = self.function.forward(*args) if separate else self.function.forward(_Context(args), *args)
        results = result if isinstance(result, tuple) else (result,)
        if any(isinstance(value, Tensor) and value.requires_grad for value in results):
            return result
        return self.function.apply(*args)


class _Context:
    """The context that a custom autograd function writes to in its forward; it is never read."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(isinstance(value, Tensor) and value.requires_grad for value in args)

    def save_for_backward(self, *_: Any) -> None:
        """Save nothing."""

    mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_forward = save_for_backward
