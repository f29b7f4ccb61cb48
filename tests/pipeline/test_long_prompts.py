import warnings

import numpy as np
import pytest
import torch

from normxlogit import Explainer, UnsupportedModelError
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


def quantised(family, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(tiny.model(family, kind), {torch.nn.Linear}, dtype=torch.qint8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["frozen-gradient", "gradient-x-input"])
def test_no_gradient_is_made_up_where_none_flows(method):
    explainer = Explainer(quantised("bert", "SequenceClassification"), tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="no gradient flows through"):
        explainer("the movie is good", method=method)
    only_head = Explainer(quantised("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2"))
    with pytest.raises(UnsupportedModelError, match="no gradient flows through"):
        only_head.explain_completion("the cat sat", " on", method=method)


@pytest.mark.filterwarnings("ignore")
def test_quantised_models_are_explained_one_text_at_a_time():
    """Activations are quantised by the largest of a whole batch, so that texts would change each other's scores."""
    model, texts = quantised("bert", "SequenceClassification"), ["the movie is good", "a cat is bad"]
    many = Explainer(model, tiny.tokenizer_for("bert"))(texts)
    for found, text in zip(many, texts, strict=True):
        alone = Explainer(model, tiny.tokenizer_for("bert"))(text)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-5)
    writer = Explainer(quantised("llama", "CausalLM"), tiny.tokenizer_for("llama"))
    with pytest.raises(UnsupportedModelError, match="quantises"):
        writer.explain_completion(PROMPT, AFTER, method="normxlogit")
