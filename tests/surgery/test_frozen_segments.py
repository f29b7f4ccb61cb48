"""Layers that keep only what they are given and run again in the backward pass."""

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


def test_a_layer_runs_again_where_a_frozen_pass_is_to_keep_little():
    model = nn.Sequential(Layer(), Layer(), nn.Linear(4, 1)).eval()
    network = FrozenNetwork(model)
    x = torch.randn(3, 4, requires_grad=True)
    slopes = []
    network.cut_at(["0", "1"])
    for sparing, runs in ((False, 1), (True, 2)):
        before = [layer.runs for layer in model[:2]]
        done = network.run({"input": x}, sparing=sparing)
        slopes.append(torch.autograd.grad(done.output.sum(), x)[0])
        assert [layer.runs - count for layer, count in zip(model[:2], before, strict=True)] == [runs, runs]
    torch.testing.assert_close(*slopes)


def test_a_layer_in_which_something_is_replaced_does_not_run_again():
    """Trap 1: it would not be replaced the second time, and the gradient would be silently wrong."""
    network = FrozenNetwork(nn.Sequential(Layer(), nn.Linear(4, 1)).eval())
    network.cut_at(["0"])
    x = torch.randn(3, 4, requires_grad=True)
    double = {"0.linear": lambda output, *_: output * 2}
    kept, spared = (network.run({"input": x}, replace=double, sparing=sparing).output for sparing in (False, True))
    slopes = [torch.autograd.grad(output.sum(), x)[0] for output in (kept, spared)]
    torch.testing.assert_close(slopes[1], slopes[0])
    assert network.run({"input": x}, replace={"0": lambda *_: None}, sparing=True).output.requires_grad
