import numpy as np
import pytest

from normxlogit.frozen import frozen_model
from tests import tiny

PROMPT = "once upon a time the cat sat on the mat and the movie is good"
AFTER = " but the film was bad"
OPTIONS = {"llama": {}, "gpt2": {}, "opt": {}, "mamba": {}, "gemma2": {"sliding_window": 4}}


@pytest.mark.parametrize("method", ["frozen-gradient", "frozen-gradient:read_at=-1"])
@pytest.mark.parametrize("family", OPTIONS)
def test_layers_that_run_again_give_the_same_scores(family, method, monkeypatch):
    plain = tiny.explainer(family, "CausalLM", **OPTIONS[family]).explain_completion(PROMPT, AFTER, method=method)
    monkeypatch.setattr(frozen_model.FrozenModel, "tokens_kept", 1)
    spared = tiny.explainer(family, "CausalLM", **OPTIONS[family]).explain_completion(PROMPT, AFTER, method=method)
    scale = np.abs(plain.scores).max()
    np.testing.assert_allclose(spared.scores, plain.scores, atol=1e-5 * scale)
    np.testing.assert_allclose(spared.bias, plain.bias, atol=1e-4, rtol=1e-4)
