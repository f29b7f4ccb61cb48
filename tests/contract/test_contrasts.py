"""One label or token against another: what is explained is the difference of their logits."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, TargetError
from tests import tiny
from tests.contract.compare import close, total

TEXT = "the movie is never good"

MODELS = [("llama", "CausalLM"), ("gpt2", "CausalLM"), ("bert", "MaskedLM"), ("bert", "SequenceClassification")]


def names(kind):
    return ("good", "bad", "cat") if kind.endswith("LM") else (0, 1, 2)


def explained(family, kind):
    options = {} if kind.endswith("LM") else {"num_labels": 3}
    model, tokenizer = tiny.model(family, kind, **options), tiny.tokenizer_for(family)
    text = f"the movie is {tokenizer.mask_token} good" if kind == "MaskedLM" else TEXT
    return model, tokenizer, Explainer(model, tokenizer), text


@pytest.mark.parametrize(("family", "kind"), MODELS)
@pytest.mark.parametrize("method", ["frozen-gradient", "normxlogit", "logat"])
def test_scores_of_a_contrast_are_not_zero_and_exchange_their_sign_with_the_labels(family, kind, method):
    _, _, explainer, text = explained(family, kind)
    good, bad, cat = names(kind)
    against_bad = explainer(text, target=good, contrast=bad, method=method)
    against_good = explainer(text, target=bad, contrast=good, method=method)
    assert np.abs(against_bad.scores).max() > 1e-3
    close(against_bad.scores, -against_good.scores)
    through_cat = explainer(text, target=good, contrast=cat, method=method).scores
    through_cat = through_cat + explainer(text, target=cat, contrast=bad, method=method).scores
    close(against_bad.scores, through_cat, tolerance=1e-4)


@pytest.mark.parametrize(("family", "kind"), MODELS)
def test_contributions_to_a_contrast_sum_to_the_difference_of_the_models_own_logits(family, kind):
    model, tokenizer, explainer, text = explained(family, kind)
    good, bad, _ = names(kind)
    a = explainer(text, target=good, contrast=bad)
    with torch.inference_mode():
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
    if kind.endswith("LM"):
        logits = logits[a.target.position]
        good, bad = tokenizer.convert_tokens_to_ids([good, bad])
    assert total(a) == pytest.approx(float(logits[good] - logits[bad]), abs=1e-3)


def test_a_contrast_on_a_vocabulary_is_the_plain_loop():
    model, tokenizer, explainer, text = explained("llama", "CausalLM")
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        hidden_states = model(**inputs, output_hidden_states=True).hidden_states
        logits = model.lm_head(hidden_states[-1][0])  # (T, V)
    good, bad = tokenizer.convert_tokens_to_ids(["good", "bad"])
    difference = logits[:, good] - logits[:, bad]
    close(explainer(text, target="good", contrast="bad", method="logat").scores, difference.numpy())
    norms = hidden_states[0][0].norm(dim=-1)
    close(explainer(text, target="good", contrast="bad", method="normxlogit").scores, (difference * norms).numpy())


def test_a_contrast_is_tested_by_what_is_left_of_it():
    _, _, explainer, text = explained("llama", "CausalLM")
    a = explainer(text, target="good", contrast="bad", verify=2)
    alone = explainer.without(text, [a.verified.single[0].units[0]], target="good", contrast="bad")
    assert alone.value == pytest.approx(a.verified.single[0].value, abs=1e-5)
    assert alone.value != pytest.approx(a.verified.original.value, abs=1e-6)


@pytest.mark.parametrize("named", [{"target": "film"}, {"targets": ["the", "film"]}])
def test_a_generated_token_is_not_compared_with_itself(named):
    with pytest.raises(TargetError, match="contrast"):
        tiny.explainer("llama", "CausalLM").explain_completion("a film", " the film", contrast="film", **named)
