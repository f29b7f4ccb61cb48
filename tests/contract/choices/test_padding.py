"""Padding that a model puts inside itself is no token of a choice."""

import copy

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from tests import tiny

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("lengths", [(23, 12, 30), (12, 23, 25)])
def test_padding_that_the_model_puts_inside_itself_is_no_token(lengths):
    """BigBird fills its last block inside the trunk, and a head on pooled states lies behind that."""
    model = tiny.model("big_bird", "MultipleChoice", seed=1)
    explainer = Explainer(model, tiny.tokenizer())
    questions = [("the " * (length - 4), ["good", "bad"]) for length in lengths]
    alone = [explainer(question, layers=ALL, method="normxlogit") for question in questions]
    assert [len(result.units) for result in alone] == list(lengths)
    for question, result, among in zip(
        questions, alone, explainer(questions, layers=ALL, method="normxlogit"), strict=True
    ):
        length = len(result.units)
        np.testing.assert_allclose(among.scores, result.scores, **CLOSE)
        with torch.no_grad():
            fresh = copy.deepcopy(model)  # a short text turns its attention into another kind for good
            states = fresh(torch.tensor([[result.token_ids]]), output_hidden_states=True).hidden_states
            each = [model.classifier(torch.tanh(model.bert.pooler(s[0, :length])))[:, 0] for s in states]
        norms = states[0][0, :length].norm(dim=-1)
        np.testing.assert_allclose(result.scores, torch.stack(each[1:]) * norms, **CLOSE)
        shares = explainer(question, method="frozen-gradient")
        assert shares.scores.sum() + shares.bias == pytest.approx(shares.prediction.value, abs=1e-4)
