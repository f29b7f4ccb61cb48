"""Forward passes that somebody else has run: of this model, over these inputs, whole, and numbers."""

import pytest
import torch

from normxlogit import Explainer
from normxlogit.errors import InputError
from tests import tiny

FAMILIES = [("bert", "SequenceClassification"), ("llama", "CausalLM"), ("xlnet", "SequenceClassification")]


def given(family, kind):
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    inputs = tokenizer(tiny.TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    return Explainer(model, tokenizer), inputs, outputs


def no_numbers(inputs, outputs):
    outputs["logits"] = outputs.logits * torch.nan


def layers_cut_off(inputs, outputs):
    outputs["hidden_states"] = outputs.hidden_states[1:]


def other_ids(inputs, outputs):
    ids = inputs["input_ids"]
    ids[2, 1:3] = ids[2, 1:3].flip(0)  # the longest text: no padding


def other_shape(inputs, outputs):
    for name, value in inputs.items():
        inputs[name] = value[:, :-1]


def no_states(inputs, outputs):
    outputs["hidden_states"] = None


BROKEN = [
    (no_numbers, "NaN or infinite"),
    (layers_cut_off, "hold 3 hidden states, and the model gives 4"),
    (other_ids, "do not come from these inputs"),
    (other_shape, "the outputs are of shape"),
    (no_states, "output_hidden_states=True"),
]


@pytest.mark.parametrize(("family", "kind"), FAMILIES)
@pytest.mark.parametrize(("breaking", "message"), BROKEN)
def test_what_is_refused(family, kind, breaking, message):
    explainer, inputs, outputs = given(family, kind)
    explainer.from_outputs(inputs, outputs)
    breaking(inputs, outputs)
    with pytest.raises(InputError, match=message):
        explainer.from_outputs(inputs, outputs)
