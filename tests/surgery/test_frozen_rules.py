"""Each operation's linear map, and which factor of a product is held."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normxlogit.errors import UnsupportedModelError
from normxlogit.surgery.frozen import FrozenNetwork
from normxlogit.surgery.frozen_products import held_factor
from tests.surgery.slopes import Runs, X, proved, slope_of

A = torch.linspace(-1, 1, 16).reshape(4, 4)
B = torch.linspace(2, -1, 16).reshape(4, 4).sin()


def diagonal(ratio):
    return torch.diag(ratio.flatten())


@pytest.mark.parametrize(
    "function",
    [
        F.relu, F.gelu, F.silu, F.mish, F.elu, F.softplus, F.relu6, F.leaky_relu, F.hardswish, F.logsigmoid, F.softsign,
        torch.tanh, torch.sigmoid, torch.erf, torch.abs,
        lambda x: F.gelu(x, approximate="tanh"), lambda x: x * torch.sigmoid(1.702 * x), lambda x: x * torch.sigmoid(x),
        lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044 * torch.pow(x, 3)))), lambda x: F.relu(x).square(),
        lambda x: F.relu(x) ** 2, lambda x: x.clone().relu_(), lambda x: F.relu(x.clone(), inplace=True),
        lambda x: F.silu(x.clone(), True), lambda x: F.leaky_relu(x.clone(), 0.1, True),
        lambda x: x.clone().mul_(torch.sigmoid(x)), lambda x: 3 * torch.tanh(x / 3), lambda x: x * F.relu6(x + 3) / 6,
        lambda x: x * torch.tanh(F.softplus(x)), lambda x: (lambda r: r * r)(F.relu(x)),
        lambda x: (lambda r: r.mul_(r))(F.relu(x)), lambda x: F.relu(x).pow(2),
    ],
)  # fmt: skip
def test_an_activation_is_its_ratio(function):
    slope, _ = slope_of(function, X)
    torch.testing.assert_close(slope, diagonal(function(X.clone()) / X), atol=1e-5, rtol=1e-4)


def test_norms_hold_their_spread_and_let_the_mean_flow():
    weight, bias = torch.tensor([1.0, 2.0, -1.0, 0.5]), torch.ones(4)
    centred = torch.eye(4) - 0.25
    wanted = torch.block_diag(*(weight[:, None] * centred / (row.var(correction=0) + 1e-5).sqrt() for row in X))

    def written(x):
        middle = x.mean(-1, keepdim=True)
        return (x - middle) / ((x - middle).pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias

    by_hand = [
        lambda x: F.layer_norm(x, (4,), weight, bias),
        lambda x: torch.layer_norm(x, (4,), weight, bias),
        lambda x: F.group_norm(x, 1, weight, bias),
        written,
        lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + 1e-5) * weight,
    ]
    for function in by_hand:
        torch.testing.assert_close(slope_of(function, X)[0], wanted, atol=1e-5, rtol=1e-4)
    wanted = torch.block_diag(*(torch.diag(weight) / (row.pow(2).mean() + 1e-5).sqrt() for row in X))
    for function in (
        lambda x: F.rms_norm(x, (4,), weight, 1e-5),
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight,
    ):
        torch.testing.assert_close(slope_of(function, X)[0], wanted, atol=1e-5, rtol=1e-4)
    wanted = torch.block_diag(*(torch.eye(4) / row.norm() for row in X))
    torch.testing.assert_close(slope_of(lambda x: F.normalize(x, dim=-1), X)[0], wanted, atol=1e-5, rtol=1e-4)


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
        (lambda x: torch.sigmoid(x @ A).mul_(x @ B), torch.sigmoid(X @ A)),
        (lambda x: F.glu(torch.cat((x @ B, x @ A), -1)), torch.sigmoid(X @ A)),
        (lambda x: (x @ A) * (x @ B), X @ A),  # neither is activated: the left one
        (lambda x: (x @ B) * (x @ A).mean(-1, keepdim=True), (X @ A).mean(-1, keepdim=True).expand(2, 4)),  # stretched
        (lambda x: (x @ B) / (x @ A).abs(), 1 / (X @ A).abs()),
        (lambda x: torch.einsum("ij,ij->ij", F.silu(x @ A), x @ B), F.silu(X @ A)),
    ],
)
def test_the_signal_takes_all(function, held):
    slope, _ = slope_of(function, X)
    wanted = torch.block_diag(*(row[:, None] * B.T for row in held))
    torch.testing.assert_close(slope, wanted, atol=1e-5, rtol=1e-4)


def test_a_gate_comes_before_another_activation():
    slope, _ = slope_of(lambda x: torch.tanh(x) * torch.sigmoid(x), X)
    torch.testing.assert_close(slope, diagonal(torch.sigmoid(X) * torch.tanh(X) / X), atol=1e-5, rtol=1e-4)


def test_what_was_computed_from_the_other_factor_is_the_weight():
    """As the matrices of a state-space model, which are a linear map of its activated input."""

    def select(x):
        inside = F.silu(x)
        return inside * (inside @ A)

    slope, held = slope_of(select, X)
    torch.testing.assert_close(slope, diagonal((F.silu(X) @ A) * F.silu(X) / X), atol=1e-5, rtol=1e-4)
    assert held["mul", "a factor: computed from the other factor"] == 1


@pytest.mark.parametrize("written", ["fused", "eager", "linear"])
def test_attention_weights_are_held(written):
    x = torch.randn(1, 2, 5, 4)  # (B, heads, T, D)
    mask = torch.ones(5, 5).tril().bool()
    weights = (x @ A @ x.mT / 2).masked_fill(~mask, -torch.inf).softmax(-1)
    if written == "linear":
        weights = (x @ A) @ x.mT

    def attend(x):
        q, v = x @ A, x @ B
        if written == "fused":
            return F.scaled_dot_product_attention(q, x, v, is_causal=True)
        scores = q @ x.mT
        if written == "eager":
            scores = (scores / 2).masked_fill(~mask, -torch.inf).softmax(-1)
        return scores @ v

    slope, _ = slope_of(attend, x)
    basis = torch.eye(40).reshape(40, 1, 2, 5, 4)
    wanted = (weights @ (basis @ B)).flatten(1).T  # (40, 40)
    torch.testing.assert_close(slope, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "case", ["mask", "added", "shared heads", "shared heads, as many tokens", "shared heads, as many texts", "scale"]
)
def test_the_fused_backward_is_the_weights_transposed(case):
    tokens = 2 if case == "shared heads, as many tokens" else 5
    texts = 4 if case == "shared heads, as many texts" else 2
    x = torch.randn(texts, 4, tokens, 8)
    value = torch.randn(texts, 2 if "shared heads" in case else 4, tokens, 8)
    options = {}
    if case == "mask":
        options["attn_mask"] = torch.rand(2, 1, 5, 5) > 0.3
        options["attn_mask"][..., 0] = True
    elif case == "added":
        options["attn_mask"] = torch.randn(5, 5)
    elif case == "scale":
        options["scale"] = 0.7
    else:
        options["enable_gqa"] = True
    key = x[:, : value.shape[1]].contiguous()
    network = FrozenNetwork(Runs(lambda v: F.scaled_dot_product_attention(x, key, v, **options)))
    leaf = value.clone().requires_grad_()
    with network.frozen():
        answer = network.model(leaf)
    weights = torch.randn_like(answer)
    (found,) = torch.autograd.grad(answer, leaf, weights)
    (wanted,) = torch.autograd.grad(F.scaled_dot_product_attention(x, key, leaf, **options), leaf, weights)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


LINE, PICTURE, VOLUME = (2, 3, 8), (1, 2, 4, 5), (1, 2, 2, 4, 2)


@pytest.mark.parametrize(
    ("shape", "module"),
    [
        (LINE, nn.Conv1d(3, 6, 3, stride=2, padding=1, groups=3)), (LINE, nn.Conv1d(3, 2, 3, padding="same")),
        (LINE, nn.ConvTranspose1d(3, 2, 3, stride=2, output_padding=1)), (LINE, nn.BatchNorm1d(3)),
        (LINE, nn.MaxPool1d(2)), (LINE, nn.AvgPool1d(2)), (LINE, nn.AdaptiveMaxPool1d(3)), (LINE, nn.Linear(8, 2)),
        (LINE, nn.Upsample(scale_factor=2)), (LINE, nn.ReflectionPad1d(1)), (PICTURE, nn.Conv2d(2, 3, 3, padding=1)),
        (PICTURE, nn.ConvTranspose2d(2, 2, 2)), (PICTURE, nn.MaxPool2d(2)), (PICTURE, nn.AdaptiveAvgPool2d(2)),
        (VOLUME, nn.MaxPool3d(2)), (VOLUME, nn.AvgPool3d(2)),
    ],
)  # fmt: skip
def test_what_is_linear_is_as_it_was(shape, module):
    module.eval()
    x = torch.randn(shape)
    slope, _ = slope_of(lambda x: module(x), x)
    wanted = torch.autograd.functional.jacobian(lambda x: module(x), x).reshape(slope.shape)
    torch.testing.assert_close(slope, wanted.detach(), atol=1e-5, rtol=1e-4)


def test_what_was_computed_is_found_behind_another_shape():
    """The weight is the factor that was computed from the other one, whatever views lie between."""
    x = X.clone().requires_grad_()
    made = x * 2
    for early in (x, made, made.view(4, 2), made.reshape(8)[None], made.unsqueeze(0).transpose(0, 1)):
        late = (made @ A).sum(-1)
        assert held_factor(early, late, None) == (1, "computed from the other factor")
        assert held_factor(late, early, None) == (0, "computed from the other factor")


def test_a_vector_is_read_with_a_matrix():
    """Neither factor is activated: the one that is a single vector is the weight, a row or a column."""
    x = X.clone().requires_grad_()
    matrix, column, row = x @ A, (x @ B).mT[:, :1], (x @ B)[:1]  # (2, 4), (4, 1), (1, 4)
    assert held_factor(matrix, column, True) == (1, "stretched")
    assert held_factor(row, (x @ B).mT, True) == (0, "stretched")
    assert held_factor(matrix, (x @ B).mT, True) == (0, "left")
    assert held_factor(matrix[:1], column, True) == (0, "left"), "both are"


def test_attention_of_torch_itself():
    module = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    network = FrozenNetwork(module)
    x = X[None].clone().requires_grad_()
    own = module(x, x, x)[0].detach()
    proved(network, lambda: (network.model(x, x, x)[0], x), own, 1e-5)
    proved(network, lambda: (network.model(x, x, x, need_weights=False)[0], x), own, 1e-5)


@pytest.mark.parametrize(
    "below",
    [
        F.relu, torch.tanh, F.normalize, lambda x: F.layer_norm(x, (8,)), lambda x: F.group_norm(x, 3),
        lambda x: F.pad(x, (1, 1), mode="reflect"), lambda x: F.max_pool1d(x, 2), nn.Conv1d(3, 3, 3),
        nn.BatchNorm1d(3).eval(), lambda x: F.scaled_dot_product_attention(x, x, x), lambda x: F.log_softmax(x, -1),
        lambda x: F.rms_norm(x, (8,)), lambda x: x * torch.sigmoid(x),
    ],
)  # fmt: skip
def test_no_map_hides_what_is_not_linear_above_it(below):
    x = torch.randn(2, 3, 8)
    with pytest.raises(UnsupportedModelError, match="sin"):
        slope_of(lambda x: torch.sin(below(x)), x)


def test_a_linear_system_holds_its_matrix():
    """As the delta rule in chunks, which solves one for the values."""
    matrix = (A @ X.mT @ X).tril() + 3 * torch.eye(4)

    def solve(x):
        return torch.linalg.solve_triangular((A @ x.mT @ x).tril() + 3 * torch.eye(4), (x @ B).mT, upper=False)

    slope, held = slope_of(solve, X)
    basis = torch.eye(8).reshape(8, 2, 4)
    wanted = torch.linalg.solve_triangular(matrix, (basis @ B).mT, upper=False).flatten(1).T
    torch.testing.assert_close(slope, wanted, atol=1e-5, rtol=1e-4)
    assert held["linalg_solve_triangular", "the matrix"] == 1


def test_activated_values_are_mixed_by_weights():
    """As in linear attention, whose values are activated and whose scores are not."""
    scores = (X @ A) @ X.mT

    def attend(x):
        return ((x @ A) @ x.mT) @ F.silu(x)

    slope, _ = slope_of(attend, X)
    basis = torch.eye(8).reshape(8, 2, 4)
    wanted = (scores @ (basis * F.silu(X) / X)).flatten(1).T
    torch.testing.assert_close(slope, wanted, atol=1e-5, rtol=1e-4)
