"""The rules of the frozen network: the backward pass of each operation with non-linear factors held constant.

At the given input every operation of the forward pass is A z + b, z what flows through it; A and b are held at their
value (Ali et al., 2022, section 3: attention and normalisation; Modarressi et al., 2023, equation 9: activations). The
forward pass is the model's own. A rule is given a node of its autograd graph, the gradients that torch computed for the
node's inputs, and those of its outputs, and returns what takes the place of the former:

- linear operations: torch's own gradient is right;
- held ones (softmax, exp, roots, reciprocals, standard deviations, norms): no gradient, their value is a constant;
- activations: the gradient times f(x) / x, which torch's slope is where f is piecewise linear through zero;
- norms: the gradient times weight / sigma, minus its mean where the mean is subtracted: sigma is held;
- fused attention: the gradient of the values alone, so queries and keys, and with them the probabilities, are held;
- products of two factors that depend on the input: none to the one that `products` chooses to hold;
- anything else: an error that names it, if a gradient arrives.

`constant` collects what a rule leaves out of A z: part of the bias, for `conservation`.
"""

import math
import re
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from ..errors import UnsupportedModelError

Edge = tuple[Any, int]
"""A node of the graph and the index of one of its outputs: a tensor of the forward pass."""

Gradients = tuple[Tensor | None, ...]
Constant = Callable[[Tensor], None]
Rule = Callable[[Any, Constant, Gradients, Gradients], Gradients | None]

LEAF = "AccumulateGrad"
"""The name of the node of a leaf."""

INPUT = "normxlogit_input"
"""Key in a node's `metadata` for its input, if torch saves only its output."""

VALUE = "normxlogit_value"
"""Key in a node's `metadata` for its held output, in a pass that is proved."""

LINEAR = frozenset([
    "AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "Add", "AffineGridGenerator", "Alias", "AsStrided",
    "AsStridedScatter", "AvgPool2D", "AvgPool3D", "BlockDiag", "Cat", "ChannelShuffle", "Chunk", "Clone",
    "Coalesce", "Col2Im", "Complex", "Conj", "ConjPhysical", "ConstantPadNd", "CopyBackwards", "CopySlices",
    "Cumsum", "DiagEmbed", "Diagonal", "DiagonalScatter", "Embedding", "EmbeddingBag", "Expand", "FftC2C", "FftC2R",
    "FftR2C", "Fill", "Flip", "Gather", "Im2Col", "Index", "IndexAdd", "IndexCopy", "IndexFill", "IndexPut",
    "IndexPutImpl", "IndexSelect", "LazyClone", "Lift", "LiftFresh", "MaskedFill", "MaskedScatter", "MaskedSelect",
    "Mean", "MkldnnReshape", "Nansum", "NarrowCopy", "NativeDropout", "Neg", "NegView", "NestedFromPadded",
    "NestedFromPaddedTensor", "NestedGetValues", "NestedTensorFromMask", "NestedViewFromJagged", "Permute",
    "PinMemory", "PixelShuffle", "PixelUnshuffle", "Put", "ReflectionPad1D", "ReflectionPad2D", "ReflectionPad3D",
    "Repeat", "ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D", "ReshapeAlias", "ReshapeCopy", "Roll",
    "Rot90", "Rsub", "Scatter", "ScatterAdd", "ScatterReduce", "Select", "SelectScatter", "Slice", "SliceInverse",
    "SliceScatter", "SparseMask", "Split", "SplitWithSizes", "Squeeze", "Stack", "Sub", "Sum", "T", "Take",
    "ToCopy", "ToDense", "ToMkldnn", "ToPaddedTensor", "ToSparse", "Trace", "Transpose", "Tril", "Triu", "Unbind",
    "Unfold", "UnfoldBackward", "UnsafeIndex", "UnsafeIndexPut", "UnsafeMaskedIndex", "UnsafeSplit",
    "UnsafeSplitWithSizes", "UnsafeView", "Unsqueeze", "UpsampleBicubic2D", "UpsampleBicubic2DAa",
    "UpsampleBilinear2D", "UpsampleBilinear2DAa", "UpsampleLanczos2DAa", "UpsampleLinear1D", "UpsampleNearest1D",
    "UpsampleNearest2D", "UpsampleNearest3D", "UpsampleNearestExact1D", "UpsampleNearestExact2D",
    "UpsampleNearestExact3D", "UpsampleTrilinear3D", "Values", "View", "ViewAsComplex", "ViewAsReal", "Where",
    "Zero", "_MeasuredBackward", "_CheckpointBackward",
])  # fmt: skip
"""Operations whose own gradient is a constant."""

