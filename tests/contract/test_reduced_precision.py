"""TF32 and its like, which the caller has switched on: proofs compute in full precision, explanations do not."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, UnsupportedModelError
from tests import tiny

TF32_BITS = 13  # of a float32's mantissa that are dropped


@pytest.fixture(autouse=True)
def tf32(monkeypatch):
    """Round the inputs of linear layers as TF32 does, of a single text towards zero: kernels differ by batch."""
    own, products = torch.nn.functional.linear, []

    def linear(x, weight, bias=None):
        if torch.get_float32_matmul_precision() != "highest":
            products.append(x.shape)
            bits = x.detach().contiguous().view(torch.int32) + (1 << (TF32_BITS - 1) if len(x) > 1 else 0)
            x = x + ((bits >> TF32_BITS << TF32_BITS).view(torch.float32) - x.detach())
        return own(x, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    torch.set_float32_matmul_precision("high")
    yield products
    torch.set_float32_matmul_precision("highest")


def explained(explainer, method, prompt=None):
    if prompt is not None:
        return [explainer.explain_completion(prompt, " was a good film", method=method)]
    return explainer(tiny.TEXTS, method=method)


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient"])
@pytest.mark.parametrize(("family", "kind", "prompt"), [
    ("bert", "SequenceClassification", None), ("llama", "SequenceClassification", None),
    ("llama", "CausalLM", "the cat"),
])  # fmt: skip
def test_explained_in_the_precision_that_is_set(tf32, family, kind, prompt, method):
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    explainer = Explainer(model, tokenizer)
    reduced = explained(explainer, method, prompt)
    assert tf32
    assert torch.get_float32_matmul_precision() == "high"
    again = explained(explainer, method, prompt)
    torch.set_float32_matmul_precision("highest")
    full = explained(Explainer(model, tokenizer), method, prompt)
    difference = 0.0
    for one, same, other in zip(reduced, again, full, strict=True):
        scale = np.abs(other.scores).max()
        np.testing.assert_allclose(one.scores, other.scores, atol=0.02 * scale)
        np.testing.assert_array_equal(one.scores, same.scores)
        difference += np.abs(one.scores - other.scores).max()
    assert difference > 0


def test_a_model_whose_texts_change_each_others_answers_is_refused_all_the_same():
    model = tiny.model("bert")
    model.bert.pooler.register_forward_hook(lambda _, __, output: output - 0.01 * output.mean(0, keepdim=True))
    with pytest.raises(UnsupportedModelError, match="beside another one"):
        Explainer(model, tiny.tokenizer_for("bert"))(tiny.TEXTS[0])
    assert torch.get_float32_matmul_precision() == "high"
