"""Models with weights of few bits, as bitsandbytes, HQQ, quanto and torchao make them, without these packages."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normxlogit import Explainer
from tests import tiny

TEXTS = ["the movie is not good", "a cat", "great film with charm and wit !"]


class MatMul4Bit(torch.autograd.Function):
    """The product of bitsandbytes and HQQ: the bias is added inside, and the weights have no gradient."""

    @staticmethod
    def forward(ctx, x, module, bias):
        ctx.module, ctx.has_bias = module, bias is not None
        return F.linear(x, module.values(), bias)

    @staticmethod
    def backward(ctx, gradient):
        bias = gradient.sum(tuple(range(gradient.ndim - 1))) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return gradient @ ctx.module.values(), None, bias


def matmul_4bit(x, module):
    return MatMul4Bit.apply(x, module, module.bias)


class Linear4bit(nn.Module):
    """A linear map whose weights are 15 levels of the largest of their row."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach()
        self.scale = weight.abs().amax(1, keepdim=True) / 7
        self.weight = nn.Parameter((weight / self.scale).round().to(torch.int8), requires_grad=False)
        self.bias, self.in_features = linear.bias, linear.in_features

    def values(self):
        return self.weight * self.scale

    def forward(self, x):
        return matmul_4bit(x, self)

    def in_full(self):
        linear = nn.Linear(*self.weight.shape[::-1], bias=self.bias is not None)
        linear.weight, linear.bias = nn.Parameter(self.values()), self.bias
        return linear


class Linear8bitLt(nn.Module):
    """LLM.int8: columns in which any token has a value above the threshold are not rounded."""

    def __init__(self, linear, threshold=1.0):
        super().__init__()
        self.weight, self.bias, self.in_features = linear.weight, linear.bias, linear.in_features
        self.state = SimpleNamespace(threshold=threshold)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        exact = (rows.abs() >= self.state.threshold).any(0)
        step = rows.abs().amax(1, keepdim=True).clamp_min(1e-9) / 7
        rounded = torch.where(exact, rows, (rows / step).round() * step)
        return F.linear(rounded.reshape(x.shape), self.weight, self.bias)


Linear8bitLt.__module__ = "bitsandbytes.nn.modules"


class FewBits(torch.Tensor):
    """A weight as torchao makes them: it multiplies, and does not become another dtype."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [value.as_subclass(torch.Tensor) if isinstance(value, cls) else value for value in args]
        if func is F.linear:
            return func(*plain, **(kwargs or {}))
        if func in (torch.Tensor.float, torch.Tensor.to):
            raise NotImplementedError("attempting to run unimplemented operator: aten.to")
        return super().__torch_function__(func, types, args, kwargs)


def with_maps(model, change):
    """Change the linear maps of a model but its last one, as loading in few bits does."""
    linear = [(path, module) for path, module in model.named_modules() if type(module) in (nn.Linear, Linear4bit)]
    for path, module in linear:
        if path.split(".")[-1] not in ("classifier", "lm_head"):
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, change(module))
    return model.eval()


def alone(model, tokenizer, text):
    logits = tiny.logits_of(model, tokenizer(text)["input_ids"])
    return logits if logits.ndim == 1 else logits[-1]


@pytest.mark.parametrize(("family", "kind", "options"), [
    ("bert", "SequenceClassification", {}), ("llama", "CausalLM", {"attention_bias": True}),
    ("distilbert", "SequenceClassification", {}),
])  # fmt: skip
@pytest.mark.parametrize("bias_is", ["trained", "frozen", "a plain tensor"])
def test_the_default_explains_weights_of_few_bits_as_the_same_ones_in_full(family, kind, options, bias_is):
    tokenizer = tiny.tokenizer_for(family)
    model = with_maps(tiny.model(family, kind, **options), Linear4bit)
    for module in model.modules():
        if isinstance(module, Linear4bit) and module.bias is not None:
            if bias_is == "frozen":
                module.bias.requires_grad_(False)
            elif bias_is == "a plain tensor":
                bias = module._parameters.pop("bias")
                module.bias = bias.detach()
    result = Explainer(model, tokenizer)(TEXTS[0])
    assert result.method == "frozen-gradient"
    assert result.prediction.value == pytest.approx(float(alone(model, tokenizer, TEXTS[0]).max()), abs=1e-5)
    total = result.scores.sum() + result.bias + (result.sink or 0)
    if kind == "SequenceClassification":
        assert total == pytest.approx(result.prediction.value, abs=1e-4)
    if bias_is != "a plain tensor":
        full = Explainer(with_maps(model, lambda module: getattr(module, "in_full", lambda: module)()), tokenizer)
        np.testing.assert_allclose(result.scores, full(TEXTS[0]).scores, atol=1e-5)


@pytest.mark.parametrize("method", ["normxlogit", "occlusion", None])
def test_texts_do_not_change_each_others_answers_where_outliers_are_those_of_a_batch(method):
    model, tokenizer = with_maps(tiny.model("bert"), Linear8bitLt), tiny.tokenizer_for("bert")
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    own = [alone(model, tokenizer, text) for text in TEXTS]
    with torch.no_grad():
        assert not torch.allclose(model(**batch).logits, torch.stack(own), atol=1e-3), "these texts do mix"
    results = Explainer(model, tokenizer)(TEXTS, method=method)
    for result, logits in zip(results, own, strict=True):
        assert result.prediction.value == pytest.approx(float(logits.max()), abs=1e-5)