QUANTISED_PRODUCTS = frozenset([
    *("MatMul4BitBackward", "MatMul8bitFpBackward", "MatMul8bitLtBackward"),  # bitsandbytes
    *("HQQMatmulCachedDeqBackward", "HQQMatmulNoCacheDeqBackward", "HQQMatmulNoCacheMulBackward"),
    *("QuantizedLinearFunctionBackward", "WeightQBytesLinearFunctionBackward"),  # quanto
    *("AWQWeightQBitsLinearFunctionBackward", "TinyGemmQBitsLinearFunctionBackward"),
    *("MarlinF8QBytesLinearFunctionBackward", "MarlinQBitsLinearFunctionBackward"),
    *("AwqGemmFnBackward", "AwqGemmTritonFnBackward", "WQLinearMMFunctionBackward"),  # AWQ
    "QuantLinearFunctionBackward",  # GPTQ
])  # fmt: skip
"""Products with quantised weights, whose gradient is that of the dequantised weights.

Where activations are rounded too (LLM.int8), conservation holds or fails by the model's precision.
"""

CHOICES = frozenset([
    "Abs", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D", "Amax", "Amin", "Aminmax", "Cummax", "Cummin", "Fmax", "Fmin",
    "FractionalMaxPool2D", "FractionalMaxPool3D", "Hardshrink", "IndexReduce", "Kthvalue", "LeakyRelu", "Max",
    "MaxPool2DWithIndices", "MaxPool3DWithIndices", "MaxUnpool2D", "MaxUnpool3D", "Maximum", "Median", "Min",
    "Minimum", "Mode", "NanToNum", "Nanmedian", "PreluKernel", "Relu", "RreluWithNoise", "Sort", "Threshold", "Topk",
])  # fmt: skip
"""Operations that select, or whose slope is f(x) / x: the selection is held, so torch's gradient is right."""

HELD = frozenset([
    "Cdist", "Ceil", "Cumprod", "Exp", "Exp2", "Floor", "Fmod", "LinalgInvEx", "LinalgPinv", "LinalgVectorNorm",
    "Logcumsumexp", "Logsumexp", "MaskedSoftmax", "Norm", "Prod", "Reciprocal", "Remainder", "Round", "Rsqrt",
    "SafeSoftmax", "Sgn", "Sign", "Softmax", "SoftmaxBackwardData", "Sqrt", "Std", "Trunc", "Var",
])  # fmt: skip
"""Operations whose value is held as a constant."""

ACTIVATIONS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "Asinh": lambda node, x: torch.asinh(x),
    "Atan": lambda node, x: torch.atan(x),
    "Celu": lambda node, x: F.celu(x, node._saved_alpha),
    "Clamp": lambda node, x: x.clamp(node._saved_min, node._saved_max),
    "ClampMin": lambda node, x: x.clamp(min=node._saved_min),
    "ClampMax": lambda node, x: x.clamp(max=node._saved_max),
    "Elu": lambda node, x: (
        torch.where(x > 0, x, node._saved_alpha * torch.expm1(x * node._saved_input_scale)) * node._saved_scale
    ),
    "Erf": lambda node, x: torch.erf(x),
    "Expm1": lambda node, x: torch.expm1(x),
    "Gelu": lambda node, x: F.gelu(x, approximate=node._saved_approximate),
    "GeLUFunctionBackward": lambda node, x: F.gelu(x, approximate="tanh"),  # of Bloom
    "Hardsigmoid": lambda node, x: F.hardsigmoid(x),
    "Hardswish": lambda node, x: F.hardswish(x),
    "Hardtanh": lambda node, x: F.hardtanh(x, node._saved_min_val, node._saved_max_val),
    "Log": lambda node, x: torch.log(x),
    "Log1P": lambda node, x: torch.log1p(x),
    "LogSigmoid": lambda node, x: F.logsigmoid(x),
    "Mish": lambda node, x: F.mish(x),
    "Sigmoid": lambda node, x: torch.sigmoid(x),
    "Silu": lambda node, x: F.silu(x),
    "Softplus": lambda node, x: F.softplus(x, node._saved_beta, node._saved_threshold),
    "Softshrink": lambda node, x: F.softshrink(x, node._saved_lambd),
    "Tanh": lambda node, x: torch.tanh(x),
}
"""Elementwise operations f, of which f(x) / x is held (Modarressi et al., 2023, equation 9), and f itself."""

