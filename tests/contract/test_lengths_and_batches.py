"""What holds for one length or one batch is not assumed for another: rope that stretches, recurrence, padding."""

import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer
from tests import tiny

STRETCHED = 12
"""Tokens beyond which the rotary embeddings of these models are others."""

LENGTHS = {"max_position_embeddings": 4 * STRETCHED, "original_max_position_embeddings": STRETCHED}
LONGROPE = {"rope_type": "longrope", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": STRETCHED}
LONGROPE |= {"short_factor": [1.0] * 4, "long_factor": [8.0, 8.0, 16.0, 16.0]}


def longrope(kind="CausalLM"):
    """As Phi-3 with 128,000 tokens."""
    settings = tiny.COMMON | tiny.INNER | tiny.IDS | LENGTHS | {"num_key_value_heads": 2, "num_hidden_layers": 2}
    config = transformers.Phi3Config(**settings, rope_parameters=LONGROPE, tie_word_embeddings=False)
    return tiny.random_model(getattr(transformers, f"Phi3For{kind}"), config, 8.0)


def dynamic(kind="CausalLM"):
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0}
    return tiny.model("llama", kind, max_position_embeddings=STRETCHED, rope_parameters=rope)


def rwkv():
    settings = {"vocab_size": tiny.SIZE, "hidden_size": 32, "attention_hidden_size": 32, "num_hidden_layers": 2}
    config = transformers.RwkvConfig(**settings, context_length=64, **tiny.IDS)
    return tiny.random_model(transformers.RwkvForCausalLM, config, 8.0)


def tokenizer():
    made = tiny.tokenizer_for("llama")
    made.model_max_length = 4 * STRETCHED
    return made


def text(count, start=0):
    """A text of so many tokens."""
    return " ".join(tiny.WORDS[(start + 7 * i) % 42] for i in range(count))


MODELS = {"longrope": longrope, "dynamic": dynamic}


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient"])
@pytest.mark.parametrize(("prompt", "completion"), [(6, 5), (6, 12), (14, 8)], ids=["below", "across", "beyond"])
@pytest.mark.parametrize("short_first", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_completions_are_explained_as_the_model_reads_what_stands_before_each_token(
    name, short_first, prompt, completion, method
):
    explainer = Explainer(MODELS[name](), tokenizer())
    if short_first:
        explainer.explain_completion(text(4), " " + text(3, 5), method=method)
    found = explainer.explain_completion(text(prompt), " " + text(completion, 3), method=method)
    assert len(found) == completion
    assert (found.prompt_tokens, found.completion) == (prompt, " " + text(completion, 3))
    for g, said in enumerate(found.generated):
        with torch.no_grad():  # a new model each time: dynamic ones remember the longest text
            logits = MODELS[name]()(torch.tensor([found.token_ids[: prompt + g]])).logits[0, -1]
        assert said.value == pytest.approx(logits[said.id].item(), abs=1e-4)
        assert found.predictions[g].id == logits.argmax().item()
        assert found.targets[g].position == prompt + g - 1
        if method == "frozen-gradient":
            total = found.scores[g].sum() + found.bias[g]
            assert total == pytest.approx((logits[said.id] - logits.mean()).item(), abs=1e-3)
    words = found.text.split()
    for g in (0, completion - 1):
        fresh = Explainer(MODELS[name](), tokenizer())
        only = fresh.explain_completion(" ".join(words[: prompt + g]), " " + words[prompt + g], method=method)
        np.testing.assert_allclose(found.scores[g, : prompt + g], only.scores[0, :-1], rtol=1e-3, atol=1e-4)
    assert not found.scores[0, prompt:].any()


def alone(model, prompt):
    ids = torch.tensor([tokenizer()(prompt).input_ids])
    with torch.no_grad():
        return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)[0].tolist()


@pytest.mark.parametrize(("make", "lengths"), [
    (longrope, (5, 11)), (longrope, (7, 7)), (longrope, (14, 17)), (longrope, (1, 9, 11)), (dynamic, (5, 11)),
    (rwkv, (6, 6)), (rwkv, (5, 8)),
])  # fmt: skip
def test_each_of_several_prompts_gets_the_tokens_that_it_gets_alone(make, lengths):
    explainer = Explainer(make(), tokenizer())
    explainer.generate([text(2), text(3, 4)], max_new_tokens=2)  # what is short enough goes together
    prompts = [text(count, 3 * i) for i, count in enumerate(lengths)]
    for found, prompt in zip(explainer.generate(prompts, max_new_tokens=8), prompts, strict=True):
        assert list(found.token_ids) == alone(make(), prompt)
