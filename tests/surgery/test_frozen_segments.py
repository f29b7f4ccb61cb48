"""Layers that keep only what they are given and run again on the way back."""

import pytest
import torch
from torch import nn

from normxlogit.surgery.frozen import FrozenNetwork


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        return x + torch.tanh(self.linear(x))


@pytest.mark.parametrize(("frozen", "sparing", "runs"), [(True, True, 2), (True, False, 1), (False, True, 1)])
def test_a_layer_runs_again_where_a_frozen_pass_is_to_keep_little(frozen, sparing, runs):
    model = nn.Sequential(Layer(), Layer(), nn.Linear(4, 1)).eval()
    plain = FrozenNetwork(model)
    x = torch.randn(3, 4, requires_grad=True)

    def slope(network):
        if not frozen:
            return torch.autograd.grad(network.model(x).sum(), x)[0]
        with network.frozen():
            answer = network.model(x)
        return torch.autograd.grad(answer.sum(), x)[0]

    wanted = slope(plain)
    network = FrozenNetwork(model)
    network.cut_at(["0", "1"])
    before = [layer.runs for layer in network.model[:2]]
    if sparing:
        with network.sparing():
            found = slope(network)
    else:
        found = slope(network)
    torch.testing.assert_close(found, wanted)
    assert [layer.runs - count for layer, count in zip(network.model[:2], before, strict=True)] == [runs, runs]
