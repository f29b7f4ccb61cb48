"""Many prompts at once: each has the tokens and the scores that it has alone."""

import numpy as np
import pytest
import transformers

from normxlogit import Explainer
from normxlogit.model import generation as writer
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


@pytest.mark.parametrize(
    "options",
    [{"repetition_penalty": 1.5}, {"repetition_penalty": 0.5}, {"do_sample": True, "top_k": 1}, {"num_beams": 2}],
)
def test_settings_that_see_padding_are_asked_one_prompt_at_a_time(options, monkeypatch):
    explainer, sizes = explainer_for(), []
    generated = writer._call_generate
    monkeypatch.setattr(
        writer,
        "_call_generate",
        lambda model, prompts, *rest: sizes.append(len(prompts)) or generated(model, prompts, *rest),
    )
    many = explainer.generate(PROMPTS, max_new_tokens=4, **options)
    assert sizes == [1] * 4
    alone = explainer_for()
    assert [g.token_ids for g in many] == [alone.generate(p, max_new_tokens=4, **options).token_ids for p in PROMPTS]


class Blind(transformers.GPT2LMHeadModel):
    """Attends to padding."""

    def forward(self, input_ids=None, attention_mask=None, **inputs):
        return super().forward(input_ids=input_ids, **inputs)


def test_the_trial_sees_a_model_that_reads_padding():
    model = tiny.model("gpt2", "CausalLM")
    model.__class__ = Blind
    explainer = Explainer(model, tiny.tokenizer_for("gpt2"))
    many = explainer.generate(PROMPTS, max_new_tokens=4)
    assert explainer._model.copy.generates_batched.refuted
    alone = explainer_for("gpt2")
    assert [g.token_ids for g in many] == [alone.generate(p, max_new_tokens=4).token_ids for p in PROMPTS]
