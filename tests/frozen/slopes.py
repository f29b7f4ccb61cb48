"""The linear map of a function in the frozen network, found column by column."""

import torch
from torch import nn

from normxlogit.frozen.backward import frozen_backward
from normxlogit.frozen.conservation import Conservation
from normxlogit.frozen.readouts import Readout
from normxlogit.frozen.recording import Recording, recorded

X = torch.tensor([[0.5, -1.0, 2.0, 1.5], [1.0, 0.3, -0.7, -2.0]])  # (2, 4)


def slope_of(function, x):
    """Return the frozen network's Jacobian at x; check that the contributions of x and of constants are the value."""
    leaf = x.clone().requires_grad_()
    with Recording():
        value = function(leaf.clone())
    torch.testing.assert_close(value.detach(), function(x.clone()), atol=0, rtol=0)
    assert_conserved(function, x)
    with frozen_backward(value, [leaf]):
        slopes = [torch.autograd.grad(entry, leaf, retain_graph=True)[0].flatten() for entry in value.flatten()]
    return torch.stack(slopes)


def assert_conserved(function, x):
    proof, readout = Conservation(), Readout()
    with recorded(nn.Module(), proof):
        value = function(readout.read(x, enters=True))
    weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(1)).to(value)
    leaves = [value, *readout.edges, *proof.leaves]
    with frozen_backward(value, readout.edges, proof.hold):
        gradients = torch.autograd.grad(value, leaves, weights, allow_unused=True)
    proof.check(value, readout.vectors, gradients)
