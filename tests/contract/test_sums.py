"""Scores and bias add up to what is explained, wherever they are taken; a result without a bias does not claim so."""

import sys

import numpy as np
import pytest
import torch

from normxlogit import ALL, Attributions, Explainer
from tests import tiny

TEXT = "the movie is not good but a great film"
LONG = " ".join(f"{TEXT} with charm and wit , maybe mediocre plot".split() * 8)
LIMIT = 40
FROZEN = "frozen-gradient"
CLOSE = {"rtol": 1e-3, "atol": 1e-3}


@pytest.fixture(scope="module")
def model():
    return tiny.model("bert", num_labels=3)


@pytest.fixture(scope="module")
def explainer(model):
    return Explainer(model, tiny.tokenizer_for("bert"))


@pytest.fixture(scope="module")
def language_model():
    return tiny.model("llama", "CausalLM")


@pytest.fixture(scope="module")
def completion(language_model):
    return Explainer(language_model, tiny.tokenizer_for("llama")).generate(
        "the cat sat on", method=FROZEN, max_new_tokens=4
    )


def logits_of(model, text):
    with torch.inference_mode():
        return model(**tiny.tokenizer_for("bert")(text, return_tensors="pt")).logits[0].numpy()


def windowed_logits(model, text):
    """The mean over windows of the model's length, neighbours of which share a quarter of the text in each."""
    ids = tiny.tokenizer_for("bert")(text, truncation=False, verbose=False).input_ids
    first, body, last = ids[:1], ids[1:-1], ids[-1:]
    room = LIMIT - 2
    starts = [*range(0, len(body) - room, room - room // 4), len(body) - room]
    with torch.inference_mode():
        windows = [torch.tensor([first + body[start : start + room] + last]) for start in starts]
        return torch.cat([model(window).logits for window in windows]).mean(0).numpy()


@pytest.mark.parametrize("method", [FROZEN, "kernel-shap:samples=600", "integrated-gradients:steps=8", "decompx"])
@pytest.mark.parametrize(("family", "kind"), [("bert", "MaskedLM"), ("gpt2", "CausalLM")])
def test_of_a_language_model_they_are_the_logit_less_its_mean(family, kind, method):
    if (family, method) == ("gpt2", "decompx"):
        pytest.skip("for post-LayerNorm encoders")
    made, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    a = Explainer(made, tokenizer)(TEXT if kind == "CausalLM" else tiny.MASKED, method=method, target=9)
    with torch.inference_mode():
        logits = made(torch.tensor([a.token_ids])).logits[0, a.target.position]
    assert a.scores.sum() + a.bias == pytest.approx(float(logits[9] - logits.mean()), abs=1e-3)


@pytest.mark.parametrize("method", ["kernel-shap", "decompx"])
def test_methods_whose_scores_add_up_have_a_bias(explainer, model, method):
    a = explainer(TEXT, method=method, target=1, contrast=0)
    logits = logits_of(model, TEXT)
    assert a.scores.sum() + a.bias == pytest.approx(logits[1] - logits[0], abs=1e-3)


def test_shapley_values_begin_at_the_answer_without_any_word(explainer, model):
    a = explainer("a great film", method="kernel-shap", target=1)
    assert float(a.bias) == pytest.approx(logits_of(model, "[MASK] [MASK] [MASK]")[1], abs=1e-3)


@pytest.mark.parametrize(
    "method", ["normxlogit", "occlusion", "lime:samples=20", "gradient-x-input", "integrated-gradients:aggregate=l1"]
)
def test_scores_that_do_not_add_up_have_no_bias(explainer, method):
    assert explainer(TEXT, method=method).bias is None


def test_every_label_and_layer_has_its_own_bias(explainer, model):
    a = explainer(TEXT, method=FROZEN, target=ALL, layers=ALL)
    logits = logits_of(model, TEXT)
    assert a.bias.shape == a.scores.shape[:-1] == (3, 3)
    np.testing.assert_allclose(a.scores.sum(-1) + a.bias, np.repeat(logits[:, None], 3, 1), **CLOSE)
    for label in (0, 2):
        for layer in a.layers:
            one = a[label].layer(layer)
            assert one.bias.shape == ()
            assert one.scores.sum() + one.bias == pytest.approx(logits[label], abs=1e-3)
    assert a.layer(2).bias.shape == (3,)
    assert a[1].bias.shape == (3,)


@pytest.mark.parametrize("method", [FROZEN, "decompx", "integrated-gradients:steps=4,aggregate=sum"])
def test_a_text_in_windows_adds_up_to_the_mean_logits(explainer, model, method):
    logits = windowed_logits(model, LONG)
    every = explainer(LONG, long_text="window", method=method, target=ALL)
    np.testing.assert_allclose(every.scores.sum(-1) + every.bias, logits, **CLOSE)
    a = explainer(LONG, long_text="window", method=method)
    assert a.prediction.value == pytest.approx(logits.max(), abs=1e-3)
    assert a.scores.sum() + a.bias == pytest.approx(a.prediction.value, abs=1e-3)
    layered = explainer(LONG, long_text="window", method=FROZEN, target=2, layers=[1, 3])
    np.testing.assert_allclose(layered.scores.sum(-1) + layered.bias, [logits[2]] * 2, **CLOSE)


def test_words_special_tokens_and_bias_are_the_logit(explainer):
    a = explainer(TEXT, method=FROZEN)
    special = a.scores[list(a.special_tokens_mask)].sum()
    assert sum(word.score for word in a.words()) + special + a.bias == pytest.approx(a.prediction.value, abs=1e-3)


@pytest.mark.parametrize("text", [TEXT, LONG], ids=["short", "in windows"])
def test_a_waterfall_ends_at_the_logit(explainer, text):
    a = explainer(text, method=FROZEN, long_text="window")
    axes = a.plot("waterfall", k=4).axes[0]
    assert axes.get_yticklabels()[0].get_text() == "bias"
    bars = sorted(axes.patches, key=lambda bar: bar.get_y())
    assert bars[-1].get_width() == pytest.approx(a.prediction.value, abs=1e-3)
    assert sum(bar.get_width() for bar in bars[:-1]) == pytest.approx(a.prediction.value, abs=1e-3)


@pytest.fixture
def shap(monkeypatch):
    """The class of shap that is used."""

    class Explanation:
        def __init__(self, values, base_values, data, **names):
            self.values, self.base_values = values, base_values

    module = type(sys)("shap")
    module.Explanation = Explanation
    monkeypatch.setitem(sys.modules, "shap", module)


@pytest.mark.usefixtures("shap")
def test_shap_begins_at_the_bias(explainer):
    many = explainer([TEXT, "bad"], method=FROZEN)
    for one in many:
        found = one.to_shap()
        assert found.values.sum() + found.base_values == pytest.approx(one.prediction.value, abs=1e-3)
    found = many.to_shap()
    totals = [values.sum() + base for values, base in zip(found.values, found.base_values, strict=True)]
    np.testing.assert_allclose(totals, [one.prediction.value for one in many], **CLOSE)
    labels = explainer(TEXT, method=FROZEN, target=ALL)
    found = labels.to_shap()
    assert found.base_values.shape == (3,)
    np.testing.assert_allclose(found.values.sum(0) + found.base_values, labels.scores.sum(-1) + labels.bias, **CLOSE)
    mixed = Attributions([labels, many[0]]).to_shap()
    totals = mixed.values[0].sum(0) + mixed.base_values[0]
    np.testing.assert_allclose(totals, labels.scores.sum(-1) + labels.bias, **CLOSE)
    assert explainer(TEXT, method="normxlogit").to_shap().base_values == 0


def test_generated_tokens_have_a_bias_each(completion, language_model):
    g = completion
    with torch.inference_mode():
        logits = language_model(torch.tensor([g.token_ids])).logits[0]
    for row, index in enumerate(g.token_ids[g.prompt_tokens :]):
        at = logits[g.prompt_tokens + row - 1]
        assert g.scores[row].sum() + g.bias[row] == pytest.approx(float(at[index] - at.mean()), abs=1e-3)
        one = g[row]
        assert one.scores.sum() + one.bias == pytest.approx(float(at[index] - at.mean()), abs=1e-3)
    s = g.sources("word", parts="token")
    np.testing.assert_allclose(s.scores.sum(1) + s.bias, g.scores.sum(-1) + g.bias, **CLOSE)


def test_layers_of_generated_tokens_have_a_bias_each(language_model):
    explainer = Explainer(language_model, tiny.tokenizer_for("llama"))
    g = explainer.explain_completion("the cat sat on", " the mat", method=FROZEN, layers=ALL)
    assert g.bias.shape == g.scores.shape[:-1]
    whole = g.scores.sum(-1) + g.bias
    np.testing.assert_allclose(whole, np.repeat(whole[:, -1:], whole.shape[1], 1), **CLOSE)
    assert g.layer(1).bias == pytest.approx(g.bias[:, 0])
    assert g[0].bias.shape == (3,)


def test_scores_and_bias_cannot_be_changed(explainer, completion):
    for result in (explainer(TEXT, method=FROZEN, target=ALL), completion):
        with pytest.raises(ValueError, match="read-only"):
            result.bias[0] = 1