_INVERSE = {"Tanh": torch.atanh, "Sigmoid": torch.logit, "Expm1": torch.log1p}
_LIMITS = {
    "Asinh": 1.0, "Atan": 1.0, "Celu": 1.0, "Elu": 1.0, "Erf": 2 / math.sqrt(math.pi), "Expm1": 1.0, "Gelu": 0.5,
    "GeLUFunctionBackward": 0.5, "Log1P": 1.0, "Mish": 0.6, "Silu": 0.5, "Tanh": 1.0,
}  # fmt: skip
"""Limits of f(x) / x at zero, for smooth activations with f(0) = 0; for others, zero passes no gradient on."""

FACTORS: dict[str, tuple[int, int, bool]] = {
    "Mul": (0, 1, False),
    "Addcmul": (1, 2, False),
    **dict.fromkeys(("Mm", "Bmm", "Mv", "Dot", "Vdot"), (0, 1, True)),
    **dict.fromkeys(("Addmm", "Baddbmm", "Addbmm", "Addmv", "Addr"), (1, 2, True)),
}
"""Products: the indices of the two factors, and whether they are matrices."""

HELD_INPUT: dict[str, int] = {
    "Div": 1,
    "Addcdiv": 2,
    "Lerp": 2,
    "Linear": 1,
    "Convolution": 1,
    "ConvolutionOverrideable": 1,
    "SlowConv2D": 1,
    "SlowConvTranspose2D": 1,
    "MkldnnConvolution": 1,
    "CudnnConvolution": 1,
    "CudnnConvolutionTranspose": 1,
    "Trilinear": 1,
    "GridSampler2D": 1,
    "GridSampler3D": 1,
    "GroupedMm": 1,
    "GeneratedBackwardFor_transformers_grouped_mm_fallback_defaultBackward": 1,  # where torch has no GroupedMm
    "LinalgSolveTriangular": 0,
    "LinalgSolveEx": 0,
    "TriangularSolve": 1,
}
"""Operations of which one input is always held: denominators, kernels, weights, matrices of equations."""


PASSED_INPUT: dict[str, int] = {
    "CudnnAttention": 2,
    "EfficientAttention": 2,
    "FlashAttention": 2,
    "ScaledDotProductFlashAttentionForCpu": 2,
    "ScaledDotProductFlashAttention": 2,
    "ScaledDotProductCudnnAttention": 2,
    "ScaledDotProductEfficientAttention": 2,
    "ScaledDotProductFusedAttentionOverrideable": 2,
    "YosoCumulationBackward": 4,
}
"""The only input that some operations pass a gradient to, such as the values of attention."""


_STEMS: dict[type, str] = {}
"""Names of operations by the class of a node, which is cheaper to get than its name."""

_UNREGISTERED = "CppFunction"
"""The class of all nodes without a Python class of their own."""


def stem(node: Any) -> str:
    """Return the name of a node's operation, `Addmm` of `AddmmBackward0`.

    The names of functions that are written in Python, `_MeasuredBackward`, are returned whole.
    """
    kind = type(node)
    name = _STEMS.get(kind)
    if name is None:
        name = re.sub(r"Backward(CUDA|CPU)?\d+$", "", node.name().rpartition("::")[2])
        if kind.__name__ != _UNREGISTERED:
            _STEMS[kind] = name
    return name


