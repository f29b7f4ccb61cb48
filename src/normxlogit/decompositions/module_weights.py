"""The weights that linear modules and LayerNorms apply, whatever wraps or stores them."""

from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError


class NormParts(NamedTuple):
    """A LayerNorm at given states, in float32: gain (x - mean(x)) / deviation + bias."""

    gain: Tensor  # its weight, (H,)
    bias: Tensor  # (H,)
    deviation: Tensor  # the standard deviation of each state, (...) for states of (..., H)


def norm_parts(norm: nn.Module, states: Tensor) -> NormParts:
    """Return what a LayerNorm applies to some states.

    Args:
        norm: The LayerNorm.
        states: Its input, (..., H).

    Raises:
        UnsupportedModelError: If it has no weight or bias, or they are not in memory.
    """
    weight = getattr(norm, "weight", None)
    bias = getattr(norm, "bias", None)
    epsilon = getattr(norm, "eps", None)
    if not isinstance(weight, Tensor) or not isinstance(bias, Tensor) or not isinstance(epsilon, float):
        raise UnsupportedModelError(f"needs LayerNorm with weight and bias where the model has a {type(norm).__name__}")
    if weight.is_meta:
        raise UnsupportedModelError("needs norms whose weights are in memory, and the model's are offloaded")
    deviation = (states.var(-1, correction=0) + epsilon).sqrt()  # (...)
    return NormParts(weight.float(), bias.float(), deviation)


def is_floating(module: nn.Module) -> bool:
    """Return whether a module's weights are not quantised."""
    base = getattr(module, "base_layer", module)  # PEFT's name for the module that an adapter wraps
    weight = getattr(base, "weight", None)
    return _is_plain(weight) and weight.is_floating_point()


def _is_plain(weight: Any) -> TypeGuard[Tensor]:
    """Return whether a weight is a plain tensor, not a subclass for quantised values."""
    return type(weight) in (Tensor, nn.Parameter)


def linear_weights(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Return the weight (out, in) and bias (out,) that a linear module applies, adapters and quantisation included.

    Those of a plain `nn.Linear` are its parameters. Any other module is called on the origin, which gives the bias, and
    on the unit vectors, each of which gives a column of the weight plus the bias.

    Args:
        module: The module.

    Raises:
        UnsupportedModelError: If it has no fixed number of inputs, as a linear map has.
    """
    weight: Any = getattr(module, "weight", None)
    # Weights that are offloaded are known only when the module is called.
    if type(module) is nn.Linear and _is_plain(weight) and not weight.is_meta:
        bias = module.bias if module.bias is not None else weight.new_zeros(len(weight))
        return weight.float(), bias.float()
    count = getattr(module, "in_features", None)
    if not isinstance(count, int):
        raise UnsupportedModelError(f"needs a linear map where the model has a {type(module).__name__}")
    device, dtype = torch.device("cpu"), torch.float32
    if isinstance(weight, Tensor):  # and not a method, as in torch's quantised modules
        device = device if weight.is_meta else weight.device  # offloaded weights are moved when the module is called
        dtype = weight.dtype if weight.is_floating_point() else dtype  # quantised weights tell no precision of inputs
    origin = torch.zeros(1, count, device=device, dtype=dtype)
    unit_vectors = torch.eye(count, device=device, dtype=dtype)  # (in, in)
    bias = module(origin).float()  # (1, out)
    columns = module(unit_vectors).float()  # (in, out)
    return (columns - bias).T, bias[0]  # (out, in), (out,)
