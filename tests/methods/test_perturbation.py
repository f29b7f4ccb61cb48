import numpy as np
import pytest

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
