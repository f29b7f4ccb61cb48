"""What takes the place of torch's gradients for the operations that are not linear: the formulas of the table of rules.

A slope is a function of the node, the gradient of its first output, the gradients that torch computed for its inputs,
and `constant`, which collects what it leaves out of A z: f(0) where f(x) / x is held, and held values. It returns what
flows back to the first input, or to all. Names are those of torch's derivatives.yaml. No tensor is asked for a value:
on a GPU each would wait for the device.
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
Constant = Callable[[Tensor], None] | None
Slope = Callable[[Any, Tensor, Gradients, Constant], Tensor | Gradients]

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
ACTIVATIONS = tuple(sorted(_OF_INPUT_ALONE | _WITH_SETTINGS))
"""Elementwise operations f, of which f(x) / x is held; above f itself, of its input alone or with a node's settings."""

INVERSE = {"Tanh": torch.atanh, "Sigmoid": torch.logit, "Expm1": torch.log1p}
"""The inverse of those of which torch saves only the output."""

_LIMITS = {
    "Asinh": 1.0, "Atan": 1.0, "Celu": 1.0, "Elu": 1.0, "Erf": 2 / math.sqrt(math.pi), "Expm1": 1.0, "Gelu": 0.5,
    "GeLUFunctionBackward": 0.5, "Log1P": 1.0, "Mish": 0.6, "Silu": 0.5, "Tanh": 1.0,
}  # fmt: skip
"""Limits of f(x) / x at zero, for smooth activations with f(0) = 0; for others, zero passes no gradient on."""

_NAMES: dict[type, str] = {}  # names of operations by the class of a node, which is cheaper to get than its name


def stem(node: Any) -> str:
    """Return the name of a node's operation, `Addmm` of `AddmmBackward0`; of functions in Python the whole name."""
    kind = type(node)
    name = _NAMES.get(kind)
    if name is None:
        name = re.sub(r"Backward(CUDA|CPU)?\d+$", "", node.name().rpartition("::")[2])
        if kind.__name__ != "CppFunction":  # the class of all nodes without a Python class of their own
            _NAMES[kind] = name
    return name


