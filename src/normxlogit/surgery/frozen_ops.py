"""The rule for each torch function that makes it linear in the tensors that depend on the input.

A function is looked up once, by its name; one without a rule is linear, or is left as it is for the proof to name.
"""

import types
from typing import Any

import torch
from torch import Tensor

from . import frozen_maps as maps
from .frozen_layers import LAYERS
from .frozen_products import SIGNAL, activated, held_factor, same, signal_of
from .frozen_rules import PASS, Frozen, Rule, flows, still


def _still_all(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(still, args)), {name: still(value) for name, value in kwargs.items()}


def _first(args: tuple[Any, ...], kwargs: dict[str, Any], *names: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Turn keyword arguments into positional ones."""
    kwargs = dict(kwargs)
    positional = list(args)
    for name in names[len(args) :]:
        if name not in kwargs:
            break
        positional.append(kwargs.pop(name))
    return tuple(positional), kwargs


def _in_place(function: Any) -> bool:
    name = function.__name__
    return bool(name.endswith("_") and not name.endswith("__"))


def _weight(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hold the result: attention probabilities, denominators, decay."""
    any_flows = any(map(flows, args)) or any(map(flows, kwargs.values()))
    if not any_flows or not torch.is_grad_enabled():
        return function(*args, **kwargs)
    frozen.note(function.__name__, "its result")
    fixed, named = _still_all(args, kwargs)
    if _in_place(function) or kwargs.get("inplace"):
        changed = args[0].copy_(function(fixed[0].clone(), *fixed[1:], **named))
        return changed if changed._is_view() else changed.detach_()  # what is held flows no further
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
    changes = _in_place(function) or bool(kwargs.get("inplace"))  # torch hands it on by name, however it was given
    with torch.no_grad():
        signal = maps.off_zero(fixed[0], name)
        value = function(signal.clone() if changes else signal, *fixed[1:], **named)
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
    """Make the rule for a product of the arguments at `first` and `first + 1`."""

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
        held_index = first + held
        if held == 0 and first == 0 and _in_place(function):
            product = left.detach().clone() * right
            product.grad_fn.metadata[SIGNAL] = True
            return left.copy_(product)
        result = function(*args[:held_index], args[held_index].detach(), *args[held_index + 1 :], **kwargs)
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


def _holding(index: int, what: str, names: str, *, called: str = "", only_with: int | None = None) -> Rule:
    """Make the rule that holds one argument, such as a denominator.

    Args:
        index: Which argument.
        what: What it is.
        names: Names of the arguments up to it.
        called: What a report calls the function; by default its own name.
        only_with: The argument that must flow too; None where the first is held in any case.
    """

    def rule(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _first(args, kwargs, *names.split())
        if flows(args[index]) and (only_with is None or flows(args[only_with])) and torch.is_grad_enabled():
            frozen.note(called or function.__name__, what)
            args = (*args[:index], args[index].detach(), *args[index + 1 :])
        return function(*args, **kwargs)

    return rule


def _elementwise(equation: str) -> bool:
    """Tell whether an equation multiplies tensors of one shape, element by element."""
    return len(set(equation.replace(" ", "").replace("->", ",").split(","))) == 1


def _einsum(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not isinstance(args[0], str):
        return function(*args, **kwargs)
    operands = list(args[1] if isinstance(args[1], (list, tuple)) else args[1:])
    moving = [index for index, operand in enumerate(operands) if flows(operand)]
    if len(moving) > 1 and not (len(moving) == 2 and same(operands[moving[0]], operands[moving[1]])):
        signal = moving[signal_of([operands[index] for index in moving], _elementwise(args[0]))]
        for index in moving:
            if index != signal:
                frozen.note("einsum", "a factor")
                operands[index] = operands[index].detach()
    return function(args[0], *operands, **kwargs)


def _always_on(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Keep gradients on where a model switches them off: that computation is part of its answer too."""
    return None


def _composite(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function that is written in Python under the mode."""
    return frozen.inside(_opened(function), args, kwargs)


_OPENED: dict[Any, Any] = {}


def _opened(function: Any) -> Any:
    """Copy a torch function without its dispatch to modes; the functions that it calls dispatch."""
    if function not in _OPENED:
        names = {name: _nobody for name in function.__code__.co_names if name.startswith("has_torch_function")}
        copy = types.FunctionType(
            function.__code__,
            function.__globals__ | names,
            function.__name__,
            function.__defaults__,
            function.__closure__,
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
        "softsign softshrink hardshrink tanhshrink threshold logsigmoid log_sigmoid erf expit abs prelu log "
        "log1p expm1 atan asinh",
        _activation,
    ),
    **_named(
        "softmax softmin gumbel_softmax exp exp2 rpow "
        "sqrt rsqrt reciprocal logsumexp cumprod logcumsumexp _softmax sign",
        _weight,
    ),
    **_named("mul multiply", _products(0, False)),
    **_named("matmul mm bmm mv dot vdot inner outer ger tensordot kron", _products(0, True)),
    **_named("baddbmm addbmm addmm addmv addr", _products(1, True)),
    **_named("addcmul", _products(1, False)),
    **_named("linear bilinear", _holding(1, "the kernel", "input weight", only_with=0)),
    **_named("div divide true_divide", _holding(1, "the denominator", "input other", called="div")),
    **_named("rdiv rtruediv", _holding(0, "the denominator", "self", called="div")),
    **_named("pow float_power", _power),
    **_named("square", _square),
    "addcdiv": _holding(2, "the denominator", "input tensor1 tensor2"),
    "lerp": _holding(2, "the weight", "input end weight"),
    "einsum": _einsum,
    **_named("linalg_solve_triangular linalg_solve solve_triangular", _holding(0, "the matrix", "A B")),
    "triangular_solve": _holding(1, "the matrix", "b A"),
    **_named("inverse linalg_inv linalg_pinv pinverse", _weight),
    **LAYERS,
    "set_grad_enabled": _always_on,
    **_named(
        "size dim numel item tolist is_floating_point is_complex is_contiguous __len__ __bool__ __int__ __float__ "
        "__index__ __contains__ __format__ __repr__ __hash__ stride data_ptr element_size get_device storage_offset "
        "nelement is_grad_enabled requires_grad_ detach argmax argmin eq ne lt le gt "
        "ge isnan isinf isfinite isin nonzero any all equal allclose is_tensor __set__ __delete__ arange zeros ones "
        "full empty zeros_like ones_like empty_like full_like new_zeros new_ones new_full new_tensor tensor "
        "logical_and logical_or logical_not ndimension broadcast_shapes result_type can_cast randn rand",
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
        if opens and function.__module__ == torch.nn.functional.__name__ and name not in _LINEAR:
            return _composite
    return rule


_LINEAR = frozenset([
    "affine_grid", "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "embedding", "embedding_bag",
    "feature_alpha_dropout", "fold", "interpolate", "one_hot", "pixel_shuffle", "unfold", "upsample",
])  # fmt: skip
"""Functions written in Python that are linear as they are."""