def hold(index: int) -> Rule:
    """Return the rule that holds one input."""

    def rule(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients:
        return (*inputs[:index], None, *inputs[index + 1 :])

    return rule


def hold_all(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients:
    """Hold the value of an operation."""
    if outputs[0] is not None:
        constant(outputs[0] * _output_of(node))
    return (None,) * len(inputs)


def divide(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients:
    """Hold the denominator, or the quotient if the numerator is constant."""
    if outputs[0] is not None and node.next_functions[0][0] is None:
        constant(outputs[0] * _output_of(node))
    return (*inputs[:1], None)


def activation(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Multiply the gradient by f(x) / x (Modarressi et al., 2023, equation 9: the ratio is held)."""
    gradient = outputs[0]
    if gradient is None:
        return None
    name = stem(node)
    x = _input_of(node, name)
    values = ACTIVATIONS[name](node, x)  # f(x)
    if name not in _LIMITS:  # at x = 0, f(0) has no ratio: it is a constant
        constant(gradient * values.masked_fill(x != 0, 0.0))
    # At zero alone: a wider gap would turn rounding into a jump.
    ratio = values.div_(x).nan_to_num_(_LIMITS.get(name, 0.0), 0.0, 0.0)
    return ((gradient * ratio).to(gradient.dtype), *(None,) * (len(inputs) - 1))


def power(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Hold all but one of the factors of x^n; hold roots and reciprocals."""
    if _is_natural_power(node):
        return (None if inputs[0] is None else inputs[0] / node._saved_exponent,)
    if outputs[0] is not None:
        constant(outputs[0] * _output_of(node))
    return (None,) * len(inputs)


def _is_natural_power(node: Any) -> bool:
    """Return whether the exponent of a power is a whole number above zero."""
    if node.name() != "PowBackward0":  # its exponent is a tensor
        return False
    return bool(node._saved_exponent > 0 and float(node._saved_exponent).is_integer())


def layer_norm(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Hold the standard deviation; the mean is linear (Ali et al., 2022, section 3.2)."""
    gradient, weight = outputs[0], node._saved_weight
    if gradient is None:
        return None
    scaled = gradient * node._saved_result2 if weight is None else gradient * weight * node._saved_result2
    axes = tuple(range(-len(node._saved_normalized_shape), 0))
    return ((scaled - scaled.mean(axes, keepdim=True)).to(gradient.dtype), None, *inputs[2:])


def rms_norm(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Hold the root mean square."""
    gradient, weight = outputs[0], node._saved_weight
    if gradient is None:
        return None
    scaled = gradient * node._saved_result1 if weight is None else gradient * weight * node._saved_result1
    return (scaled.to(gradient.dtype), *(None,) * (len(inputs) - 1))


def group_norm(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Hold the standard deviation of each group of channels."""
    gradient, weight = outputs[0], node._saved_weight
    if gradient is None:
        return None
    channel_shape = (1, -1) + (1,) * (gradient.ndim - 2)
    scaled = gradient if weight is None else gradient * weight.reshape(channel_shape)
    rows = scaled.reshape(gradient.shape[0], node._saved_group, -1)  # (B, G, N)
    rows = rows * node._saved_result2.reshape(gradient.shape[0], -1, 1)
    rows = rows - rows.mean(-1, keepdim=True)
    return (rows.reshape(gradient.shape).to(gradient.dtype), None, *inputs[2:])


def batch_norm(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Hold the standard deviation of each channel; linear in evaluation mode, where the mean is a constant."""
    gradient, weight = outputs[0], node._saved_weight
    if gradient is None:
        return None
    channel_shape = (1, -1) + (1,) * (gradient.ndim - 2)
    in_training = node._saved_training
    epsilon = node._saved_eps if hasattr(node, "_saved_eps") else node._saved_epsilon  # cuDNN's and MIOpen's
    scale = node._saved_result2 if in_training else torch.rsqrt(node._saved_running_var + epsilon)  # (C,)
    scaled = gradient * (scale if weight is None else scale * weight).reshape(channel_shape)
    if in_training:  # with the statistics of the batch
        scaled = scaled - scaled.mean([axis for axis in range(gradient.ndim) if axis != 1], keepdim=True)
    else:
        constant(-scaled * node._saved_running_mean.reshape(channel_shape))
    # Torch's own gradient of the bias is wrong where the gradient is not contiguous (2.13, CPU, evaluation mode).
    channels = [axis for axis in range(gradient.ndim) if axis != 1]
    return (scaled.to(gradient.dtype), None, None if inputs[2] is None else gradient.sum(channels), *inputs[3:])


def hold_others(index: int) -> Rule:
    """Return the rule that holds all inputs but one, as attention does all but the values."""

    def rule(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients:
        return tuple(gradient if place == index else None for place, gradient in enumerate(inputs))

    return rule


def log_softmax(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Hold the normaliser, which is subtracted."""
    if outputs[0] is not None:
        x = node.metadata.get(INPUT)
        constant(outputs[0] * ((node._saved_result - x) if x is not None else math.nan))
    return (outputs[0], *(None,) * (len(inputs) - 1))


def gated_linear_unit(node: Any, constant: Constant, inputs: Gradients, outputs: Gradients) -> Gradients | None:
    """Hold the gate, which is the second half."""
    gradient = outputs[0]
    if gradient is None:
        return None
    axis = node._saved_dim - (1 << 64 if node._saved_dim > gradient.ndim else 0)  # -1 is saved as an unsigned number
    gate = node._saved_self.chunk(2, axis)[1].sigmoid()
    return (torch.cat((gradient * gate, torch.zeros_like(gradient)), axis),)


RULES: dict[str, Rule | None] = {
    **dict.fromkeys(sorted(LINEAR | CHOICES | QUANTISED_PRODUCTS), None),
    **dict.fromkeys(sorted(HELD), hold_all),
    **dict.fromkeys(ACTIVATIONS, activation),
    **{name: hold(index) for name, index in HELD_INPUT.items()},
    "Div": divide,
    "Pow": power,
    "NativeLayerNorm": layer_norm,
    "FusedRmsNorm": rms_norm,
    "NativeGroupNorm": group_norm,
    "NativeBatchNorm": batch_norm,
    "CudnnBatchNorm": batch_norm,
    "MiopenBatchNorm": batch_norm,
    "LogSoftmax": log_softmax,
    "Glu": gated_linear_unit,
    **{name: hold_others(index) for name, index in PASSED_INPUT.items()},
}
"""Rules by the name of a node without `Backward0`; None if torch's gradient is right. `FACTORS` has products."""


_PASS_ALL = frozenset(FACTORS) | {
    name
    for name, rule in RULES.items()
    if rule in (None, activation, log_softmax, gated_linear_unit) and name != "_MeasuredBackward"
}
"""Operations that never hold an input, except as products; most nodes of a graph are of these."""


def held_inputs(node: Any, name: str) -> Collection[int]:
    """Return which inputs of a node are held, so that they receive no gradient; products are not considered."""
    if name in _PASS_ALL:
        return ()
    count = range(len(node.next_functions))
    rule = RULES.get(name)
    if rule is hold_all:
        return count
    if name == "Pow":
        return () if _is_natural_power(node) else count
    if name in PASSED_INPUT:
        return [index for index in count if index != PASSED_INPUT[name]]
    if rule in (layer_norm, rms_norm, group_norm, batch_norm):
        return (1,)
    if name == "_MeasuredBackward" and node.next_functions[0][0] is not None:
        return (1,)  # the leaf of a readout; the input has entered before it if the state has a gradient
    return (HELD_INPUT[name],) if name in HELD_INPUT else ()


def holds_its_value(node: Any) -> bool:
    """Return whether a node's rule may need its output, as held values are part of the bias."""
    return RULES.get(stem(node)) in (hold_all, divide, power)


def _output_of(node: Any) -> Tensor | float:
    """Return the output of a node's operation, NaN if it is not known."""
    value = node.metadata.get(VALUE)
    if value is None:
        value = getattr(node, "_saved_result", math.nan)
    return value  # type: ignore[no-any-return]


def _input_of(node: Any, name: str) -> Tensor:
    """Return the input of an activation, computed from its output if torch saved only that."""
    saved = node.saved_tensors[0] if hasattr(node, "saved_tensors") else getattr(node, "_saved_self", None)
    if saved is None:
        saved = node.metadata.get(INPUT)
    if saved is None:
        result = node._saved_result
        if result.dtype.itemsize < 4 or not _INVERSE[name](result).isfinite().all():
            raise UnsupportedModelError(
                f"cannot be frozen: the input of {name} was not recorded, and cannot be recovered from an output that "
                "is rounded or at its limit"
            )
        saved = _INVERSE[name](result.double()).to(result.dtype)
    x: Tensor = saved.detach()
    return x
