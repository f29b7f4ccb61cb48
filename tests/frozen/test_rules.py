"""Each operation's linear map, and which factor of a product is held."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers.models.bloom.modeling_bloom import GeLUFunction

from normxlogit.errors import UnsupportedModelError
from normxlogit.frozen.backward import frozen_backward
from tests.frozen.slopes import X, slope_of

A = torch.linspace(-1, 1, 16).reshape(4, 4)
B = torch.linspace(2, -1, 16).reshape(4, 4).sin()


def diagonal(ratio):
    return torch.diag(ratio.flatten())


@pytest.mark.parametrize(
    "function",
    [
        F.relu, F.gelu, F.mish, F.relu6, F.softsign, torch.tanh,
        lambda x: F.gelu(x, approximate="tanh"), lambda x: x * torch.sigmoid(1.702 * x), lambda x: x * torch.sigmoid(x),
        lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044 * torch.pow(x, 3)))), lambda x: F.relu(x).square(),
        lambda x: F.relu(x) ** 2, lambda x: x.clone().relu_(), lambda x: F.relu(x.clone(), inplace=True),
        lambda x: F.silu(x.clone(), True), lambda x: F.leaky_relu(x.clone(), 0.1, True),
        lambda x: 3 * torch.tanh(x / 3), lambda x: x * F.relu6(x + 3) / 6,
        lambda x: x * torch.tanh(F.softplus(x)), lambda x: (lambda r: r * r)(F.relu(x)),
        lambda x: F.relu(x).pow(2), GeLUFunction.apply,
        lambda x: torch.tanh(x) * torch.sigmoid(x),  # a gate comes before another activation
        lambda x: (lambda inside: inside * (inside @ A))(F.silu(x)),  # computed from the other factor: the weight
    ],
)  # fmt: skip
def test_an_activation_is_its_ratio(function):
    slope = slope_of(function, X)
    torch.testing.assert_close(slope, diagonal(function(X.clone()) / X), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("function", "held"),
    [
        (lambda x: F.silu(x @ A) * (x @ B), F.silu(X @ A)),
        (lambda x: (x @ B) * F.silu(x @ A), F.silu(X @ A)),
        (lambda x: (x @ B) * (0.5 * F.gelu(x @ A) + 1).unsqueeze(0)[0], 0.5 * F.gelu(X @ A) + 1),
        (lambda x: torch.mul(x @ B, torch.sigmoid(x @ A)), torch.sigmoid(X @ A)),
        (lambda x: (x @ B) * F.softmax(x @ A, -1), F.softmax(X @ A, -1)),
        (lambda x: (x @ B) * torch.exp(x @ A), torch.exp(X @ A)),
        (lambda x: (x @ B) * (x @ A).exp_(), torch.exp(X @ A)),
        (lambda x: (x @ B) * (x @ A).add_(5).reciprocal_(), 1 / (X @ A + 5)),
        (lambda x: (x @ B) * 2 ** (x @ A), 2 ** (X @ A)),
        (lambda x: (x @ B) * (x @ A).abs() ** -0.5, (X @ A).abs() ** -0.5),
        (lambda x: (x @ B).mul_(torch.sigmoid(x @ A)), torch.sigmoid(X @ A)),
        (lambda x: F.glu(torch.cat((x @ B, x @ A), -1)), torch.sigmoid(X @ A)),
        (lambda x: (x @ A) * (x @ B), X @ A),  # neither is activated: the left one
        (lambda x: (x @ B) * (x @ A).mean(-1, keepdim=True), (X @ A).mean(-1, keepdim=True).expand(2, 4)),  # stretched
        (lambda x: (x @ B) / (x @ A).abs(), 1 / (X @ A).abs()),
        (lambda x: torch.einsum("ij,ij->ij", F.silu(x @ A), x @ B), F.silu(X @ A)),
    ],
)
def test_the_signal_takes_all(function, held):
    slope = slope_of(function, X)
    wanted = torch.block_diag(*(row[:, None] * B.T for row in held))
    torch.testing.assert_close(slope, wanted, atol=1e-5, rtol=1e-4)


def test_a_slice_of_all_is_the_tensor_itself():
    """Up to torch 2.6 `x[:, None]` has such a node, as in Mamba."""
    products = [
        lambda x, view=view: (lambda y: (y @ B) * view(y))(F.silu(x @ A))
        for view in (torch.clone, lambda y: torch.ops.aten.slice(y, 1, 0, 4))
    ]
    alike, sliced = (slope_of(product, X) for product in products)
    torch.testing.assert_close(sliced, alike)


SEEN = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 0, 0, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()


@pytest.mark.parametrize(("texts", "value_heads", "tokens", "options"), [
    (2, 4, 5, {"attn_mask": SEEN}), (2, 4, 5, {"attn_mask": SEEN * 0.7}), (2, 4, 5, {"scale": 0.7}),
    (2, 2, 5, {"enable_gqa": True}), (2, 2, 2, {"enable_gqa": True}), (4, 2, 5, {"enable_gqa": True}),
])  # fmt: skip
def test_the_fused_backward_is_the_weights_transposed(texts, value_heads, tokens, options):
    x = torch.randn(texts, 4, tokens, 8)
    value = torch.randn(texts, value_heads, tokens, 8, requires_grad=True)
    key, query = x[:, :value_heads].contiguous(), x.clone().requires_grad_()
    answer = F.scaled_dot_product_attention(query, key, value, **options)
    weights = torch.randn_like(answer)
    with frozen_backward(answer, [value, query]):
        found, of_query = torch.autograd.grad(answer, (value, query), weights, allow_unused=True)
    assert of_query is None or not of_query.any()
    (wanted,) = torch.autograd.grad(F.scaled_dot_product_attention(x, key, value, **options), value, weights)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "below",
    [
        F.relu, torch.tanh, F.normalize, lambda x: F.layer_norm(x, (8,)), nn.Conv1d(3, 3, 3), nn.BatchNorm1d(3).eval(),
        lambda x: F.scaled_dot_product_attention(x, x, x), lambda x: F.log_softmax(x, -1),
    ],
)  # fmt: skip
def test_no_map_hides_what_is_not_linear_above_it(below):
    x = torch.randn(2, 3, 8)
    with pytest.raises(UnsupportedModelError, match="Sin, an operation without a rule"):
        slope_of(lambda x: torch.sin(below(x)), x)
