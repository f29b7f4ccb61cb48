"""What takes the place of torch's gradients for the operations that are not linear: the formulas of the table of rules.

A slope is a function of

- `node`: the node of the autograd graph, with what torch saved in it (`_saved_...`, by the names of derivatives.yaml),
- `gradient`: the gradient of its first output,
- `input_gradients`: the gradients that torch itself computed for its inputs, None for an input without one,
- `add_constant`: called with what the slope leaves out of A z, times its gradient: f(0) where f(x) / x is held, and
  held values. None where no constants are summed.

It returns the gradient of the first input, or the gradients of all. No tensor is asked for a value: on a GPU each would
wait for the device.
"""

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from ..errors import UnsupportedModelError

Gradients = tuple[Tensor | None, ...]
"""The gradients of a node's inputs, or of its outputs; None where none arrives."""

AddConstant = Callable[[Tensor], None] | None
"""Takes what a constant contributes to the answer; None where constants are not summed."""

Slope = Callable[[Any, Tensor, Gradients, AddConstant], Tensor | Gradients]

INPUT = "normxlogit_input"
"""Key in `metadata` for a tensor whose node saves its input, if torch saves only its output."""

VALUE = "normxlogit_value"
"""Key in a node's `metadata` for its held output, in a pass that is proved."""

_OF_INPUT_ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Erf": torch.erf,
    "Expm1": torch.expm1,
    "GeLUFunctionBackward": partial(F.gelu, approximate="tanh"),  # of Bloom
    "Hardsigmoid": F.hardsigmoid,
    "Hardswish": F.hardswish,
    "Log": torch.log,
    "Log1P": torch.log1p,
    "LogSigmoid": F.logsigmoid,
    "Mish": F.mish,
    "Sigmoid": torch.sigmoid,
    "Silu": F.silu,
    "Tanh": torch.tanh,
}
"""Activations f(x) without settings."""

_WITH_SETTINGS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "Celu": lambda node, x: F.celu(x, node._saved_alpha),
    "Clamp": lambda node, x: x.clamp(node._saved_min, node._saved_max),
    "ClampMin": lambda node, x: x.clamp(min=node._saved_min),
    "ClampMax": lambda node, x: x.clamp(max=node._saved_max),
    "Elu": lambda node, x: (
        torch.where(x > 0, x, node._saved_alpha * torch.expm1(x * node._saved_input_scale)) * node._saved_scale
    ),
    "Gelu": lambda node, x: F.gelu(x, approximate=node._saved_approximate),
    "Hardtanh": lambda node, x: F.hardtanh(x, node._saved_min_val, node._saved_max_val),
    "Softplus": lambda node, x: F.softplus(x, node._saved_beta, node._saved_threshold),
    "Softshrink": lambda node, x: F.softshrink(x, node._saved_lambd),
}
"""Activations f(x) with settings, which are read from the node."""

ACTIVATIONS = tuple(sorted(_OF_INPUT_ALONE | _WITH_SETTINGS))
"""The names of these activations, of which f(x) / x is held."""

INVERSES = {"Tanh": torch.atanh, "Sigmoid": torch.logit, "Expm1": torch.log1p}
"""The inverses of those activations of which torch saves only the output."""

_LIMITS = {
    "Asinh": 1.0, "Atan": 1.0, "Celu": 1.0, "Elu": 1.0, "Erf": 2 / math.sqrt(math.pi), "Expm1": 1.0, "Gelu": 0.5,
    "GeLUFunctionBackward": 0.5, "Log1P": 1.0, "Mish": 0.6, "Silu": 0.5, "Tanh": 1.0,
}  # fmt: skip
"""Limits of f(x) / x at zero, for smooth activations with f(0) = 0; for others, zero passes no gradient on."""

_NAMES: dict[type, str] = {}
"""Names of operations by the class of a node, which is cheaper to get than its name."""


def operation_name(node: Any) -> str:
    """Return the name of a node's operation, `Addmm` of `AddmmBackward0`; of functions in Python the whole name."""
    node_class = type(node)
    name = _NAMES.get(node_class)
    if name is None:
        name_without_namespace = node.name().rpartition("::")[2]
        name = re.sub(r"Backward(CUDA|CPU)?\d+$", "", name_without_namespace)
        if node_class.__name__ != "CppFunction":  # the class of many nodes, whose names differ
            _NAMES[node_class] = name
    return name


