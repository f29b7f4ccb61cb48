"""Token ids that were padded, and came without the mask that says which are real."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, InputError
from tests import tiny


@pytest.fixture(scope="module")
def explainer():
    return Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "form", [dict, lambda inputs: inputs["input_ids"], lambda inputs: inputs["input_ids"].tolist()]
)
def test_padding_without_a_mask_is_left_out_with_a_note(explainer, form, side):
    tokenizer = tiny.tokenizer_for("bert")
    encoded = tokenizer(tiny.TEXTS, padding=True, return_tensors="pt", padding_side=side)
    found = explainer(form({"input_ids": encoded.input_ids}))
    for a, text, mask in zip(found, tiny.TEXTS, encoded.attention_mask, strict=True):
        alone = explainer(text)
        np.testing.assert_allclose(a.scores, alone.scores, rtol=1e-4, atol=1e-5)
        assert any("without an attention_mask" in note for note in a.notes) == bool((mask == 0).any())


def test_padding_that_a_mask_calls_real_is_read(explainer):
    ids = torch.tensor([[2, 8, 9, 3, 0, 0]])
    a = explainer({"input_ids": ids, "attention_mask": torch.ones_like(ids)})[0]
    with torch.no_grad():
        own = explainer.model(ids).logits.max().item()
    assert (len(a.tokens), a.prediction.value) == (6, pytest.approx(own, abs=1e-4))


def test_padding_that_may_end_the_text_is_refused():
    tokenizer = tiny.tokenizer_for("gpt2")
    tokenizer.pad_token = tokenizer.eos_token
    e = Explainer(tiny.model("gpt2", "CausalLM"), tokenizer)
    with pytest.raises(InputError, match="attention_mask"):
        e(torch.tensor([[5, 6, 7, 3, 3]]))
    assert len(e(torch.tensor([[5, 6, 7, 3]]))[0].tokens) == 4


def test_a_row_of_padding_alone_is_refused(explainer):
    with pytest.raises(InputError, match="no real token"):
        explainer(torch.zeros(1, 4, dtype=torch.long))
