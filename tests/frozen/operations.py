"""A small function for each operation of the table of rules, and what must hold of the frozen network there.

Every leaf counts: what x and each constant contribute is summed, and compared with the value of the function. Where two
factors depend on the input both choices of the one that is held have this sum; there the slope is compared with that of
the function whose held factor is a number.
"""

import functools
import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from transformers.models.bloom.modeling_bloom import GeLUFunction
from transformers.models.yoso.modeling_yoso import YosoCumulation

from normxlogit.frozen.slopes import operation_name
from tests.frozen.slopes import assert_conserved, slope_of

X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(3)) + 0.1
INDEX = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 1]])
MASK = torch.tensor([True, False, True, True, False, True, False, True])
KERNEL = torch.linspace(-1, 1, 64).reshape(8, 8).sin()
GATED = torch.linspace(2, -1, 64).reshape(8, 8).cos()
ROW = torch.linspace(-1, 2, 8)


def flat(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(6, 8)


def plane(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(2, 3, 2, 4)


def volume(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(1, 3, 2, 4, 2)


def as_complex(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x.reshape(2, 3, 4, 2))


def written(x: torch.Tensor) -> torch.Tensor:
    copy = x.clone() * 1.5
    copy[:, :, :3].mul_(2.0)
    return copy


def unreal(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x) * torch.tensor([1.0, -0.5])


torch.manual_seed(0)
CONVOLUTION = nn.Conv1d(3, 4, 3, padding=1).requires_grad_(False)
BATCH_NORM = nn.BatchNorm1d(3).requires_grad_(False).eval()
BATCH_NORM.running_mean.fill_(0.3)
BATCH_NORM.running_var.fill_(2.0)
BATCH_NORM.weight.copy_(torch.tensor([1.0, -2.0, 0.5]))
BATCH_NORM.bias.fill_(0.4)

ONE_ARGUMENT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # linear
    "AdaptiveAvgPool2D": lambda x: F.adaptive_avg_pool2d(plane(x), (1, 3)),
    "AdaptiveAvgPool3D": lambda x: F.adaptive_avg_pool3d(volume(x), (1, 3, 2)),
    "Add": lambda x: x + ROW,
    "AffineGridGenerator": lambda x: F.affine_grid(x.reshape(8, 2, 3), [8, 1, 2, 2], align_corners=False),
    "Alias": lambda x: torch.ops.aten.alias(x) * 2,
    "AsStrided": lambda x: x.clone().as_strided((4, 2), (2, 1)),
    "AvgPool2D": lambda x: F.avg_pool2d(plane(x), 2),
    "AvgPool3D": lambda x: F.avg_pool3d(volume(x), 2),
    "BlockDiag": lambda x: torch.block_diag(x[0], x[1]),
    "Cat": lambda x: torch.cat((x, x.new_ones(2, 3, 1)), -1),
    "ChannelShuffle": lambda x: F.channel_shuffle(plane(x)[:, :2], 2),
    "Clone": lambda x: x.clone(),
    "Col2Im": lambda x: F.fold(x.reshape(1, 4, 12), (4, 5), (2, 2)),
    "Complex": lambda x: unreal(torch.complex(x, x.flip(-1))),
    "Conj": lambda x: unreal(torch.resolve_conj(as_complex(x).conj())),
    "ConjPhysical": lambda x: unreal(torch.conj_physical(as_complex(x))),
    "ConstantPadNd": lambda x: F.pad(x, (1, 2)),
    "CopyBackwards": lambda x: x.new_zeros(2, 3, 8).copy_(x) * 2,
    "CopySlices": written,
    "Cumsum": lambda x: x.cumsum(-1),
    "DiagEmbed": lambda x: torch.diag_embed(x),
    "Diagonal": lambda x: x.diagonal(dim1=1, dim2=2),
    "DiagonalScatter": lambda x: torch.diagonal_scatter(x, x[:, :, 0] * 2, dim1=1, dim2=2),
    "Embedding": lambda x: F.embedding(INDEX, flat(x)),
    "EmbeddingBag": lambda x: F.embedding_bag(INDEX, flat(x), mode="mean"),
    "Expand": lambda x: x[..., None].expand(2, 3, 8, 2),
    "FftC2C": lambda x: unreal(torch.fft.fft(as_complex(x))),
    "FftC2R": lambda x: torch.fft.irfft(as_complex(x)),
    "FftR2C": lambda x: unreal(torch.fft.rfft(x)),
    "Fill": lambda x: x * 2 + torch.fill(ROW, x[0, 0, 0]),
    "Flip": lambda x: x.flip(-1),
    "Gather": lambda x: flat(x)[:2].gather(1, INDEX),
    "Im2Col": lambda x: F.unfold(plane(x), 2),
    "Index": lambda x: x[:, INDEX],
    "IndexAdd": lambda x: torch.index_add(x, 1, INDEX[0, :3], x * 2),
    "IndexCopy": lambda x: torch.index_copy(x, 1, INDEX[0, :2], x[:, :2] * 2),
    "IndexFill": lambda x: torch.index_fill(x, 1, INDEX[0, :2], x[0, 0, 0] * 2),
    "IndexPut": lambda x: torch.index_put(x[0], (INDEX[0, :2],), x[1, :2] * 2),
    "IndexPutImpl": lambda x: torch._index_put_impl_(x[0].clone(), (INDEX[0, :2],), x[1, :2] * 2),
    "IndexSelect": lambda x: x.index_select(1, INDEX[0]),
    "Lift": lambda x: torch.ops.aten.lift(x),
    "LiftFresh": lambda x: torch.ops.aten.lift_fresh(x),
    "MaskedFill": lambda x: x.masked_fill(MASK, 0.7),
    "MaskedScatter": lambda x: x.masked_scatter(MASK, x * 2),
    "MaskedSelect": lambda x: x.masked_select(MASK),
    "Mean": lambda x: x.mean(-1),
    "Nansum": lambda x: x.nansum(-1),
    "NarrowCopy": lambda x: torch.narrow_copy(x, 2, 1, 3),
    "NativeDropout": lambda x: torch.native_dropout(x, 0.0, True)[0],
    "Neg": lambda x: -x,
    "NegView": lambda x: torch.ops.aten._neg_view(x) * 2,
    "Permute": lambda x: x.permute(2, 0, 1),
    "PixelShuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 3, 4), 2),
    "PixelUnshuffle": lambda x: F.pixel_unshuffle(plane(x), 2),
    "Put": lambda x: torch.put(x, torch.arange(3), x[1, 1, :3] * 2),
    "ReflectionPad1D": lambda x: F.pad(x, (1, 1), "reflect"),
    "ReflectionPad2D": lambda x: F.pad(plane(x), (1, 1, 1, 1), "reflect"),
    "ReflectionPad3D": lambda x: F.pad(volume(x), (1, 1, 1, 1, 1, 1), "reflect"),
    "Repeat": lambda x: x.repeat(1, 2, 1),
    "ReplicationPad1D": lambda x: F.pad(x, (1, 1), "replicate"),
    "ReplicationPad2D": lambda x: F.pad(plane(x), (1, 1, 1, 1), "replicate"),
    "ReplicationPad3D": lambda x: F.pad(volume(x), (1, 1, 1, 1, 1, 1), "replicate"),
    "ReshapeAlias": lambda x: torch.ops.aten._reshape_alias(x.clone(), (6, 8), (8, 1)) * 2,
    "Roll": lambda x: x.roll(1, -1),
    "Rot90": lambda x: x.rot90(1, (1, 2)),
    "Rsub": lambda x: torch.rsub(x, 1.0),
    "Scatter": lambda x: torch.scatter(flat(x), 1, INDEX[:1, :3], flat(x)[2:3, 3:6] * 2),
    "ScatterAdd": lambda x: torch.scatter_add(flat(x)[:2], 1, INDEX, flat(x)[:2, :4] * 2),
    "ScatterReduce": lambda x: torch.scatter_reduce(flat(x)[:2], 1, INDEX, flat(x)[:2, :4] * 2, "mean"),
    "Select": lambda x: x.select(1, 2),
    "SelectScatter": lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, 2),
    "Slice": lambda x: x[:, 1:],
    "SliceScatter": lambda x: torch.slice_scatter(x, x[:, 1:] * 2, 1, 1),
    "SparseMask": lambda x: (
        x[0, :, :3].sparse_mask(torch.sparse_coo_tensor(INDEX, torch.ones(4), (3, 3)).coalesce()).to_dense()
    ),
    "Split": lambda x: x.split(3, -1)[0],
    "SplitWithSizes": lambda x: x.split([3, 5], -1)[1],
    "Squeeze": lambda x: x[:, :1].squeeze(1),
    "Stack": lambda x: torch.stack((x, torch.ones_like(x))),
    "Sub": lambda x: x - ROW,
    "Sum": lambda x: x.sum(-1),
    "T": lambda x: flat(x).t(),
    "Take": lambda x: x.take(INDEX),
    "ToCopy": lambda x: x.double().float(),
    "ToDense": lambda x: x[0].to_sparse().to_dense() * 2,
    "ToSparse": lambda x: x[0].to_sparse().to_dense(),
    "Trace": lambda x: flat(x).trace(),
    "Transpose": lambda x: x.transpose(1, 2),
    "Tril": lambda x: x.tril(),
    "Triu": lambda x: x.triu(),
    "Unbind": lambda x: x.unbind(1)[1],
    "Unfold": lambda x: x.unfold(-1, 3, 2),
    "UnfoldBackward": lambda x: torch.ops.aten.unfold_backward(x.reshape(2, 3, 4, 2), (2, 3, 8), 2, 2, 2),
    "UnsafeIndex": lambda x: torch.ops.aten._unsafe_index(x[0], (INDEX[0],)),
    "UnsafeIndexPut": lambda x: torch.ops.aten._unsafe_index_put(x[0], (INDEX[0, :2],), x[1, :2] * 2),
    "UnsafeMaskedIndex": lambda x: torch.ops.aten._unsafe_masked_index(ROW * x[0, 0], MASK, (torch.arange(8),), 0.0),
    "UnsafeSplit": lambda x: torch.unsafe_split(x, 3, -1)[0],
    "UnsafeSplitWithSizes": lambda x: torch.unsafe_split_with_sizes(x, [3, 5], -1)[1],
    "UnsafeView": lambda x: torch.ops.aten._unsafe_view(x, (6, 8)),
    "Unsqueeze": lambda x: x.unsqueeze(1),
    "UpsampleBicubic2D": lambda x: F.interpolate(plane(x), scale_factor=2, mode="bicubic"),
    "UpsampleBicubic2DAa": lambda x: F.interpolate(plane(x), scale_factor=2, mode="bicubic", antialias=True),
    "UpsampleBilinear2D": lambda x: F.interpolate(plane(x), scale_factor=2, mode="bilinear"),
    "UpsampleBilinear2DAa": lambda x: F.interpolate(plane(x), scale_factor=2, mode="bilinear", antialias=True),
    "UpsampleLinear1D": lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
    "UpsampleNearest1D": lambda x: F.interpolate(x, scale_factor=2),
    "UpsampleNearest2D": lambda x: F.interpolate(plane(x), scale_factor=2),
    "UpsampleNearest3D": lambda x: F.interpolate(volume(x), scale_factor=2),
    "UpsampleNearestExact1D": lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"),
    "UpsampleNearestExact2D": lambda x: F.interpolate(plane(x), scale_factor=2, mode="nearest-exact"),
    "UpsampleNearestExact3D": lambda x: F.interpolate(volume(x), scale_factor=2, mode="nearest-exact"),
    "UpsampleTrilinear3D": lambda x: F.interpolate(volume(x), scale_factor=2, mode="trilinear"),
    "Values": lambda x: x[0].to_sparse().coalesce().values(),
    "View": lambda x: x.view(6, 8),
    "ViewAsComplex": lambda x: unreal(torch.view_as_complex(x.reshape(2, 3, 4, 2))),
    "ViewAsReal": lambda x: unreal(as_complex(x)),
    "Where": lambda x: torch.where(MASK, x, 0.3),
    # choices
    "Abs": lambda x: x.abs(),
    "AdaptiveMaxPool2D": lambda x: F.adaptive_max_pool2d(plane(x), (1, 2)),
    "AdaptiveMaxPool3D": lambda x: F.adaptive_max_pool3d(volume(x), (1, 2, 2)),
    "Amax": lambda x: x.amax(-1),
    "Amin": lambda x: x.amin(-1),
    "Aminmax": lambda x: x.aminmax(dim=-1).max,
    "Cummax": lambda x: x.cummax(-1).values,
    "Cummin": lambda x: x.cummin(-1).values,
    "Fmax": lambda x: torch.fmax(x, x.flip(-1)),
    "Fmin": lambda x: torch.fmin(x, x.flip(-1)),
    "Hardshrink": lambda x: F.hardshrink(x, 0.4),
    "IndexReduce": lambda x: torch.index_reduce(x, 1, torch.tensor([0, 2]), x[:, 1:] * 2, "amax"),
    "Kthvalue": lambda x: x.kthvalue(2, -1).values,
    "LeakyRelu": lambda x: F.leaky_relu(x, 0.1),
    "Max": lambda x: x.max(-1).values,
    "MaxPool2DWithIndices": lambda x: F.max_pool2d(plane(x), 2, return_indices=True)[0],
    "MaxPool3DWithIndices": lambda x: F.max_pool3d(volume(x), 2, return_indices=True)[0],
    "MaxUnpool2D": lambda x: F.max_unpool2d(plane(x)[:, :, :1, :2], torch.tensor([[[[0, 3]]] * 3] * 2), 2),
    "MaxUnpool3D": lambda x: F.max_unpool3d(volume(x)[:, :, :1, :2, :1], torch.tensor([[[[[0], [5]]]] * 3]), 2),
    "Maximum": lambda x: torch.maximum(x, ROW),
    "Median": lambda x: x.median(-1).values,
    "Min": lambda x: x.min(-1).values,
    "Minimum": lambda x: torch.minimum(x, ROW),
    "Mode": lambda x: x.mode(-1).values,
    "NanToNum": lambda x: x.nan_to_num(),
    "Nanmedian": lambda x: x.nanmedian(-1).values,
    "PreluKernel": lambda x: F.prelu(x, torch.tensor(0.2)),
    "Relu": lambda x: F.relu(x),
    "RreluWithNoise": lambda x: torch.rrelu(x, 0.1, 0.1, True),
    "Sort": lambda x: x.sort(-1).values,
    "Topk": lambda x: x.topk(3, -1).values,
    # held: the value is a constant
    "Cdist": lambda x: torch.cdist(x, x.flip(1), compute_mode="donot_use_mm_for_euclid_dist"),
    "Ceil": lambda x: x.ceil(),
    "Cumprod": lambda x: x.cumprod(-1),
    "Exp": lambda x: x.exp(),
    "Exp2": lambda x: x.exp2(),
    "Floor": lambda x: x.floor(),
    "Fmod": lambda x: x.fmod(0.7),
    "LinalgInvEx": lambda x: torch.linalg.inv(flat(x)[:, :6]),
    "LinalgPinv": lambda x: torch.linalg.pinv(flat(x)[:4] @ flat(x)[:4].T + torch.eye(4), hermitian=True),
    "LinalgVectorNorm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "Logcumsumexp": lambda x: x.logcumsumexp(-1),
    "Logsumexp": lambda x: x.logsumexp(-1),
    "MaskedSoftmax": lambda x: torch._masked_softmax(x[:, :, None], ~MASK.expand(2, 3, 1, 8), 3, 0),
    "Norm": lambda x: torch.ops.aten.norm(x, 2.0),
    "Prod": lambda x: x.prod(-1),
    "Reciprocal": lambda x: x.reciprocal(),
    "Remainder": lambda x: x.remainder(0.7),
    "Round": lambda x: x.round(),
    "Rsqrt": lambda x: (x.detach().abs() * 2 + x.abs()).rsqrt(),
    "Sgn": lambda x: x.sgn(),
    "Sign": lambda x: x.sign(),
    "SafeSoftmax": lambda x: torch._safe_softmax(x, -1),
    "Softmax": lambda x: x.softmax(-1),
    "SoftmaxBackwardData": lambda x: torch._softmax_backward_data(ROW.expand(2, 3, 8), x, -1, torch.float32),
    "Sqrt": lambda x: x.abs().sqrt(),
    "Std": lambda x: x.std(-1),
    "Trunc": lambda x: x.trunc(),
    "Var": lambda x: x.var(-1),
    # f(x) / x
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Celu": lambda x: F.celu(x, 0.7),
    "Clamp": lambda x: x.clamp(-0.5, 0.6),
    "ClampMin": lambda x: torch.clamp_min(x, -0.5),
    "ClampMax": lambda x: torch.clamp_max(x, 0.5),
    "Elu": lambda x: F.elu(x, 0.7),
    "Erf": torch.erf,
    "Expm1": torch.expm1,
    "Gelu": F.gelu,
    "GeLUFunctionBackward": GeLUFunction.apply,
    "Hardsigmoid": F.hardsigmoid,
    "Hardswish": F.hardswish,
    "Hardtanh": lambda x: F.hardtanh(x, -0.5, 0.6),
    "Log": lambda x: (x.abs() + 0.2).log(),
    "Log1P": lambda x: x.abs().log1p(),
    "LogSigmoid": F.logsigmoid,
    "Mish": F.mish,
    "Sigmoid": torch.sigmoid,
    "Silu": F.silu,
    "Softplus": lambda x: F.softplus(x, 2.0, 5.0),
    "Softshrink": lambda x: F.softshrink(x, 0.3),
    "Tanh": torch.tanh,
    "Threshold": lambda x: F.threshold(x, 0.2, 0.0),
    # norms and the like
    "Pow": lambda x: x.pow(3) + x.abs().pow(0.5),
    "NativeLayerNorm": lambda x: F.layer_norm(x, (8,), ROW, ROW.flip(0)),
    "NativeGroupNorm": lambda x: F.group_norm(x, 1, torch.tensor([1.0, 2.0, -1.0]), torch.ones(3)),
    "NativeBatchNorm": BATCH_NORM,
    "LogSoftmax": lambda x: x.log_softmax(-1),
    "Glu": lambda x: F.glu(x, -1),
    # products with a constant
    "Div": lambda x: x / (ROW.abs() + 1),
    "Convolution": CONVOLUTION,
}
"""Functions whose graphs hold the node of that name; what contributes there adds up to the value."""

Factors = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def gate(y: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(y @ GATED)  # (2, 3, 8), held where one factor is activated


def kernel(y: torch.Tensor) -> torch.Tensor:  # (8, 8), computed from the input by an activation
    return torch.sigmoid(flat(y).mT @ flat(y) / 9) + 2 * torch.eye(8)


def attend(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(*((z @ w)[:, None] for z, w in ((y, KERNEL), (y, GATED), (x, GATED))))


def hash_attention(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    q, k = F.normalize(y @ KERNEL, dim=-1), F.normalize(y, dim=-1)
    if y.requires_grad:
        ones = torch.ones(2, 3)
        return YosoCumulation.apply(ones, ones, q, k, x @ GATED, {"hash_code_len": 3})
    return (1 - torch.acos(q @ k.mT) / torch.pi) ** 3 @ (x @ GATED)


def grouped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    ends = torch.tensor([2, 6], dtype=torch.int32)
    return F.grouped_mm(flat(x), torch.stack((kernel(y), kernel(y) * 2)), offs=ends)


GRID = torch.rand(2, 2, 2, 2, generator=torch.Generator().manual_seed(1)) - 0.5

NOTHING_FLOWS = frozenset([
    "Cdist", "Ceil", "Cumprod", "Exp", "Exp2", "Floor", "Fmod", "LinalgInvEx", "LinalgPinv", "LinalgVectorNorm",
    "Logcumsumexp", "Logsumexp", "MaskedSoftmax", "Norm", "Prod", "Reciprocal", "Remainder", "Round", "Rsqrt",
    "SafeSoftmax", "Sgn", "Sign", "Softmax", "SoftmaxBackwardData", "Sqrt", "Std", "Trunc", "Var",
])  # fmt: skip
"""Operations whose value is held, so that x contributes nothing through them."""

TWO_FACTORS: dict[str, Factors] = {
    "Mul": lambda x, y: (x @ KERNEL) * gate(y),
    "Addcmul": lambda x, y: torch.addcmul(x, x @ KERNEL, gate(y), value=0.5),
    "Mm": lambda x, y: torch.mm(flat(x) @ KERNEL, kernel(y)),
    "Bmm": lambda x, y: torch.bmm(x @ KERNEL, kernel(y).expand(2, 8, 8)),
    "Mv": lambda x, y: torch.mv(flat(x) @ KERNEL, torch.sigmoid(flat(y)[0])),
    "Dot": lambda x, y: torch.dot(flat(x)[1] * 2, torch.sigmoid(flat(y)[0])),
    "Vdot": lambda x, y: torch.vdot(flat(x)[1] * 2, torch.sigmoid(flat(y)[0])),
    "Addmm": lambda x, y: torch.addmm(flat(x), flat(x) @ KERNEL, kernel(y), beta=0.5, alpha=2),
    "Baddbmm": lambda x, y: torch.baddbmm(x, x @ KERNEL, kernel(y).expand(2, 8, 8)),
    "Addbmm": lambda x, y: torch.addbmm(x[0], x @ KERNEL, kernel(y).expand(2, 8, 8)),
    "Addmv": lambda x, y: torch.addmv(x[0, 0, :6], flat(x) @ KERNEL, torch.sigmoid(flat(y)[0])),
    "Addr": lambda x, y: torch.addr(flat(x), flat(x)[:, 0], torch.sigmoid(flat(y)[0])),
    "Div": lambda x, y: (x @ KERNEL) / (1 + gate(y)),
    "Addcdiv": lambda x, y: torch.addcdiv(x, x @ KERNEL, 1 + gate(y), value=0.5),
    "Lerp": lambda x, y: torch.lerp(x, x.flip(0) * 2, gate(y)),
    "Convolution": lambda x, y: F.conv1d(x, kernel(y)[:4, None, :3].expand(4, 3, 3)),
    "Trilinear": lambda x, y: F.bilinear(x, y.detach().sin(), kernel(y)[None].expand(2, 8, 8)),
    "GridSampler2D": lambda x, y: F.grid_sample(plane(x), GRID * gate(y).mean(), align_corners=False),
    "GridSampler3D": lambda x, y: F.grid_sample(
        volume(x), torch.cat((GRID, GRID[..., :1]), -1)[:1, None] * gate(y).mean(), align_corners=False
    ),
    "LinalgSolveTriangular": lambda x, y: torch.linalg.solve_triangular(kernel(y).tril(), flat(x).mT, upper=False),
    "LinalgSolveEx": lambda x, y: torch.linalg.solve(kernel(y), flat(x).mT),
    "TriangularSolve": lambda x, y: torch.triangular_solve(flat(x).mT, kernel(y).tril(), upper=False)[0],
    "GroupedMm": grouped,
    "ScaledDotProductFlashAttentionForCpu": attend,
    "YosoCumulationBackward": hash_attention,
}
"""Functions of what flows and of what is held, both the input: the slope is that with the latter as a number."""

TWINS = {
    "linear": "LazyClone PinMemory MkldnnReshape NestedFromPadded NestedFromPaddedTensor NestedGetValues Chunk "
    "NestedTensorFromMask NestedViewFromJagged ReshapeCopy ToPaddedTensor UpsampleLanczos2DAa "
    "AsStridedScatter SliceInverse Coalesce ToMkldnn Zero "
    "FractionalMaxPool2D FractionalMaxPool3D MatMul4BitBackward MatMul8bitFpBackward "
    "MatMul8bitLtBackward HQQMatmulCachedDeqBackward HQQMatmulNoCacheDeqBackward HQQMatmulNoCacheMulBackward "
    "QuantizedLinearFunctionBackward WeightQBytesLinearFunctionBackward AWQWeightQBitsLinearFunctionBackward "
    "TinyGemmQBitsLinearFunctionBackward MarlinF8QBytesLinearFunctionBackward MarlinQBitsLinearFunctionBackward "
    "AwqGemmFnBackward AwqGemmTritonFnBackward WQLinearMMFunctionBackward QuantLinearFunctionBackward",
    "kernel": "ConvolutionOverrideable SlowConv2D SlowConvTranspose2D MkldnnConvolution CudnnConvolution "
    "CudnnConvolutionTranspose GeneratedBackwardFor_transformers_grouped_mm_fallback_defaultBackward Linear GroupedMm",
    "attention": "CudnnAttention EfficientAttention FlashAttention ScaledDotProductFlashAttention "
    "ScaledDotProductCudnnAttention ScaledDotProductEfficientAttention ScaledDotProductFusedAttentionOverrideable",
    "batch norm": "CudnnBatchNorm MiopenBatchNorm",
    "rms norm": "FusedRmsNorm",
}
"""Operations of other devices and packages, by what their rule is: that of an operation above."""


def nodes_of(value: torch.Tensor) -> set[str]:
    names, waiting, seen = set(), [value.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            names.add(operation_name(node))
            waiting += [parent for parent, _ in node.next_functions]
    return names


def check(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of sparse tensors and triangular_solve
        if name in ONE_ARGUMENT:
            assert_conserved(lambda x: ONE_ARGUMENT[name](x).flatten() + x.sum(), X)
            if name in NOTHING_FLOWS:
                slope = slope_of(lambda x: ONE_ARGUMENT[name](x).flatten() + x.sum(), X)
                torch.testing.assert_close(slope, torch.ones_like(slope))
        if name in TWO_FACTORS:
            function = TWO_FACTORS[name]
            slope = slope_of(lambda x: function(x, x), X)
            wanted = _wanted(name)
            torch.testing.assert_close(slope, wanted.reshape(slope.shape), atol=1e-4, rtol=1e-4)


@functools.cache
def _wanted(name: str) -> torch.Tensor:
    wanted: torch.Tensor = torch.autograd.functional.jacobian(lambda x: TWO_FACTORS[name](x, X), X)
    return wanted
