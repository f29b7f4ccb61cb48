"""What a model said, against its own outputs."""

import pytest
import torch

from normxlogit import Explainer
from tests import tiny

TEXTS = ["once upon a time the cat", "the keys to the cabinet are here"]


@pytest.mark.parametrize(("family", "kind"), [("llama", "CausalLM"), ("roberta", "SequenceClassification")])
def test_the_prediction_is_the_largest_output_with_its_value_and_probability(family, kind):
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    for found, text in zip(Explainer(model, tokenizer)(TEXTS), TEXTS, strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
        logits = logits[-1] if logits.ndim == 2 else logits  # (C,)
        best = int(logits.argmax())
        said = found.prediction
        assert said.id == best
        assert said.label == (tokenizer.decode([best]).strip() if kind == "CausalLM" else model.config.id2label[best])
        assert said.value == pytest.approx(float(logits[best]), abs=1e-4)
        assert said.probability == pytest.approx(float(logits.softmax(-1)[best]), abs=1e-5)