def keep_value(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Gradients:
    """Hold the value of an operation, which is then a constant; inputs that are not held keep torch's gradients."""
    if add_constant:
        value = node.metadata.get(VALUE)  # as `Conservation.note` noted it
        if value is None:
            value = getattr(node, "_saved_result", math.nan)  # of NaN no sum adds up: the proof refuses the pass
        add_constant(gradient * value)
    return input_gradients


def divide(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Gradients:
    """Keep torch's gradient of the numerator; count the quotient as a constant if the numerator is one."""
    numerator, _ = node.next_functions[0]  # the node that computed it; None for a constant
    return keep_value(node, gradient, input_gradients, add_constant if numerator is None else None)


def activation(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Tensor:
    """Multiply the gradient by f(x) / x (Modarressi et al., 2023, equation 9: the ratio is held)."""
    name = operation_name(node)
    x = _input_of(node, name)
    values = _OF_INPUT_ALONE[name](x) if name in _OF_INPUT_ALONE else _WITH_SETTINGS[name](node, x)  # f(x)
    if add_constant and name not in _LIMITS:  # where x is 0, f(0) has no ratio: it is a constant
        add_constant(gradient * values.masked_fill(x != 0, 0.0))
    # 0 / 0 is NaN, which the limit replaces, and f(0) / 0 infinite. At zero alone: a wider gap would turn rounding into
    # a jump.
    ratio: Tensor = values.div_(x).nan_to_num_(nan=_LIMITS.get(name, 0.0), posinf=0.0, neginf=0.0)
    return gradient * ratio


def is_natural_power(node: Any) -> bool:
    """Return whether the exponent of a power is a whole number above zero."""
    if node.name() != "PowBackward0":  # of others it is a tensor
        return False
    exponent = node._saved_exponent
    return bool(exponent > 0 and float(exponent).is_integer())


def power(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Tensor | Gradients:
    """Hold all but one of the factors of x^n; hold roots and reciprocals."""
    if not is_natural_power(node):  # then the row holds all inputs
        return keep_value(node, gradient, input_gradients, add_constant)
    gradient_of_base = input_gradients[0]  # torch's own, to which all n factors pass it; of these one does
    return input_gradients if gradient_of_base is None else gradient_of_base / node._saved_exponent


def layer_norm(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Tensor:
    """Hold the standard deviation; the mean is linear (Ali et al., 2022, section 3.2)."""
    inverse_deviation = node._saved_result2  # 1 / sigma; the bias is a leaf of a pass that is proved, no held value
    scaled: Tensor = _times(gradient, node._saved_weight) * inverse_deviation
    normalised_axes = tuple(range(-len(node._saved_normalized_shape), 0))
    return scaled.sub_(scaled.mean(normalised_axes, keepdim=True))


def rms_norm(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Tensor:
    """Hold the root mean square."""
    inverse_root_mean_square = node._saved_result1
    return _times(gradient, node._saved_weight) * inverse_root_mean_square


def group_norm(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Tensor:
    """Hold the standard deviation of each group of channels."""
    inverse_deviations = node._saved_result2  # 1 / sigma, (B, G)
    scaled = _times(gradient, _by_channel(node._saved_weight, gradient))
    rows: Tensor = scaled.reshape(*inverse_deviations.shape, -1)  # (B, G, N)
    rows = rows * inverse_deviations[..., None]
    centred: Tensor = rows - rows.mean(-1, keepdim=True)
    return centred.reshape(gradient.shape)


def batch_norm(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Gradients:
    """Hold the standard deviation of each channel; linear in evaluation mode, where the mean is a constant."""
    other_axes = [axis for axis in range(gradient.ndim) if axis != 1]  # all but that of channels
    scaled = _times(gradient, _by_channel(node._saved_weight, gradient))
    if node._saved_training:  # with the statistics of the batch
        scaled = scaled * _by_channel(node._saved_result2, gradient)
        scaled = scaled - scaled.mean(other_axes, keepdim=True)
    else:
        epsilon = node._saved_eps if hasattr(node, "_saved_eps") else node._saved_epsilon  # as cuDNN and MIOpen say
        scaled = scaled * _by_channel(torch.rsqrt(node._saved_running_var + epsilon), gradient)
        if add_constant:  # a fixed mean is subtracted, and is no leaf
            add_constant(-scaled * _by_channel(node._saved_running_mean, gradient))
    # Torch's own gradient of the bias is wrong where the gradient is not contiguous (2.13, CPU, evaluation mode).
    bias = None if input_gradients[2] is None else gradient.sum(other_axes)
    return (scaled.to(gradient.dtype), None, bias, *input_gradients[3:])  # of input, weight and bias


def _times(gradient: Tensor, weight: Tensor | None) -> Tensor:
    """Return a gradient times a norm's weight, if it has one."""
    return gradient if weight is None else gradient * weight


def _by_channel(values: Tensor | None, gradient: Tensor) -> Any:
    """Return values of each channel, (C,), in a shape that fits a gradient, (B, C, ...)."""
    return None if values is None else values.reshape(1, -1, *(1,) * (gradient.ndim - 2))


def log_softmax(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Tensor:
    """Hold the normaliser, which is subtracted."""
    if add_constant:
        x = noted_input(node)
        add_constant(gradient * ((node._saved_result - x) if x is not None else math.nan))
    return gradient


def gated_linear_unit(node: Any, gradient: Tensor, input_gradients: Gradients, add_constant: AddConstant) -> Tensor:
    """Hold the gate, which is the second half."""
    axis = node._saved_dim - (1 << 64 if node._saved_dim > gradient.ndim else 0)  # -1 is saved as an unsigned number
    gate = node._saved_self.chunk(2, axis)[1].sigmoid()
    return torch.cat((gradient * gate, torch.zeros_like(gradient)), axis)


def noted_input(node: Any) -> Tensor | None:
    """Return the input of an operation that saves only its output; None if no `Recording` noted it."""
    saved = node.metadata.get(INPUT)  # an empty tensor, whose own node holds the input
    return None if saved is None else saved.grad_fn.saved_tensors[0].detach()


def _input_of(node: Any, name: str) -> Tensor:
    """Return the input x of an activation: what torch saved, what was noted beside it, or the inverse of its output.

    Args:
        node: The node of the activation.
        name: The name of the operation, see `operation_name`.

    Raises:
        UnsupportedModelError: If only the output is known, and does not tell the input.
    """
    if hasattr(node, "saved_tensors"):  # a function in Python
        return node.saved_tensors[0].detach()
    saved = getattr(node, "_saved_self", None)  # torch's own
    x = noted_input(node) if saved is None else saved.detach()
    if x is not None:
        return x
    result = node._saved_result  # in a recurrent layer, which is one function to torch, no input is noted
    is_rounded = result.dtype.itemsize < 4  # float16 or bfloat16
    if is_rounded or not INVERSES[name](result).isfinite().all():
        raise UnsupportedModelError(
            f"the model cannot be frozen: the input of {name} was not recorded, and cannot be recovered from an output "
            "that is rounded or at its limit"
        )
    return INVERSES[name](result.double()).to(result.dtype)
