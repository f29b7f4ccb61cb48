"""Gradient methods against autograd written out by hand in plain torch."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from normxlogit.methods import IntegratedGradients
from tests import tiny

from .test_perturbation import bert, close

NORMS = {"l1": lambda g: g.abs().sum(-1), "l2": lambda g: g.pow(2).sum(-1).sqrt(), "sum": lambda g: g.sum(-1)}


def embedded(model, inputs):
    return model.get_input_embeddings()(inputs["input_ids"]).detach()


def gradient_at(model, inputs, read, words):
    """The gradient of read(logits) by the vectors (1, T, H) that take the place of the word embeddings."""
    words = words.detach().requires_grad_()
    more = {name: value for name, value in inputs.items() if name != "input_ids"}
    return torch.autograd.grad(read(model(inputs_embeds=words, **more).logits), words)[0]


def integrated(model, inputs, read, steps, baseline, words):
    points, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(words)
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        total += gradient_at(model, inputs, read, baseline + float(point) * (words - baseline)) * float(weight)
    return (total * (words - baseline))[0]


@pytest.mark.parametrize("aggregate", NORMS)
def test_gradient_norm_and_gradient_x_input_equal_autograd(aggregate):
    e, inputs = bert(tiny.PAIR, num_labels=3)
    label = int(e.model(**inputs).logits.argmax())
    words = embedded(e.model, inputs)
    gradient = gradient_at(e.model, inputs, lambda logits: logits[0, label], words)
    for name, expected in (("gradient-norm", gradient), ("gradient-x-input", gradient * words)):
        close(e(tiny.PAIR, method=f"{name}:aggregate={aggregate}").scores, NORMS[aggregate](expected[0]))


def test_integrated_gradients_equal_a_plain_loop():
    e, inputs = bert(tiny.TEXTS[2], num_labels=3)
    expected = integrated(e.model, inputs, lambda logits: logits[0, 1], 7, 0.0, embedded(e.model, inputs))
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
    start = embedded(e.model, {"input_ids": ids})
    expected = integrated(e.model, inputs, lambda logits: logits[0, 0], 5, start, embedded(e.model, inputs)).sum(-1)
    result = e(tiny.TEXTS[0], target=0, method=f"integrated-gradients:steps=5,baseline={baseline}")
    close(result.scores, expected)
    assert result.scores[0] == 0
    assert result.scores[-1] == 0


def test_published_protocol_feeds_the_embedding_layers_output_back():
    e, inputs = bert(tiny.PAIR)
    model = e.model
    twice = model(**inputs, output_hidden_states=True).hidden_states[0].detach()
    without_types = {name: value for name, value in inputs.items() if name != "token_type_ids"}
    gradient = gradient_at(model, without_types, lambda logits: logits[0, 1], twice)
    path = integrated(model, without_types, lambda logits: logits[0, 1], 6, 0.0, twice)
    for name, settings, expected in (
        ("gradient-norm", "", gradient),
        ("gradient-x-input", ",aggregate=l1", gradient * twice),
        ("integrated-gradients", ",aggregate=l1,steps=6", path[None]),
    ):
        found = e(tiny.PAIR, method=f"{name}:protocol=published{settings}", target=1)
        close(found.scores, expected[0].abs().sum(-1))
    other = e(tiny.PAIR, method="gradient-norm", target=1).scores
    assert np.abs(other - gradient[0].abs().sum(-1).numpy()).max() > 1e-3


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "mamba"])
def test_causal_lm_explains_the_logit_less_its_mean_at_the_last_position(family):
    """By a hook: Gemma scales its word embeddings inside the lookup, but not what it is given as inputs_embeds."""
    model, made = tiny.model(family, "CausalLM"), tiny.tokenizer_for(family)
    inputs = made(tiny.TEXTS[0], return_tensors="pt")
    words = embedded(model, inputs).requires_grad_()
    handle = model.get_input_embeddings().register_forward_hook(lambda *_: words)
    logits = model(**inputs).logits[0, -1]
    handle.remove()
    (gradient,) = torch.autograd.grad(logits[tiny.VOCABULARY["good"]] - logits.mean(), words)
    found = Explainer(model, made)(tiny.TEXTS, target="good", method="gradient-x-input")[0]
    close(found.scores, (words * gradient)[0].sum(-1).detach())
