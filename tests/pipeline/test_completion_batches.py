"""Many prompts at once: each has the tokens and the scores that it has alone."""

import numpy as np
import pytest

from tests import tiny
from tests.pipeline.test_completion import explainer_for

PROMPTS = ["once upon a time", "the cat sat on the mat and the movie is good", "bad", "a film with charm and wit"]


def same(one, other):
    assert one.token_ids == other.token_ids
    scale = max(np.abs(other.scores).max(), 1e-3)
    np.testing.assert_allclose(one.scores, other.scores, atol=2e-4 * scale)
    for name, values in other.diagnostics.items():
        np.testing.assert_allclose(one.diagnostics[name], values, atol=2e-3, rtol=1e-3)
    assert [p.id for p in one.predictions] == [p.id for p in other.predictions]
    assert one.targets == other.targets
    assert (one.text, one.notes, one.special_tokens_mask) == (other.text, other.notes, other.special_tokens_mask)


@pytest.mark.parametrize("method", ["normxlogit", "gradient-x-input", "frozen-gradient:read_at=-1"])
def test_every_method_takes_completions_in_batches(method):
    explainer, alone = explainer_for(), explainer_for()
    after = [" and bad", ".", " cat is here", [7, 8, 9, 10]]
    many = explainer.explain_completion(PROMPTS, after, method=method, contrast=tiny.VOCABULARY["the"])
    for found, prompt, completion in zip(many, PROMPTS, after, strict=True):
        same(found, alone.explain_completion(prompt, completion, method=method, contrast=tiny.VOCABULARY["the"]))
