import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer, InputError
from tests import tiny

TEXTS = ["the movie is not good", "a great film with charm and wit , but maybe mediocre plot !"]
FAMILIES = [
    *[(family, "SequenceClassification") for family in ("bert", "llama", "xlnet")],
    *[(family, "CausalLM") for family in ("gpt2", "llama", "mamba")],
    ("bert", "TokenClassification"),
]


def made(family="bert", kind="SequenceClassification"):
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    return model, Explainer(model, tokenizer), tokenizer(TEXTS, return_tensors="pt", padding=True)


@pytest.mark.parametrize(("family", "kind"), FAMILIES)
@pytest.mark.parametrize("settings", ["", ":read_at=middle", ":sink_threshold=3", ":read_at=0"])
def test_with_a_graph_and_without_one_the_scores_are_the_same(family, kind, settings):
    model, explainer, inputs = made(family, kind)
    target = ALL if kind == "SequenceClassification" else None
    with torch.no_grad():
        plain = model(**inputs, output_hidden_states=True)
    for outputs in (model(**inputs, output_hidden_states=True), plain):
        results = explainer.from_outputs(inputs, outputs, method=f"frozen-gradient{settings}", target=target)
        for a, b in zip(results, explainer(TEXTS, method=f"frozen-gradient{settings}", target=target), strict=True):
            np.testing.assert_allclose(a.scores, b.scores, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(a.bias, b.bias, rtol=1e-4, atol=1e-5)


def test_a_pass_that_was_changed_inside_is_refused():
    model, explainer, inputs = made()
    handle = model.bert.encoder.layer[0].register_forward_hook(lambda module, args, out: out + 1.0)
    outputs = model(**inputs, output_hidden_states=True)
    handle.remove()
    with pytest.raises(InputError, match="other hidden states"):
        explainer.from_outputs(inputs, outputs, method="frozen-gradient", target=0)


def test_the_callers_graph_stays_as_it_was():
    model, explainer, inputs = made()
    model(**inputs).logits.sum().backward()
    expected = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    outputs = model(**inputs, output_hidden_states=True)
    explainer.from_outputs(inputs, outputs, method="frozen-gradient")
    assert all(weight.grad is None for weight in model.parameters())
    outputs.logits.sum().backward()
    for weight, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient)
