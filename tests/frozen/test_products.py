"""What is held of each operation whose arguments both depend on the input: the slope is that with it as a constant."""

import pytest
import torch
from torch.nn import functional as F

from tests.frozen.slopes import X, slope_of

A = torch.linspace(-1, 1, 16).reshape(4, 4)
B = torch.linspace(2, -1, 16).reshape(4, 4).sin()
SQUARE = 3 * torch.eye(4)


def flow(x):
    return x @ B


def held(x):
    return 2 + torch.sigmoid(x @ A)


def kernel(x):
    return SQUARE + torch.tanh(x.mT @ x / 9)  # (4, 4)


def mixing(x):
    """Without an activation: the left factor of a product of matrices is the weight."""
    return SQUARE + A @ x.mT @ B[:2]  # (4, 4)


def vector(x):
    return torch.sigmoid(x.sum(0))  # (4,)


HELD = {
    "matmul": lambda x, y: mixing(y) @ flow(x).mT,
    "mm": lambda x, y: torch.mm(mixing(y), mat2=flow(x).mT),
    "bmm": lambda x, y: torch.bmm(input=mixing(y)[None], mat2=flow(x).mT[None]),
    "mv": lambda x, y: torch.mv(flow(x), vector(y)),
    "linear": lambda x, y: F.linear(flow(x), kernel(y)),
    "linear, by name": lambda x, y: F.linear(input=flow(x), weight=kernel(y), bias=torch.ones(4)),
    "addmm": lambda x, y: torch.addmm(flow(x).mT, mixing(y), flow(x).mT, beta=0.5, alpha=2),
    "baddbmm": lambda x, y: torch.baddbmm(flow(x).mT[None], mixing(y)[None], flow(x).mT[None]),
    "addcmul": lambda x, y: torch.addcmul(flow(x), flow(x) * 3, held(y), value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(flow(x), flow(x) * 3, held(y), value=0.5),
    "lerp": lambda x, y: torch.lerp(flow(x), flow(x).flip(0), held(y)),
    "lerp, by name": lambda x, y: torch.lerp(input=flow(x), end=flow(x).flip(0), weight=held(y)),
    "mul, by name": lambda x, y: torch.mul(input=flow(x), other=held(y)),
    "multiply": lambda x, y: torch.multiply(held(y), flow(x)),
    "div": lambda x, y: torch.div(flow(x), other=held(y)),
    "div in place": lambda x, y: flow(x).div_(held(y)),
    "mul in place": lambda x, y: flow(x).mul_(held(y)),
    "one over": lambda x, y: flow(x) * (1 / (2 + held(y))),
    "a constant to the power": lambda x, y: flow(x) * 2.0 ** (-held(y)),
    "float_power": lambda x, y: flow(x).double() * torch.float_power(held(y), -0.5),
    "root": lambda x, y: flow(x) * held(y).pow(0.5),
    "sqrt": lambda x, y: flow(x) * held(y).sqrt(),
    "cumprod": lambda x, y: flow(x) * held(y).cumprod(-1),
    "logsumexp": lambda x, y: flow(x) * held(y).logsumexp(-1, keepdim=True),
    "solve": lambda x, y: torch.linalg.solve(kernel(y), flow(x).mT),
    "a delta rule in chunks": lambda x, y: torch.linalg.solve_triangular(
        (A @ y.mT @ y).tril() + SQUARE, flow(x).mT, upper=False
    ),
    "inverse": lambda x, y: flow(x) @ torch.inverse(kernel(y)),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", mixing(y), flow(x)),
    "einsum of a list": lambda x, y: torch.einsum("ij,kj->ik", [mixing(y), flow(x)]),
    "einsum of three": lambda x, y: torch.einsum("ij,ij,jk->ik", flow(x), torch.sigmoid(y @ A), SQUARE),
    "a convolution": lambda x, y: F.conv1d(flow(x)[:, None], kernel(y)[:1, None, :2]),
    "softmax, then a product": lambda x, y: F.softmax(y @ A @ y.mT, -1) @ flow(x),
}


@pytest.mark.parametrize("name", HELD)
def test_what_is_held_is_a_constant(name):
    function = HELD[name]
    slope = slope_of(lambda x: function(x, x).float(), X)
    wanted = torch.autograd.functional.jacobian(lambda x: function(x, X).float(), X).reshape(slope.shape)
    torch.testing.assert_close(slope, wanted, atol=1e-5, rtol=1e-4)
