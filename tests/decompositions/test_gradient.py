"""Gradient methods against autograd written out by hand in plain torch."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, UnsupportedModelError
from normxlogit.decompositions import IntegratedGradients
from tests import tiny

from .test_perturbation import bert, close

NORMS = {"l1": lambda g: g.abs().sum(-1), "l2": lambda g: g.pow(2).sum(-1).sqrt(), "sum": lambda g: g.sum(-1)}


def by_hand(model, inputs, read, start=None):
    """Word embeddings and the gradient of read(logits) by them, for one text."""
    inputs = dict(inputs)
    ids = inputs.pop("input_ids")
    words = (model.get_input_embeddings()(ids) if start is None else start).detach().requires_grad_()
    logits = model(inputs_embeds=words, **inputs).logits
    (gradient,) = torch.autograd.grad(read(logits), words)
    return words.detach()[0], gradient[0]


def integrated(model, inputs, read, steps, baseline, start=None):
    """Gauss-Legendre quadrature as a plain loop."""
    inputs = dict(inputs)
    ids = inputs.pop("input_ids")
    words = (model.get_input_embeddings()(ids) if start is None else start).detach()
    points, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(words)
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        here = (baseline + float(point) * (words - baseline)).requires_grad_()
        logits = model(inputs_embeds=here, **inputs).logits
        total += torch.autograd.grad(read(logits), here)[0] * float(weight)
    return (total * (words - baseline))[0]


@pytest.mark.parametrize("aggregate", NORMS)
def test_gradient_norm_and_gradient_x_input_equal_autograd(aggregate):
    e, inputs = bert(tiny.PAIR, num_labels=3)
    label = int(e.model(**inputs).logits.argmax())
    words, gradient = by_hand(e.model, inputs, lambda logits: logits[0, label])
    close(e(tiny.PAIR, method=f"gradient-norm:aggregate={aggregate}").scores, NORMS[aggregate](gradient))
    close(e(tiny.PAIR, method=f"gradient-x-input:aggregate={aggregate}").scores, NORMS[aggregate](gradient * words))


def test_integrated_gradients_equal_a_plain_loop():
    e, inputs = bert(tiny.TEXTS[2], num_labels=3)
    expected = integrated(e.model, inputs, lambda logits: logits[0, 1], 7, 0.0)
    result = e(tiny.TEXTS[2], target=1, method="integrated-gradients:steps=7")
    close(result.scores, expected.sum(-1))
    sizes = e(tiny.TEXTS[2], target=1, method=IntegratedGradients("l1", steps=7))
    close(sizes.scores, expected.abs().sum(-1))
    few = Explainer(e.model, e.tokenizer, batch_tokens=2 * len(result.units))  # two steps in one pass
    close(few(tiny.TEXTS[2], target=1, method="integrated-gradients:steps=7").scores, expected.sum(-1))


@pytest.mark.parametrize("baseline", ["pad", "mask"])
def test_baselines_of_tokens_leave_special_tokens_alone(baseline):
    e, inputs = bert(tiny.TEXTS[0])
    ids = inputs["input_ids"].clone()
    ids[0, 1:-1] = tiny.VOCABULARY["[PAD]" if baseline == "pad" else "[MASK]"]
    start = e.model.get_input_embeddings()(ids).detach()
    expected = integrated(e.model, inputs, lambda logits: logits[0, 0], 5, start).sum(-1)
    result = e(tiny.TEXTS[0], target=0, method=f"integrated-gradients:steps=5,baseline={baseline}")
    close(result.scores, expected)
    assert result.scores[0] == 0
    assert result.scores[-1] == 0


def test_published_protocol_feeds_the_embedding_layers_output_back():
    e, inputs = bert(tiny.PAIR)
    model = e.model
    twice = model(**inputs, output_hidden_states=True).hidden_states[0].detach()
    without_types = {name: value for name, value in inputs.items() if name != "token_type_ids"}
    words, gradient = by_hand(model, without_types, lambda logits: logits[0, 1], twice)
    path = integrated(model, without_types, lambda logits: logits[0, 1], 6, 0.0, twice)
    for name, settings, expected in (
        ("gradient-norm", "", gradient),
        ("gradient-x-input", ",aggregate=l1", gradient * words),
        ("integrated-gradients", ",aggregate=l1,steps=6", path),
    ):
        found = e(tiny.PAIR, method=f"{name}:protocol=published{settings}", target=1)
        close(found.scores, expected.abs().sum(-1))
    other = e(tiny.PAIR, method="gradient-norm", target=1).scores
    assert np.abs(other - gradient.abs().sum(-1).numpy()).max() > 1e-3


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2", "opt", "mamba"])
def test_causal_lm_explains_the_logit_less_its_mean_at_the_last_position(family):
    model, made = tiny.model(family, "CausalLM"), tiny.tokenizer_for(family)
    inputs = made(tiny.TEXTS[0], return_tensors="pt")
    target = tiny.VOCABULARY["good"]

    def quantity(logits):
        return logits[0, -1, target] - logits[0, -1].mean()

    if family == "gemma2":  # scales its word embeddings inside the lookup, but not what it is given as inputs_embeds
        words = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
        handle = model.get_input_embeddings().register_forward_hook(lambda *_: words)
        logits = model(**inputs).logits
        handle.remove()
        (gradient,) = (g[0] for g in torch.autograd.grad(quantity(logits), words))
        words = words.detach()[0]
    else:
        words, gradient = by_hand(model, inputs, quantity)
    found = Explainer(model, made)(tiny.TEXTS, target="good", method="gradient-x-input")[0]
    close(found.scores, (words * gradient).sum(-1))


def test_a_model_without_gradients_names_what_would_do():
    e = tiny.explainer("bert")

    class Rounding(torch.nn.Module):
        def forward(self, states, *args, **kwargs):
            return states.detach()

    e.model.bert.encoder.layer[0] = Rounding()
    with pytest.raises(UnsupportedModelError, match=r"differentiable .* normxlogit.* work on any model"):
        e(tiny.TEXTS[0], method="gradient-norm")
