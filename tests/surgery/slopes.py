"""The linear map of a function in the frozen network, found column by column."""

import torch
from torch import nn

from normxlogit.surgery.frozen import FrozenNetwork


class Runs(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.child = nn.Identity()  # a module without any is an activation where it acts like one

    def forward(self, x):
        return self.function(x)


def proved(network, run, expected, tolerance):
    """Prove a network on one frozen run, which returns an answer and the leaf that it flows from."""

    def attempt(report):
        with network.frozen(report):
            answer, leaf = run()
        return answer, [leaf]

    return network.prove(attempt, expected, tolerance)


def slope_of(function, x):
    """Return the frozen network's Jacobian at x, and what was held; check the value and that it is affine."""
    network = FrozenNetwork(Runs(function))
    leaf = x.clone().requires_grad_()
    plain = function(x.clone())
    report = proved(network, lambda: (network.model(leaf.clone()), leaf), plain, 1e-5)
    with network.frozen():
        value = network.model(leaf.clone())
    torch.testing.assert_close(value.detach(), plain, atol=1e-5, rtol=1e-5)
    slopes = [torch.autograd.grad(entry, leaf, retain_graph=True)[0].flatten() for entry in value.flatten()]
    return torch.stack(slopes), report.held


X = torch.tensor([[0.5, -1.0, 2.0, 1.5], [1.0, 0.3, -0.7, -2.0]])  # (2, 4)
