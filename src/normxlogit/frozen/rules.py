"""The rules of the frozen network: what each operation passes back with its non-linear factors held constant.

At the given input every operation of the forward pass is A z + b, z what flows through it; A and b keep their value.
The backward pass walks the model's own graph (`backward`), and by the name of each node finds its row here: which of
its inputs are held, and what takes the place of torch's gradient for the others (`slopes`). An operation without a row
is refused, if a gradient arrives. tests/frozen/test_rule_mutations.py tries each row: with it what contributes adds up,
and what is wrong about it is noticed.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from . import slopes
from .slopes import ACTIVATIONS, Slope, is_natural_power

LEAF = "AccumulateGrad"
"""The name of the node of a leaf."""


class Row(NamedTuple):
    """A row of the table."""

    operations: str  # names of operations, see `operation_name`, between spaces
    rule: str  # what flows back, in words
    source: str  # paper and equation
    # Indices of the inputs that are held, or a function of the node that returns them; of products, `products` chooses
    held: Collection[int] | Callable[[Any], Collection[int]] = ()
    slope: Slope | None = None  # what takes the place of torch's gradients; None where they are right


def everything(node: Any) -> Collection[int]:
    """Return the indices of all inputs of a node, for operations that are constant."""
    return range(len(node.next_functions))


def all_but(index: int) -> Callable[[Any], Collection[int]]:
    """Return a function that returns the indices of all inputs of a node but one."""
    return lambda node: [position for position in everything(node) if position != index]


TABLE = (
    Row("Softmax SafeSoftmax MaskedSoftmax SoftmaxBackwardData Logsumexp Logcumsumexp Exp Exp2",
        "nothing: the value is a constant", "Ali et al., 2022, section 3.1: attention probabilities are held",
        everything, slopes.keep_value),
    Row("ScaledDotProductFlashAttentionForCpu ScaledDotProductFlashAttention ScaledDotProductEfficientAttention "
        "ScaledDotProductCudnnAttention ScaledDotProductFusedAttentionOverrideable FlashAttention "
        "EfficientAttention CudnnAttention",
        "torch's own to the values, none to queries, keys and masks", "Ali et al., 2022, section 3.1", all_but(2)),
    Row("YosoCumulationBackward",
        "torch's own to the values", "Zeng et al., 2021, section 3: hashes in the place of probabilities", all_but(4)),
    Row("NativeLayerNorm",
        "gradient * weight / sigma, less its mean: sigma is held, the mean moves", "Ali et al., 2022, section 3.2",
        (1,), slopes.layer_norm),
    Row("FusedRmsNorm", "gradient * weight / root mean square, which is held", "Ali et al., 2022, section 3.2",
        (1,), slopes.rms_norm),
    Row("NativeGroupNorm", "that of a layer norm, of each group of channels", "Ali et al., 2022, section 3.2",
        (1,), slopes.group_norm),
    Row("NativeBatchNorm CudnnBatchNorm MiopenBatchNorm",
        "gradient * weight / sigma; less its mean where the statistics are the batch's",
        "Ali et al., 2022, section 3.2", (1,), slopes.batch_norm),
    Row(" ".join(ACTIVATIONS), "gradient * f(x) / x: the ratio is held", "Modarressi et al., 2023, equation 9",
        (), slopes.activation),
    Row("Mul Addcmul Mm Bmm Mv Dot Vdot Addmm Baddbmm Addbmm Addmv Addr",
        "torch's own to one factor, none to the other: that which is computed from the first, activated, stretched, or "
        "left (`CRITERIA`)", "Arras et al., 2017, section 3: the signal takes all"),
    Row("Linear Convolution ConvolutionOverrideable SlowConv2D SlowConvTranspose2D MkldnnConvolution "
        "CudnnConvolution CudnnConvolutionTranspose Trilinear GridSampler2D GridSampler3D GroupedMm "
        "GeneratedBackwardFor_transformers_grouped_mm_fallback_defaultBackward TriangularSolve",
        "torch's own to what the kernel, weight or matrix is applied to", "Arras et al., 2017, section 3", (1,)),
    Row("LinalgSolveTriangular LinalgSolveEx", "torch's own to the right side", "Arras et al., 2017, section 3", (0,)),
    Row("Div", "torch's own to the numerator", "Ali et al., 2022, section 3: denominators are held",
        (1,), slopes.divide),
    Row("Addcdiv Lerp",
        "torch's own to all but the denominator, or the weight between two ends", "Ali et al., 2022, section 3", (2,)),
    Row("Pow", "torch's own by n for x^n, all factors but one held; nothing for roots and reciprocals",
        "Arras et al., 2017, section 3",
        lambda node: () if is_natural_power(node) else everything(node), slopes.power),
    Row("LogSoftmax", "the gradient: the normaliser is subtracted, and held", "Ali et al., 2022, section 3",
        (), slopes.log_softmax),
    Row("Glu", "gradient * sigmoid(second half) to the first half", "Arras et al., 2017, section 3",
        (), slopes.gated_linear_unit),
    Row("Rsqrt Sqrt Reciprocal Std Var Norm LinalgVectorNorm Cdist Prod Cumprod Round Floor Ceil Trunc Sign Sgn "
        "Fmod Remainder LinalgInvEx LinalgPinv",
        "nothing: the value is a constant", "Ali et al., 2022, section 3", everything, slopes.keep_value),
    Row("Abs AdaptiveMaxPool2D AdaptiveMaxPool3D Amax Amin Aminmax Cummax Cummin Fmax Fmin FractionalMaxPool2D "
        "FractionalMaxPool3D Hardshrink IndexReduce Kthvalue LeakyRelu Max MaxPool2DWithIndices "
        "MaxPool3DWithIndices MaxUnpool2D MaxUnpool3D Maximum Median Min Minimum Mode NanToNum Nanmedian "
        "PreluKernel Relu RreluWithNoise Sort Threshold Topk",
        "torch's own to what was chosen: the choice is held, and the slope is f(x) / x",
        "Modarressi et al., 2023, equation 9"),
    # Of bitsandbytes, HQQ, quanto, AWQ and GPTQ.
    Row("MatMul4BitBackward MatMul8bitFpBackward MatMul8bitLtBackward HQQMatmulCachedDeqBackward "
        "HQQMatmulNoCacheDeqBackward HQQMatmulNoCacheMulBackward QuantizedLinearFunctionBackward "
        "WeightQBytesLinearFunctionBackward AWQWeightQBitsLinearFunctionBackward "
        "TinyGemmQBitsLinearFunctionBackward MarlinF8QBytesLinearFunctionBackward MarlinQBitsLinearFunctionBackward "
        "AwqGemmFnBackward AwqGemmTritonFnBackward WQLinearMMFunctionBackward QuantLinearFunctionBackward",
        "torch's own: that of the dequantised weights", "linear"),
    Row("AdaptiveAvgPool2D AdaptiveAvgPool3D Add AffineGridGenerator Alias AsStrided AsStridedScatter AvgPool2D "
        "AvgPool3D BlockDiag Cat ChannelShuffle Chunk Clone Coalesce Col2Im Complex Conj ConjPhysical ConstantPadNd "
        "CopyBackwards CopySlices Cumsum DiagEmbed Diagonal DiagonalScatter Embedding EmbeddingBag Expand FftC2C "
        "FftC2R FftR2C Fill Flip Gather Im2Col Index IndexAdd IndexCopy IndexFill IndexPut IndexPutImpl IndexSelect "
        "LazyClone Lift LiftFresh MaskedFill MaskedScatter MaskedSelect Mean MkldnnReshape Nansum NarrowCopy "
        "NativeDropout Neg NegView NestedFromPadded NestedFromPaddedTensor NestedGetValues NestedTensorFromMask "
        "NestedViewFromJagged Permute PinMemory PixelShuffle PixelUnshuffle Put ReflectionPad1D ReflectionPad2D "
        "ReflectionPad3D Repeat ReplicationPad1D ReplicationPad2D ReplicationPad3D ReshapeAlias ReshapeCopy Roll "
        "Rot90 Rsub Scatter ScatterAdd ScatterReduce Select SelectScatter Slice SliceInverse SliceScatter "
        "SparseMask Split SplitWithSizes Squeeze Stack Sub Sum T Take ToCopy ToDense ToMkldnn ToPaddedTensor "
        "ToSparse Trace Transpose Tril Triu Unbind Unfold UnfoldBackward UnsafeIndex UnsafeIndexPut "
        "UnsafeMaskedIndex UnsafeSplit UnsafeSplitWithSizes UnsafeView Unsqueeze UpsampleBicubic2D "
        "UpsampleBicubic2DAa UpsampleBilinear2D UpsampleBilinear2DAa UpsampleLanczos2DAa UpsampleLinear1D "
        "UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleNearestExact1D UpsampleNearestExact2D "
        "UpsampleNearestExact3D UpsampleTrilinear3D Values View ViewAsComplex ViewAsReal Where Zero",
        "torch's own", "linear"),
)  # fmt: skip

RULES: dict[str, Row] = {name: row for row in TABLE for name in row.operations.split()}
"""The row of each operation."""

PRODUCTS = {name for name, row in RULES.items() if row.operations.startswith("Mul ")}
"""Products, whose factors are the last two inputs."""

ELEMENTWISE_PRODUCTS = ("Mul", "Addcmul")
"""Those of them that are not of matrices."""

UNKNOWN = Row("", "refused", "")
"""The row of every operation that has none."""
