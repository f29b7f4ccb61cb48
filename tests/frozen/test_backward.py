"""The frozen backward pass of heads with all kinds of operations, and what it refuses."""

import pytest
import torch
from torch import nn
from transformers.models.bloom.modeling_bloom import GeLUFunction

from normxlogit import ALL, Explainer, UnsupportedModelError
from normxlogit.frozen.backward import frozen_backward
from normxlogit.frozen.recording import Recording
from tests import tiny

TEXT = "the movie is never bad"


@pytest.mark.parametrize(
    ("kind", "value", "slope"),
    [(nn.GELU, 0.0, 0.5), (nn.SiLU, 0.0, 0.5), (nn.Tanh, 0.0, 1.0), (nn.ReLU, 0.0, 0.0), (nn.Sigmoid, 0.5, 0.0)],
)
def test_at_zero_an_activation_keeps_its_value_and_has_the_slope_that_it_has_beside_zero(kind, value, slope):
    """Rounding decides whether a state is zero, which must not change a contribution; a sigmoid passes nothing."""
    beside = 1e-6
    x = torch.tensor([0.0, beside], requires_grad=True)
    with Recording():
        answer = kind()(x)
    with frozen_backward(answer, [x]):
        (found,) = torch.autograd.grad(answer.sum(), x)
    assert answer[0].item() == value
    assert found[0].item() == slope


class Head(nn.Module):
    """A task head with something in it that cannot be frozen."""

    def __init__(self, classifier, function):
        super().__init__()
        self.classifier, self.function = classifier, function

    def forward(self, hidden):
        return self.classifier(self.function(hidden))


class Fused(torch.autograd.Function):
    """Works its slope out where autograd does not see it, as kernels of other packages do."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return nn.functional.silu(x)

    @staticmethod
    def backward(ctx, gradient):
        x, gradient = ctx.saved_tensors[0].detach(), gradient.detach()
        gate = torch.sigmoid(x)
        return gradient * (gate + x * gate * (1 - gate))


def explain(head=None, **options):
    model = tiny.model("bert")
    if head is not None:
        model.classifier = Head(model.classifier, head)
    return Explainer(model, tiny.tokenizer_for("bert"))(TEXT, method="frozen-gradient", target=ALL, **options), model


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (torch.sin, "Sin in classifier"),
        (lambda x: x + torch.cos(x), "Cos in classifier"),
        (lambda x: Fused.apply(x), "FusedBackward, an operation without a rule"),
        (torch.round, "nothing flows"),
        (lambda x: with_saved_overwritten(x), "writes on what its backward pass needs"),
    ],
)
def test_what_has_no_rule_is_named_with_its_place(function, named):
    with pytest.raises(UnsupportedModelError, match=named):
        explain(function)


def overwritten(x):
    constant = torch.ones_like(x)
    constant[:, :5] = x[:, :5]
    constant[:, 7] += x[:, 2]
    return constant


def with_saved_overwritten(x):
    gate = torch.sigmoid(x)
    y = x * gate
    gate.mul_(2.0)
    return y + gate.detach()


torch.manual_seed(0)
RECURRENT = nn.GRU(32, 32, batch_first=True).requires_grad_(False).eval()

CONSTANTS = {
    "a cube": lambda x: x.pow(3),
    "chosen": lambda x: torch.where(x > 0, x, 1.0),
    "normaliser": lambda x: x.log_softmax(-1),
    "written on": overwritten,
    "recurrent": lambda x: RECURRENT(x[:, None])[0][:, 0],
}


@pytest.mark.parametrize("function", CONSTANTS.values(), ids=CONSTANTS)
def test_a_head_of_powers_and_constants_adds_up(function):
    result, model = explain(function)
    logits = tiny.logits_of(model, result.token_ids)
    torch.testing.assert_close(torch.tensor(result.scores.sum(-1) + result.bias), logits, rtol=1e-4, atol=1e-5)


def test_hooks_are_removed_also_after_an_error():
    x = torch.randn(3, requires_grad=True)
    with Recording():
        y = torch.sigmoid(x) * torch.sin(x)
    (plain,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    with pytest.raises(UnsupportedModelError), frozen_backward(y, [x]):
        torch.autograd.grad(torch.sin(x).sum() + y.sum(), x, retain_graph=True)
    (again,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(again, plain, rtol=0, atol=0)


@pytest.mark.filterwarnings(
    "ignore:`gradient_checkpointing_enable`:FutureWarning"
)  # its other name is of newer versions
def test_a_model_that_is_set_up_for_training_with_checkpointing_is_explained_as_before():
    """Its hook makes the embeddings require a gradient."""
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    before = Explainer(model, tokenizer)(TEXT, method="frozen-gradient")
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    for read_at in ("first-half", 0):
        method = f"frozen-gradient:read_at={read_at}"
        result = Explainer(model, tokenizer)(TEXT, method=method)
        assert result.scores.sum() + result.bias == pytest.approx(before.scores.sum() + before.bias, abs=1e-5)
    again = Explainer(model, tokenizer)(TEXT, method="frozen-gradient")
    assert again.scores.tolist() == pytest.approx(before.scores.tolist(), abs=1e-6)


LIMITS = {
    torch.asinh: 1.0,
    torch.atan: 1.0,
    nn.functional.celu: 1.0,
    nn.functional.elu: 1.0,
    torch.erf: 2 / torch.pi**0.5,
    torch.expm1: 1.0,
    nn.functional.gelu: 0.5,
    GeLUFunction.apply: 0.5,
    torch.log1p: 1.0,
    nn.functional.mish: 0.6,
    nn.functional.silu: 0.5,
    torch.tanh: 1.0,
}


@pytest.mark.parametrize("function", LIMITS, ids=lambda function: getattr(function, "__qualname__", str(function)))
def test_at_zero_a_smooth_activation_has_the_slope_of_its_ratio_nearby(function):
    x = torch.tensor([0.0, 1e-3, -1e-3], requires_grad=True)
    with Recording():
        answer = function(x)
    with frozen_backward(answer, [x]):
        (slopes,) = torch.autograd.grad(answer.sum(), x)
    torch.testing.assert_close(slopes[1:], (answer / x).detach()[1:])
    assert slopes[0].item() == pytest.approx(slopes[1:].mean().item(), abs=2e-3)
    assert slopes[0].item() == pytest.approx(LIMITS[function])


@pytest.mark.parametrize(
    "function",
    [nn.functional.hardswish, nn.functional.hardtanh, nn.functional.softshrink, lambda x: x.clamp(-1, 1)],
    ids=["hardswish", "hardtanh", "softshrink", "clamp"],
)
def test_at_zero_other_activations_pass_nothing_on(function):
    x = torch.tensor([0.0, 0.9], requires_grad=True)
    answer = function(x)
    with frozen_backward(answer, [x]):
        (slopes,) = torch.autograd.grad(answer.sum(), x)
    assert slopes[0].item() == 0.0
    assert slopes[1].item() == pytest.approx(answer[1].item() / 0.9)
