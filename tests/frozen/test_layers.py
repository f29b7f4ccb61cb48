"""Layers that are affine, or are once their spread is held."""

import pytest
import torch
from torch.nn import functional as F

from tests.frozen.slopes import assert_conserved, slope_of

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


@pytest.mark.parametrize("norm", [lambda: torch.nn.BatchNorm2d(3), lambda: torch.nn.GroupNorm(3, 3)])
def test_the_bias_of_a_norm_is_counted_whatever_the_order_of_the_axes(norm):
    """Torch's own gradient of a batch norm's bias is wrong where what arrives is transposed."""
    module = norm().eval()
    for values in (*module.parameters(), *module.buffers()):
        if values.is_floating_point():
            values.data.uniform_(0.5, 2.0)
    x = torch.randn(1, 3, 4, 4)
    assert_conserved(lambda x: module(x).flatten(2).transpose(1, 2), x)