def keep_value(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Gradients:
    """Hold the value of an operation, which is then a constant; NaN if the value is not known."""
    if constant:
        value = node.metadata.get(VALUE)
        constant(gradient * (getattr(node, "_saved_result", math.nan) if value is None else value))
    return inputs


def divide(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Gradients:
    """Count a quotient whose numerator is constant as a constant."""
    return keep_value(node, gradient, inputs, constant if node.next_functions[0][0] is None else None)


def activation(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Tensor:
    """Multiply the gradient by f(x) / x (Modarressi et al., 2023, equation 9: the ratio is held)."""
    name = stem(node)
    x = _input_of(node, name)
    values = _OF_INPUT_ALONE[name](x) if name in _OF_INPUT_ALONE else _WITH_SETTINGS[name](node, x)  # f(x)
    if constant and name not in _LIMITS:  # at x = 0, f(0) has no ratio: it is a constant
        constant(gradient * values.masked_fill(x != 0, 0.0))
    # At zero alone: a wider gap would turn rounding into a jump.
    ratio: Tensor = values.div_(x).nan_to_num_(_LIMITS.get(name, 0.0), 0.0, 0.0)
    return gradient * ratio


def is_natural_power(node: Any) -> bool:
    """Return whether the exponent of a power is a whole number above zero."""
    exponent = node._saved_exponent if node.name() == "PowBackward0" else 0.5  # of others it is a tensor
    return bool(exponent > 0 and float(exponent).is_integer())


def power(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Tensor | Gradients:
    """Hold all but one of the factors of x^n; hold roots and reciprocals."""
    if is_natural_power(node):
        return inputs if inputs[0] is None else inputs[0] / node._saved_exponent
    return keep_value(node, gradient, inputs, constant)


def layer_norm(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Tensor:
    """Hold the standard deviation; the mean is linear (Ali et al., 2022, section 3.2)."""
    scaled: Tensor = _times(gradient, node._saved_weight) * node._saved_result2
    return scaled.sub_(scaled.mean(tuple(range(-len(node._saved_normalized_shape), 0)), keepdim=True))


def rms_norm(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Tensor:
    """Hold the root mean square."""
    return _times(gradient, node._saved_weight) * node._saved_result1


def group_norm(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Tensor:
    """Hold the standard deviation of each group of channels."""
    scaled = _times(gradient, _by_channel(node._saved_weight, gradient))
    rows: Tensor = scaled.reshape(gradient.shape[0], node._saved_group, -1)  # (B, G, N)
    rows = rows * node._saved_result2.reshape(gradient.shape[0], -1, 1)
    centred: Tensor = rows - rows.mean(-1, keepdim=True)
    return centred.reshape(gradient.shape)


def batch_norm(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Gradients:
    """Hold the standard deviation of each channel; linear in evaluation mode, where the mean is a constant."""
    channels = [axis for axis in range(gradient.ndim) if axis != 1]
    scaled = _times(gradient, _by_channel(node._saved_weight, gradient))
    if node._saved_training:  # with the statistics of the batch
        scaled = scaled * _by_channel(node._saved_result2, gradient)
        scaled = scaled - scaled.mean(channels, keepdim=True)
    else:
        epsilon = node._saved_eps if hasattr(node, "_saved_eps") else node._saved_epsilon  # as cuDNN and MIOpen say
        scaled = scaled * _by_channel(torch.rsqrt(node._saved_running_var + epsilon), gradient)
        if constant:
            constant(-scaled * _by_channel(node._saved_running_mean, gradient))
    # Torch's own gradient of the bias is wrong where the gradient is not contiguous (2.13, CPU, evaluation mode).
    bias = None if inputs[2] is None else gradient.sum(channels)
    return (scaled.to(gradient.dtype), None, bias, *inputs[3:])


def _times(gradient: Tensor, weight: Tensor | None) -> Tensor:
    """Return a gradient times a norm's weight, if it has one."""
    return gradient if weight is None else gradient * weight


def _by_channel(values: Tensor | None, gradient: Tensor) -> Any:
    """Return values of each channel, (C,), in a shape that fits a gradient, (B, C, ...)."""
    return None if values is None else values.reshape(1, -1, *(1,) * (gradient.ndim - 2))


def log_softmax(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Tensor:
    """Hold the normaliser, which is subtracted."""
    if constant:
        x = noted_input(node)
        constant(gradient * ((node._saved_result - x) if x is not None else math.nan))
    return gradient


def gated_linear_unit(node: Any, gradient: Tensor, inputs: Gradients, constant: Constant) -> Tensor:
    """Hold the gate, which is the second half."""
    axis = node._saved_dim - (1 << 64 if node._saved_dim > gradient.ndim else 0)  # -1 is saved as an unsigned number
    gate = node._saved_self.chunk(2, axis)[1].sigmoid()
    return torch.cat((gradient * gate, torch.zeros_like(gradient)), axis)


def noted_input(node: Any) -> Tensor | None:
    """Return the input of an operation that saves only its output; None if no `Recording` noted it."""
    saved = node.metadata.get(INPUT)
    return None if saved is None else saved.grad_fn.saved_tensors[0].detach()


def _input_of(node: Any, name: str) -> Tensor:
    """Return the input x of an activation: what torch saved, what was noted beside it, or the inverse of its output.

    Args:
        node: The node of the activation.
        name: The name of the operation, see `stem`.

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
    if is_rounded or not INVERSE[name](result).isfinite().all():
        raise UnsupportedModelError(
            f"the model cannot be frozen: the input of {name} was not recorded, and cannot be recovered from an output "
            "that is rounded or at its limit"
        )
    return INVERSE[name](result.double()).to(result.dtype)
