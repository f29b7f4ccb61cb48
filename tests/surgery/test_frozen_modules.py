"""Which modules are one step, held at f(x) / x, and which are run as they are written."""

import pytest
import torch
from torch import nn
from torch.autograd import Function
from torch.nn import functional as F

from normxlogit.errors import UnsupportedModelError
from normxlogit.surgery.frozen import FrozenNetwork
from normxlogit.surgery.frozen_modules import is_activation
from tests.surgery.slopes import X, proved


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


@pytest.mark.parametrize(
    ("more", "by_name", "one_step"), [((), {}, True), ((2.0,), {}, False), ((), {"more": 3.0}, False)]
)
def test_an_activation_in_several_operations_is_one_step(more, by_name, one_step):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = Bent()

        def forward(self, x):
            return self.act(x, *more, **by_name)

    network, x = FrozenNetwork(Net()), X.clone().requires_grad_()
    with network.frozen() as report:
        answer = network.model(x)
    torch.testing.assert_close(answer.detach(), Bent()(X, *more, **by_name))
    (slope,) = torch.autograd.grad(answer.sum(), x)
    torch.testing.assert_close(slope, Bent()(X) / X if one_step else torch.where(X > 1, 1.0, 0.5))
    assert any(what == "f(x) / x" for _, what in report.held) == one_step


class Fused(Function):
    """A gate whose backward is its own."""

    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(x, other)
        ctx.mark_dirty()
        assert ctx.needs_input_grad == (x.requires_grad, other.requires_grad)
        return x * torch.sigmoid(other)

    @staticmethod
    def backward(ctx, grad):
        x, other = ctx.saved_tensors
        gate = torch.sigmoid(other)
        return grad * gate, grad * x * gate * (1 - gate)


class Split(Function):
    """The same, with its context set up beside it, and twice."""

    @staticmethod
    def forward(x, other):
        return x * torch.sigmoid(other), x.detach().sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    backward = Fused.backward


class Kernel(Function):
    """As a kernel of another package: nothing that it does can be seen."""

    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(x, other)
        return (x * torch.sigmoid(other)).detach()

    backward = Fused.backward


class Applies(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)


class AppliesFused(Applies):
    def forward(self, x):
        return Fused.apply(x, self.linear(x))


class AppliesSplit(Applies):
    def forward(self, x, *, scale=2.0):
        return Split.apply(x, self.linear(x))[0] * scale


class AppliesKernel(Applies):
    def forward(self, x):
        return Kernel.apply(x, self.linear(x))


@pytest.mark.parametrize(("kind", "scale"), [(AppliesFused, 1), (AppliesSplit, 2)])
def test_a_models_own_autograd_function_is_seen_through_where_the_proof_needs_it(kind, scale):
    torch.manual_seed(0)
    module = kind().requires_grad_(False)
    network, x = FrozenNetwork(module), X.clone().requires_grad_()
    assert not network.opened
    proved(network, lambda: (network.model(x), x), module(X), 1e-5)
    assert network.opened
    with network.frozen():
        answer = network.model(x)
    (slope,) = torch.autograd.grad(answer.sum(), x)
    torch.testing.assert_close(slope, scale * torch.sigmoid(module.linear(X)))


def test_a_kernel_that_cannot_be_seen_through_is_refused():
    network, x = FrozenNetwork(AppliesKernel()), X.clone().requires_grad_()
    for _ in range(2):
        with pytest.raises(UnsupportedModelError, match=r"Kernel.* brings a backward pass of its own"):
            proved(network, lambda: (network.model(x), x), network.model(X).detach(), 1e-5)
        assert not network.opened
