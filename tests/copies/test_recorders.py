"""A model that came from another process hands out its hidden states, and one that did can be sent to another."""

import pickle

import numpy as np
import pytest
from transformers.utils import output_capturing

from normxlogit import Explainer
from tests import tiny

TEXT = "the movie is good"


@pytest.fixture
def nothing_built(monkeypatch):
    monkeypatch.setattr(output_capturing, "_CAN_RECORD_REGISTRY", type(output_capturing._CAN_RECORD_REGISTRY)())


@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("llama", "CausalLM")])
def test_a_model_of_another_process_is_read_in_the_middle_as_here(family, kind, request):
    explainer = tiny.explainer(family, kind)
    wanted = explainer(TEXT, method="frozen-gradient:read_at=middle").scores
    assert not np.allclose(wanted, explainer(TEXT, method="frozen-gradient").scores, atol=1e-4)
    sent = pickle.dumps(explainer)
    request.getfixturevalue("nothing_built")
    found = pickle.loads(sent)(TEXT, method="frozen-gradient:read_at=middle").scores
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_model_that_was_asked_for_hidden_states_can_be_sent(request):
    model, tokenizer = tiny.model("bert", "SequenceClassification").train(), tiny.tokenizer_for("bert")
    explainer = Explainer(model, tokenizer)
    ids = tokenizer(TEXT, return_tensors="pt")
    asked = model(**ids, output_hidden_states=True).hidden_states
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(model)
    hooks = sum(len(module._forward_hooks) for module in model.modules())
    sent = pickle.loads(pickle.dumps(explainer))
    assert sum(len(module._forward_hooks) for module in model.modules()) == hooks > 0
    assert sent.model.training
    assert len(sent.model(**ids, output_hidden_states=True).hidden_states) == len(asked)
    np.testing.assert_allclose(sent(TEXT).scores, explainer(TEXT).scores, atol=1e-6)
