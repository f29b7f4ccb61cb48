"""Rules for whole layers: attention, norms, convolutions, pooling, gated linear units."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import frozen_maps as maps
from .frozen_rules import Frozen, Rule, flows, still


def _given(names: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Give each argument its name."""
    return dict(zip(names.split(), args, strict=False)) | kwargs


def _layer(
    names: str, held: str = "", called: str = ""
) -> Callable[[Callable[[Frozen, Any, dict[str, Any]], Any]], Rule]:
    """Make a rule of a function of named arguments, which is used where the input flows.

    Args:
        names: Names of the arguments; the first is the input.
        held: What the rule holds, for the report.
        called: What a report calls the operation; by default its own name.
    """

    def make(linear: Callable[[Frozen, Any, dict[str, Any]], Any]) -> Rule:
        def rule(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            arguments = _given(names, args, kwargs)
            if not flows(arguments.get("input")):
                return function(*args, **kwargs)
            if held:
                frozen.note(called or function.__name__, held)
            return linear(frozen, function, arguments)

        return rule

    return make


def _attention(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold queries, keys and mask."""
    arguments = _given("query key value attn_mask dropout_p is_causal", args, kwargs)
    q, k, v = (arguments.pop(name) for name in ("query", "key", "value"))
    mask = still(arguments.pop("attn_mask", None))
    if flows(q) or flows(k):
        frozen.note("scaled_dot_product_attention", "queries and keys")
    if not flows(v) or arguments.get("dropout_p") or not torch.is_grad_enabled():
        return function(q.detach(), k.detach(), v, attn_mask=mask, **arguments)
    return maps.attended(q.detach(), k.detach(), v, mask, arguments)


@_layer("input dim", "the normaliser", "log_softmax")
def _log_softmax(frozen: Frozen, function: Any, arguments: dict[str, Any]) -> Any:
    """Hold the normaliser."""
    x = arguments.pop("input")
    return maps.shifted(x, function(x.detach(), **arguments))


@_layer("input normalized_shape weight bias eps", "the standard deviation", "layer_norm")
def _layer_norm(frozen: Frozen, function: Any, arguments: dict[str, Any]) -> Any:
    """Hold the standard deviation."""
    weight, bias = still(arguments.get("weight")), arguments.get("bias")
    result = maps.layer_norm(
        arguments["input"], arguments["normalized_shape"], weight, still(bias), arguments.get("eps", 1e-5)
    )
    return result + (bias - bias.detach()) if isinstance(bias, Tensor) and flows(bias) else result


@_layer("input normalized_shape weight eps", "the root mean square", "rms_norm")
def _rms_norm(frozen: Frozen, function: Any, arguments: dict[str, Any]) -> Any:
    """Hold the root mean square."""
    return maps.rms_norm(
        arguments["input"], arguments["normalized_shape"], still(arguments.get("weight")), arguments.get("eps")
    )


@_layer("input num_groups weight bias eps", "the standard deviation", "group_norm")
def _group_norm(frozen: Frozen, function: Any, arguments: dict[str, Any]) -> Any:
    """Hold the standard deviation of each group."""
    weight, bias = still(arguments.get("weight")), still(arguments.get("bias"))
    return maps.grouped_norm(arguments["input"], arguments["num_groups"], weight, bias, arguments.get("eps", 1e-5))


@_layer("input running_mean running_var weight bias training momentum eps")
def _batch_norm(frozen: Frozen, function: Any, arguments: dict[str, Any]) -> Any:
    """Write out the multiplication and addition of evaluation mode."""
    x, mean, var = arguments["input"], arguments.get("running_mean"), arguments.get("running_var")
    live = arguments.get("use_input_stats" if "instance" in function.__name__ else "training", False)
    weight, bias, eps = still(arguments.get("weight")), still(arguments.get("bias")), arguments.get("eps", 1e-5)
    if live or mean is None or var is None:
        frozen.note(function.__name__, "the standard deviation")
        if "instance" in function.__name__:
            return maps.grouped_norm(x, x.shape[1], weight, bias, eps)
        swapped = x.transpose(0, 1)[None]  # (1, C, B, ...)
        return maps.grouped_norm(swapped, x.shape[1], weight, bias, eps)[0].transpose(0, 1)
    wide = (1, -1) + (1,) * (x.ndim - 2)
    scale = torch.rsqrt(var + eps) if weight is None else weight * torch.rsqrt(var + eps)  # (C,)
    shift = -mean * scale if bias is None else bias - mean * scale  # (C,)
    return x * scale.to(x.dtype).reshape(wide) + shift.to(x.dtype).reshape(wide)


def _convolution(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold a kernel that was computed from the input."""
    transposed = "transpose" in function.__name__
    last = "output_padding groups dilation" if transposed else "dilation groups"
    arguments = _given(f"input weight bias stride padding {last}", args, kwargs)
    x, weight = arguments["input"], still(arguments["weight"])
    if not flows(x):
        return function(*args, **kwargs)
    if flows(arguments["weight"]):
        frozen.note(function.__name__, "the kernel")
    arguments |= {"weight": weight, "bias": still(arguments.get("bias"))}
    if isinstance(arguments.get("padding"), str) or x.ndim != weight.ndim:
        return maps.local(x, lambda leaf: function(**arguments | {"input": leaf}))
    count = x.ndim - 2

    def every(name: str, default: int) -> list[int]:
        value = arguments.get(name, default)
        value = [value] if isinstance(value, int) else list(value)
        return value * count if len(value) == 1 else value

    settings = (
        every("stride", 1), every("padding", 0), every("dilation", 1),
        transposed, every("output_padding", 0), arguments.get("groups", 1),
    )  # fmt: skip
    return maps.convolved(x, weight, settings, lambda: function(**arguments | {"input": x.detach()}))


def _choice(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a pooling with the choice of the pooled elements held."""
    x = args[0] if args else kwargs.get("input")
    if not isinstance(x, Tensor) or not flows(x) or kwargs.get("return_indices"):
        return function(*args, **kwargs)
    named = {name: value for name, value in kwargs.items() if name != "input"}
    return maps.local(x, lambda leaf: function(leaf, *args[1:], **named))


def _padding(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a padding that repeats its input; torch's backward of other paddings reads no input."""
    plain = _given("input pad mode", args, kwargs).get("mode", "constant") == "constant"
    return function(*args, **kwargs) if plain else _choice(frozen, function, args, kwargs)


@_layer("input dim", "the gate", "glu")
def _glu(frozen: Frozen, function: Any, arguments: dict[str, Any]) -> Any:
    """Hold the gate."""
    signal, gate = arguments["input"].chunk(2, arguments.get("dim", -1))
    return signal * gate.detach().sigmoid()


LAYERS: dict[str, Rule] = {
    "scaled_dot_product_attention": _attention,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "glu": _glu,
    **dict.fromkeys(("batch_norm", "instance_norm"), _batch_norm),
    **{f"{kind}{axes}d": _convolution for kind in ("conv", "conv_transpose") for axes in (1, 2, 3)},
    **{f"{kind}_pool{axes}d": _choice for kind in ("max", "avg", "adaptive_max", "adaptive_avg") for axes in (1, 2, 3)},
    "pad": _padding,
    "grid_sample": _choice,
}
"""By the name of the function."""
