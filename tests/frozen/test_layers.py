"""Layers that are affine, or are once their spread is held."""

import pytest
import torch
from torch.nn import functional as F

from tests.frozen.slopes import X, assert_conserved, slope_of

A = torch.linspace(-1, 1, 16).reshape(4, 4)
WEIGHT = torch.tensor([1.0, 2.0, -1.0, 0.5])


def test_a_batch_norm_without_statistics_of_its_own_holds_those_of_the_batch():
    x = torch.randn(3, 4, 2)  # (B, C, T)
    slope = slope_of(lambda x: F.batch_norm(x, None, None, WEIGHT, torch.ones(4), training=True), x)
    wanted = torch.zeros(24, 24)
    spread = x.transpose(0, 1).flatten(1).var(1, correction=0).add(1e-5).sqrt()  # (C,)
    for i in range(24):
        for j in range(24):
            channel = i // 2 % 4
            if channel == j // 2 % 4:
                wanted[i, j] = WEIGHT[channel] * ((i == j) - 1 / 6) / spread[channel]
    torch.testing.assert_close(slope, wanted, atol=1e-5, rtol=1e-4)


def test_an_instance_norm_holds_the_spread_of_each_text_and_channel():
    x = torch.randn(2, 4, 3)
    slope = slope_of(lambda x: F.instance_norm(x, weight=WEIGHT, bias=torch.ones(4)), x)
    spread = (x.var(-1, correction=0) + 1e-5).sqrt()  # (B, C)
    blocks = [WEIGHT[c] * (torch.eye(3) - 1 / 3) / spread[b, c] for b in range(2) for c in range(4)]
    torch.testing.assert_close(slope, torch.block_diag(*blocks), atol=1e-5, rtol=1e-4)


def test_statistics_of_its_own_make_a_norm_a_multiplication():
    x, mean, var = torch.randn(2, 4, 3), torch.randn(4), torch.rand(4) + 0.5
    for norm in (
        lambda x: F.batch_norm(x, mean, var, WEIGHT, torch.ones(4), eps=0.1),
        lambda x: F.instance_norm(x, mean, var, WEIGHT, torch.ones(4), use_input_stats=False, eps=0.1),
    ):
        slope = slope_of(norm, x)
        wanted = (WEIGHT / (var + 0.1).sqrt())[None, :, None].expand_as(x)
        torch.testing.assert_close(slope, torch.diag(wanted.flatten()), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_group_norm_holds_the_spread_of_each_group(groups):
    slope = slope_of(lambda x: F.group_norm(x, groups, WEIGHT, torch.ones(4), eps=0.5), X)
    size = 4 // groups
    blocks = [(torch.eye(size) - 1 / size) / (row.var(correction=0) + 0.5).sqrt() for row in X.reshape(-1, size)]
    wanted = WEIGHT.repeat(2)[:, None] * torch.block_diag(*blocks)
    torch.testing.assert_close(slope, wanted, atol=1e-5, rtol=1e-4)


CONSTANT = {
    "layer_norm": lambda x: F.layer_norm(A, (4,)),
    "rms_norm": lambda x: F.rms_norm(A, (4,)),
    "group_norm": lambda x: F.group_norm(A, 2),
    "batch_norm": lambda x: F.batch_norm(A, None, None, training=True),
    "log_softmax": lambda x: F.log_softmax(A, -1),
    "convolution": lambda x: F.conv1d(A[None], torch.ones(2, 4, 1))[0],
    "glu": lambda x: F.glu(torch.cat((A, A), -1)),
    "pool": lambda x: F.max_pool1d(A[None], 2)[0],
}


@pytest.mark.parametrize("name", CONSTANT)
def test_a_layer_of_something_that_does_not_flow_is_a_constant(name):
    slope = slope_of(lambda x: x.sum() + CONSTANT[name](x), X)
    torch.testing.assert_close(slope, torch.ones_like(slope))


@pytest.mark.parametrize("norm", [lambda: torch.nn.BatchNorm2d(3), lambda: torch.nn.GroupNorm(3, 3)])
def test_the_bias_of_a_norm_is_counted_whatever_the_order_of_the_axes(norm):
    """Torch's own gradient of a batch norm's bias is wrong where what arrives is transposed."""
    module = norm().eval()
    for values in (*module.parameters(), *module.buffers()):
        if values.is_floating_point():
            values.data.uniform_(0.5, 2.0)
    x = torch.randn(1, 3, 4, 4)
    assert_conserved(lambda x: module(x).flatten(2).transpose(1, 2), x)
