from dataclasses import replace

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from normxlogit.methods.base import Request
from normxlogit.methods.perturbation import TokenSubsets, log_odds
from normxlogit.tasks.targets import resolve
from tests import tiny


@pytest.mark.parametrize("method", ["occlusion", "lime:samples=8"])
def test_the_mask_that_is_asked_for_and_special_tokens_are_never_left_out(method):
    a = tiny.explainer("bert", "MaskedLM")("the [MASK] is", method=method)
    assert a.tokens[a.target.position] == "[MASK]"
    stays = np.array(a.special_tokens_mask) | (np.arange(len(a.tokens)) == a.target.position)
    assert not a.scores[stays].any()
    assert a.scores[~stays].all()


@pytest.mark.parametrize("has_mask_token", [True, False])
def test_a_token_whose_own_label_is_explained_is_left_out_only_where_a_mask_can_take_its_place(has_mask_token):
    explainer = tiny.explainer("bert", "TokenClassification")
    if not has_mask_token:
        explainer.tokenizer.mask_token = None
    a = explainer("the cat sat", position=2, method="occlusion")
    assert (a.scores[2] != 0) is np.bool_(has_mask_token)
    assert a.scores[[1, 3]].all()


def test_the_odds_of_a_probability_are_finite_up_to_one():
    probabilities = np.array([0.5, 0.9, 1e-9, 1.0, 1.0 + 1e-12])
    odds = log_odds(np.log(probabilities))
    np.testing.assert_allclose(odds[:3], np.log(probabilities[:3] / (1 - probabilities[:3])), rtol=1e-6)
    assert np.isfinite(odds).all()
    assert odds[3] == odds[4] > 20


def test_tokens_behind_the_last_one_that_is_read_and_special_tokens_stay():
    """A next token depends on what stands before it; the frame of a tokenizer is no part of the text."""
    explainer = Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer(specials=True))
    model = explainer._model
    batch = model.batch(explainer.encode(tiny.TEXTS), [0, 1, 2])
    run = model.run(batch)
    target = resolve(model.task, run, None)
    run = replace(run, positions=torch.tensor([2, 1, 4]))
    tokens = TokenSubsets(Request(model, run, target))
    assert tokens.players == [[1, 2], [1], [1, 2, 3, 4]]
    subsets = [np.ones((2, 2), bool), np.ones((0, 1), bool), np.ones((1, 4), bool)]
    assert [answers.shape for answers in tokens(subsets)] == [(2, 1), (0, 1), (1, 1)]
