"""What is done to each of torch's functions to make it linear in what flows through it.

A function is looked up once, by its name; one without a rule is linear, or is left as it is for the proof to name.
"""

import types
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from . import frozen_maps as maps
from .frozen_products import SIGNAL, activated, held_factor, same, signal_of

__all__ = ["PASS", "Frozen", "Rule", "flows", "rule_for"]


class Frozen(Protocol):
    """What a rule needs of the mode that it runs under."""

    def note(self, function: str, held: str) -> None:
        """Count something that was held."""

    def inside(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function with the mode on."""


Rule = Callable[[Frozen, Any, tuple[Any, ...], dict[str, Any]], Any]


def PASS(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: N802
    """Stand for a function that returns no values, such as a shape: it is not even looked at."""
    return function(*args, **kwargs)


def flows(value: Any) -> bool:
    """Tell whether a value is a tensor that depends on the input."""
    return isinstance(value, Tensor) and value.requires_grad


def still(value: Any) -> Any:
    """Hold a tensor, or those in a list."""
    if isinstance(value, Tensor):
        return value.detach() if value.requires_grad else value
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(map(still, value))
    return value


def _still_all(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(still, args)), {name: still(value) for name, value in kwargs.items()}


def _first(args: tuple[Any, ...], kwargs: dict[str, Any], *names: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bring arguments given by name into their places."""
    kwargs = dict(kwargs)
    found = list(args)
    for name in names[len(args) :]:
        if name not in kwargs:
            break
        found.append(kwargs.pop(name))
    return tuple(found), kwargs


def _in_place(function: Any) -> bool:
    name = function.__name__
    return bool(name.endswith("_") and not name.endswith("__"))


def _weight(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold the result: attention probabilities, denominators, decay."""
    found = any(map(flows, args)) or any(map(flows, kwargs.values()))
    if not found or not torch.is_grad_enabled():
        return function(*args, **kwargs)
    frozen.note(function.__name__, "its result")
    fixed, named = _still_all(args, kwargs)
    if _in_place(function) or kwargs.get("inplace"):
        value = function(fixed[0].clone(), *fixed[1:], **named)
        return args[0].copy_(value)
    return function(*fixed, **named)


def _activation(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold the ratio f(x) / x."""
    args, kwargs = _first(args, kwargs, "input")
    x = args[0]
    if not flows(x) or not torch.is_grad_enabled():
        return function(*args, **kwargs)
    name = function.__name__.strip("_")
    frozen.note(name, "f(x) / x")
    fixed, named = _still_all(args, kwargs)
    changes = _in_place(function) or bool(kwargs.get("inplace")) or any(a is True for a in args[1:])
    with torch.no_grad():
        value = function(fixed[0].clone() if changes else fixed[0], *fixed[1:], **named)
    if isinstance(value, tuple):
        value = value[0]
    result = maps.ratio(x, value, name)
    return x.copy_(result) if changes else result


def _power(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold roots and reciprocals, and the ratio of a squared ReLU; leave other powers as they are."""
    args, kwargs = _first(args, kwargs, "self", "exponent")
    base, exponent = args[0], args[1] if len(args) > 1 else 2
    if flows(exponent) or (flows(base) and not isinstance(exponent, Tensor) and (exponent < 0 or exponent == 0.5)):
        return _weight(frozen, function, args, kwargs)
    if flows(base) and exponent == 2 and activated(base)[1] == "relu":
        return _activation(frozen, function, args, kwargs)
    return function(*args, **kwargs)


def _square(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    squared = flows(args[0]) and activated(args[0])[1] == "relu"
    return (_activation if squared else PASS)(frozen, function, args, kwargs)


def _products(first: int, matrices: bool) -> Rule:
    """Make the rule for a product of the arguments at `first` and the place after it."""

    def rule(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) < first + 2:
            names = ("input",) * first + _FACTORS.get(function.__name__, ("input", "other"))
            args, kwargs = _first(args, kwargs, *names)
        if len(args) < first + 2:
            return function(*args, **kwargs)
        left, right = args[first], args[first + 1]
        if not (flows(left) and flows(right)) or not torch.is_grad_enabled():
            return function(*args, **kwargs)
        if same(left, right):
            if matrices or first or activated(left)[1] != "relu":
                return function(*args, **kwargs)
            frozen.note(function.__name__, "f(x) / x")
            result = maps.ratio(left, left.detach() * right.detach(), activated(left)[1])
            return left.copy_(result) if _in_place(function) else result
        held, why = held_factor(left, right, matrices)
        frozen.note(function.__name__, f"a factor: {why}")
        place = first + held
        if held == 0 and first == 0 and _in_place(function):
            product = left.detach().clone() * right
            product.grad_fn.metadata[SIGNAL] = True
            return left.copy_(product)
        result = function(*args[:place], args[place].detach(), *args[place + 1 :], **kwargs)
        result.grad_fn.metadata[SIGNAL] = True
        return result

    return rule


_FACTORS = {
    "linear": ("input", "weight"),
    "mm": ("input", "mat2"),
    "bmm": ("input", "mat2"),
    "baddbmm": ("batch1", "batch2"),
    "addbmm": ("batch1", "batch2"),
    "addmm": ("mat1", "mat2"),
    "addmv": ("mat", "vec"),
    "mv": ("input", "vec"),
    "outer": ("input", "vec2"),
    "addcmul": ("tensor1", "tensor2"),
}


def _linear(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold a kernel that was worked out from the input."""
    args, kwargs = _first(args, kwargs, "input", "weight")
    if flows(args[0]) and flows(args[1]):
        frozen.note(function.__name__, "the kernel")
        args = (args[0], args[1].detach(), *args[2:])
    return function(*args, **kwargs)


def _division(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold the denominator."""
    args, kwargs = _first(args, kwargs, "input", "other")
    if flows(args[1]) and torch.is_grad_enabled():
        frozen.note("div", "the denominator")
        args = (args[0], args[1].detach(), *args[2:])
    return function(*args, **kwargs)


def _divided(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold the denominator of `2 / x`."""
    if flows(args[0]):
        frozen.note("div", "the denominator")
    return function(args[0].detach(), *args[1:], **kwargs)


def _addcdiv(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = _first(args, kwargs, "input", "tensor1", "tensor2")
    return function(*args[:2], still(args[2]), *args[3:], **kwargs)


def _lerp(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = _first(args, kwargs, "input", "end", "weight")
    return function(*args[:2], still(args[2]), *args[3:], **kwargs)


def _einsum(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not isinstance(args[0], str):
        return function(*args, **kwargs)
    operands = list(args[1] if isinstance(args[1], (list, tuple)) else args[1:])
    moving = [place for place, operand in enumerate(operands) if flows(operand)]
    if len(moving) > 1 and not (len(moving) == 2 and same(operands[moving[0]], operands[moving[1]])):
        kept = moving[signal_of([operands[place] for place in moving])]
        for place in moving:
            if place != kept:
                frozen.note("einsum", "a factor")
                operands[place] = operands[place].detach()
    return function(args[0], *operands, **kwargs)


def _attention(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold queries, keys and mask."""
    args, kwargs = _first(args, kwargs, "query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    q, k, v = args[:3]
    if not (flows(q) or flows(k) or flows(v)) or not torch.is_grad_enabled():
        return function(*args, **kwargs)
    frozen.note("scaled_dot_product_attention", "queries and keys")
    mask = still(args[3] if len(args) > 3 else kwargs.pop("attn_mask", None))
    options = dict(zip(("dropout_p", "is_causal"), args[4:], strict=False)) | kwargs
    if not flows(v) or options.get("dropout_p"):
        return function(q.detach(), k.detach(), v, attn_mask=mask, **options)
    return maps.attended(q.detach(), k.detach(), v, mask, options)


def _log_softmax(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = _first(args, kwargs, "input")
    if not flows(args[0]):
        return function(*args, **kwargs)
    frozen.note("log_softmax", "the normaliser")
    return maps.shifted(args[0], function(args[0].detach(), *args[1:], **kwargs))


def _layer_norm(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold the standard deviation."""
    args, kwargs = _first(args, kwargs, "input", "normalized_shape", "weight", "bias", "eps")
    if not flows(args[0]) or not torch.is_grad_enabled():
        return function(*args, **kwargs)
    x, shape, weight, bias, eps = (*args[:5], *(None, None, 1e-5)[len(args[:5]) - 2 :])
    weight, bias, eps = kwargs.get("weight", weight), kwargs.get("bias", bias), kwargs.get("eps", eps)
    frozen.note("layer_norm", "the standard deviation")
    result = maps.layer_norm(x, shape, still(weight), still(bias), eps)
    return result + (bias - bias.detach()) if flows(bias) else result


def _rms_norm(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = _first(args, kwargs, "input", "normalized_shape", "weight", "eps")
    if not flows(args[0]):
        return function(*args, **kwargs)
    frozen.note("rms_norm", "the root mean square")
    x, shape, weight, eps = (*args[:4], *(None, None)[len(args[:4]) - 2 :])
    return maps.rms_norm(x, shape, still(kwargs.get("weight", weight)), kwargs.get("eps", eps))


def _group_norm(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = _first(args, kwargs, "input", "num_groups", "weight", "bias", "eps")
    if not flows(args[0]):
        return function(*args, **kwargs)
    frozen.note("group_norm", "the standard deviation")
    x, groups, weight, bias, eps = (*args[:5], *(None, None, 1e-5)[len(args[:5]) - 2 :])
    weight, bias, eps = kwargs.get("weight", weight), kwargs.get("bias", bias), kwargs.get("eps", eps)
    return maps.grouped_norm(x, groups, still(weight), still(bias), eps)


_STATISTICS = ("input", "running_mean", "running_var", "weight", "bias")


def _batch_norm(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Write out what is a multiplication and an addition in evaluation mode."""
    given = dict(zip((*_STATISTICS, "training", "momentum", "eps"), args, strict=False)) | kwargs
    x, mean, var = (given.get(name) for name in _STATISTICS[:3])
    live = given.get("use_input_stats" if "instance" in function.__name__ else "training", False)
    if not isinstance(x, Tensor) or not flows(x):
        return function(*args, **kwargs)
    weight, bias, eps = still(given.get("weight")), still(given.get("bias")), given.get("eps", 1e-5)
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
    transposed = "transpose" in function.__name__
    last = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
    given = dict(zip(("input", "weight", "bias", "stride", "padding", *last), args, strict=False)) | kwargs
    x, weight = given["input"], still(given["weight"])
    if not flows(x):
        return function(*args, **kwargs)
    if flows(given["weight"]):
        frozen.note(function.__name__, "the kernel")
    given |= {"weight": weight, "bias": still(given.get("bias"))}
    if isinstance(given.get("padding"), str) or x.ndim != weight.ndim:
        return maps.local(x, lambda leaf: function(**given | {"input": leaf}))
    count = x.ndim - 2

    def every(name: str, default: int) -> list[int]:
        value = given.get(name, default)
        value = [value] if isinstance(value, int) else list(value)
        return value * count if len(value) == 1 else value

    settings = (
        every("stride", 1), every("padding", 0), every("dilation", 1),
        transposed, every("output_padding", 0), given.get("groups", 1),
    )  # fmt: skip
    return maps.convolved(x, weight, settings, lambda: function(**given | {"input": x.detach()}))


def _choice(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a pooling, in which the choice of what is pooled is held."""
    args, kwargs = _first(args, kwargs, "input")
    if not flows(args[0]) or not torch.is_grad_enabled() or kwargs.get("return_indices"):
        return function(*args, **kwargs)
    return maps.local(args[0], lambda leaf: function(leaf, *args[1:], **kwargs))


def _glu(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = _first(args, kwargs, "input", "dim")
    if not flows(args[0]):
        return function(*args, **kwargs)
    frozen.note("glu", "the gate")
    signal, gate = args[0].chunk(2, args[1] if len(args) > 1 else -1)
    return signal * gate.detach().sigmoid()


def _always_on(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Let gradients stay on where a model turns them off: what it computes there is part of its answer too."""
    return None


def _composite(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function that is written in Python with the mode on inside it."""
    return frozen.inside(_opened(function), args, kwargs)


_OPENED: dict[Any, Any] = {}


def _opened(function: Any) -> Any:
    """Copy a function of torch that does not ask for modes first: what it calls does."""
    if function not in _OPENED:
        names = {name: _nobody for name in function.__code__.co_names if name.startswith("has_torch_function")}
        copy = types.FunctionType(
            function.__code__, function.__globals__ | names, function.__name__, function.__defaults__, function.__closure__
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        _OPENED[function] = copy
    return _OPENED[function]


def _nobody(*_: Any) -> bool:
    return False


def _named(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


RULES: dict[str, Rule] = {
    **_named(
        "relu relu6 gelu silu mish tanh sigmoid hardtanh hardswish hardsigmoid elu celu selu leaky_relu rrelu softplus "
        "softsign softshrink hardshrink tanhshrink threshold logsigmoid erf expit abs prelu log log1p expm1 atan asinh",
        _activation,
    ),
    **_named(
        "softmax softmin gumbel_softmax exp exp2 sqrt rsqrt reciprocal logsumexp cumprod logcumsumexp _softmax sign",
        _weight,
    ),
    **_named("mul multiply", _products(0, False)),
    **_named("matmul mm bmm mv dot vdot inner outer ger tensordot kron", _products(0, True)),
    **_named("baddbmm addbmm addmm addmv addr", _products(1, True)),
    **_named("addcmul", _products(1, False)),
    **_named("linear bilinear", _linear),
    **_named("div divide true_divide", _division),
    **_named("rdiv rtruediv", _divided),
    **_named("pow float_power rpow", _power),
    **_named("square", _square),
    "addcdiv": _addcdiv,
    "lerp": _lerp,
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    **_named("batch_norm instance_norm", _batch_norm),
    **_named("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d", _convolution),
    **_named(
        "max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d "
        "avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d pad lp_pool1d grid_sample",
        _choice,
    ),
    "glu": _glu,
    "set_grad_enabled": _always_on,
    **_named(
        "size dim numel item tolist is_floating_point is_complex is_contiguous __len__ __bool__ __int__ __float__ "
        "__index__ __contains__ __format__ __repr__ __hash__ stride data_ptr element_size get_device storage_offset "
        "nelement is_grad_enabled requires_grad_ detach argmax argmin eq ne lt le gt "
        "ge isnan isinf isfinite isin nonzero any all equal allclose is_tensor __set__ __delete__ arange zeros ones "
        "full empty zeros_like ones_like empty_like full_like new_zeros new_ones new_full new_tensor tensor "
        "logical_and logical_or logical_not ndimension broadcast_shapes result_type finfo can_cast bernoulli randn rand",
        PASS,
    ),
}
"""By the name of the function, without underscores around it."""

_WITH_VALUES = frozenset({"T", "mT", "H", "mH", "real", "imag"})


def rule_for(function: Any) -> Rule | None:
    """Find the rule of one of torch's functions, None where there is none."""
    name = getattr(function, "__name__", "")
    if name == "__get__":  # an attribute, such as a shape
        return None if getattr(function.__self__, "__name__", "") in _WITH_VALUES else PASS
    rule = RULES.get(name) or RULES.get(name.strip("_"))
    if rule is None and isinstance(function, types.FunctionType):
        opens = any(n.startswith("has_torch_function") for n in function.__code__.co_names)
        if opens and function.__module__ == F.__name__ and name not in _LINEAR:
            return _composite
    return rule


_LINEAR = frozenset(
    "dropout alpha_dropout dropout1d dropout2d dropout3d feature_alpha_dropout embedding embedding_bag interpolate "
    "one_hot upsample unfold fold pixel_shuffle affine_grid".split()
)
"""Functions written in Python that are linear as they are."""
