"""Which modules are one step, held at f(x) / x, and which are run as they are written."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normxlogit.surgery.frozen import FrozenNetwork
from normxlogit.surgery.frozen_modules import is_activation
from tests.surgery.slopes import X


class Bent(nn.Module):
    """Straight on either side of 1, where it bends: a gradient is not f(x) / x."""

    def forward(self, x, more=0.0):
        return torch.where(x > 1, x - 0.5, 0.5 * x) + more


class Saturated(nn.Module):
    def forward(self, x):
        return 1 - 2 / (torch.exp(2 * x) + 1)


class Mean(nn.Module):
    def forward(self, x):
        return x - x.mean(-1, keepdim=True)


class Square(nn.Module):
    def forward(self, x):
        return x * x


class Wave(nn.Module):
    def forward(self, x):
        return x + torch.sin(x)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return F.relu(x * self.scale)


@pytest.mark.parametrize("module", [Bent(), Saturated(), nn.GELU(), nn.PReLU(), nn.Tanh(), nn.Softplus()])
def test_activations(module):
    assert is_activation(module)


@pytest.mark.parametrize(
    "module", [Mean(), Square(), Wave(), Scaled(), nn.Identity(), nn.Dropout(), nn.Sequential(Bent()), nn.Linear(4, 4)]
)
def test_other_modules(module):
    assert not is_activation(module.eval())


@pytest.mark.parametrize(("more", "one_step"), [((), True), ((2.0,), False)])
def test_an_activation_in_several_operations_is_one_step(more, one_step):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = Bent()

        def forward(self, x):
            return self.act(x, *more)

    network, x = FrozenNetwork(Net()), X.clone().requires_grad_()
    with network.frozen() as report:
        answer = network.model(x)
    torch.testing.assert_close(answer.detach(), Bent()(X, *more))
    (slope,) = torch.autograd.grad(answer.sum(), x)
    torch.testing.assert_close(slope, Bent()(X) / X if one_step else torch.where(X > 1, 1.0, 0.5))
    assert any(what == "f(x) / x" for _, what in report.held) == one_step


def test_a_keyword_is_handed_on():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = Bent()

        def forward(self, x):
            return self.act(x, more=3.0)

    network, x = FrozenNetwork(Net()), X.clone().requires_grad_()
    with network.frozen():
        answer = network.model(x)
    torch.testing.assert_close(answer.detach(), Bent()(X) + 3)
