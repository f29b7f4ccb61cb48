"""Activation modules, each treated as one operation of the frozen network, and the model's own autograd functions.

No architecture is named. An activation module that is written in several operations is found by trying it. A function
of autograd that a model brings along is run as what it is written as, so that its operations can be seen.
"""

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from .memory import refuse_to_hide

_HOMES = ("transformers.activations", "torch.nn.modules.activation")
_FAR = (37.0, 53.0)
"""Where an activation is straight: it has saturated, or is the identity or zero."""


def is_activation(module: nn.Module) -> bool:
    """Tell whether a module is an activation.

    It is elementwise when tried, and from torch's or transformers' own activations, or one without weights that is
    straight far from zero on either side, as all activations are that saturate or rectify; a sine or a square is not.
    """
    of_library, has_children = type(module).__module__ in _HOMES, any(True for _ in module.children())
    weights = [] if has_children else [*module.parameters(), *module.buffers()]
    if has_children or (weights and not of_library):
        return False
    probe = torch.linspace(-2, 2, 24, dtype=torch.float32).reshape(2, 3, 4)  # (2, 3, 4)
    probe = probe.to(weights[0]) if weights else probe
    try:
        with torch.no_grad():
            value = module.forward(probe)  # without the hooks of the model's owner
            elementwise = (
                isinstance(value, Tensor)
                and value.shape == probe.shape
                and torch.allclose(value, module.forward(probe.flip(0, 1, 2)).flip(0, 1, 2))
                and torch.allclose(value[1:, 2:, 3:], module.forward(probe[1:, 2:, 3:]))
            )
            return bool(elementwise and (of_library or (_bent(probe, value) and _straight(module))))
    except Exception as error:  # whatever it is, it is not called with one tensor
        refuse_to_hide(error)
        return False


def _bent(probe: Tensor, value: Tensor) -> bool:
    """Return whether values are not just a multiple of the input."""
    return not torch.allclose(value, probe * (value.flatten()[0] / probe.flatten()[0]))


def _straight(module: nn.Module) -> bool:
    """Return whether an elementwise function is linear far from zero."""
    steps = torch.tensor([[far * side * step for step in (1, 2, 3)] for far in _FAR for side in (-1, 1)])  # (4, 3)
    value = module.forward(steps[None])[0]  # (4, 3)
    return bool((value[:, 2] - 2 * value[:, 1] + value[:, 0]).abs().max() < 1e-3)


def name_of(module: nn.Module) -> str:
    """Return the name of an activation module as that of the function: `relu` for `ReLU`."""
    return type(module).__name__.lower().removesuffix("activation")


def opened(module: nn.Module) -> Callable[..., Any] | None:
    """Copy a module's forward so that autograd differentiates inside the custom functions that it applies.

    Returns:
        None where it applies none.
    """
    forward = getattr(module.forward, "__func__", None)
    if not isinstance(forward, types.FunctionType):
        return None
    referenced = {name: forward.__globals__.get(name) for name in forward.__code__.co_names}
    functions = {name: _Opened(f) for name, f in referenced.items() if isinstance(f, type) and issubclass(f, Function)}
    if not functions:
        return None
    copy = types.FunctionType(
        forward.__code__, forward.__globals__ | functions, forward.__name__, forward.__defaults__, forward.__closure__
    )
    copy.__kwdefaults__ = forward.__kwdefaults__
    return types.MethodType(copy, module)


class _Opened:
    """Replaces a custom autograd function: runs its forward, and leaves the backward pass to autograd."""

    def __init__(self, function: type[Function]) -> None:
        self.function = function

    def apply(self, *args: Any) -> Any:
        """Run the forward; if its result has no gradient, as from a kernel of another package, apply the function."""
        function_class = self.function
        if any(map(_flows, args)):
            separate = function_class.setup_context is not Function.setup_context
            result = function_class.forward(*args) if separate else function_class.forward(_Context(args), *args)
            if any(map(_flows, result if isinstance(result, tuple) else (result,))):
                return result
        return function_class.apply(*args)


class _Context:
    """The context that a custom autograd function writes to in its forward; it is never read."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(map(_flows, args))

    def save_for_backward(self, *_: Any) -> None:
        """Save nothing."""

    mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_forward = save_for_backward


def _flows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
