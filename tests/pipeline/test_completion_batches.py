"""Many prompts at once: each has the tokens and the scores that it has alone."""

import numpy as np
import pytest
import torch
import transformers
from transformers import GenerationConfig

from normxlogit import Explainer
from normxlogit.models import write_each as writer
from tests import tiny
from tests.pipeline.test_cite import TEMPLATE

PROMPTS = ["once upon a time", "the cat sat on the mat and the movie is good", "bad", "a film with charm and wit"]
FAMILIES = ["gpt2", "opt", "llama", "gemma2", "mamba"]


def explainer_for(family="llama", **options):
    model, tokenizer = tiny.model(family, "CausalLM", **options), tiny.tokenizer_for(family)
    tokenizer.chat_template = TEMPLATE
    return Explainer(model, tokenizer)


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
    many = explainer.explain_completion(PROMPTS, after, method=method, contrast="the")
    for found, prompt, completion in zip(many, PROMPTS, after, strict=True):
        same(found, alone.explain_completion(prompt, completion, method=method, contrast="the"))


def test_layers_targets_sources_and_messages_of_each_prompt():
    explainer = explainer_for()
    chat = [[{"role": "user", "content": "the cat sat ."}], [{"role": "user", "content": "a movie"}]]
    many = explainer.explain_completion(
        chat,
        [" bad", " good film"],
        targets=[["cat"], ["mat", "film"]],
        layers=[1, 3],
        method="normxlogit",
        sources=[{"cat": (0, 4, 7)}, {"film": (0, 2, 7)}],
    )
    assert [g.scores.shape[:2] for g in many] == [(1, 2), (2, 2)]
    assert [t.labels[0] for t in many[1].targets] == ["mat", "film"]
    assert [list(g.named_sources) for g in many] == [["cat"], ["film"]]
    assert [g.messages[0].role for g in many] == ["user", "user"]
    same(many[1], explainer.explain_completion(chat[1], " good film", targets=["mat", "film"], layers=[1, 3],
                                               method="normxlogit"))  # fmt: skip


def test_a_prompt_that_ends_early_is_not_padded_with_tokens_it_did_not_write():
    """One row meets its end-of-sequence token at once, the other never."""
    explainer = explainer_for()
    first = explainer.generate("bad", max_new_tokens=1).token_ids[-1]
    config = GenerationConfig(eos_token_id=[first, 63], pad_token_id=0)
    many = explainer.generate(["bad", PROMPTS[1]], max_new_tokens=5, generation_config=config)
    for found, prompt in zip(many, ["bad", PROMPTS[1]], strict=True):
        alone = explainer.generate(prompt, max_new_tokens=5, generation_config=config)
        assert found.token_ids == alone.token_ids
    assert len(many[0]) == 1
    assert len(many[1]) > 1


@pytest.mark.parametrize("options", [{"repetition_penalty": 1.5}, {"do_sample": True, "top_k": 1}, {"num_beams": 2}])
def test_settings_that_see_padding_are_asked_one_prompt_at_a_time(options, monkeypatch):
    explainer, sizes = explainer_for(), []
    generated = writer._generated
    monkeypatch.setattr(
        writer,
        "_generated",
        lambda model, prompts, *rest: sizes.append(len(prompts)) or generated(model, prompts, *rest),
    )
    many = explainer.generate(PROMPTS, max_new_tokens=4, **options)
    assert sizes == [1] * 4
    alone = explainer_for()
    assert [g.token_ids for g in many] == [alone.generate(p, max_new_tokens=4, **options).token_ids for p in PROMPTS]


def test_a_model_that_sees_padding_gets_prompts_of_one_length_together(monkeypatch):
    explainer, lengths = explainer_for(), []
    generated = writer._generated

    def blind(model, prompts, *rest):
        lengths.append([len(p) for p in prompts])
        return generated(model, prompts, *rest)

    monkeypatch.setattr(writer, "_same_beside", lambda _, ids, length: len(ids) == length)
    monkeypatch.setattr(writer, "_generated", blind)
    many = explainer.generate([*PROMPTS, "good"], max_new_tokens=4)
    assert [len(row) for row in lengths] == [5, 2, 1, 1, 1]
    assert lengths[1] == [1, 1]
    assert many[4].token_ids == explainer_for().generate("good", max_new_tokens=4).token_ids


class Blind(transformers.GPT2LMHeadModel):
    """Attends to padding."""

    def forward(self, input_ids=None, attention_mask=None, **inputs):
        return super().forward(input_ids=input_ids, **inputs)


def test_the_trial_sees_a_model_that_reads_padding():
    model = tiny.model("gpt2", "CausalLM")
    model.__class__ = Blind
    explainer = Explainer(model, tiny.tokenizer_for("gpt2"))
    many = explainer.generate(PROMPTS, max_new_tokens=4)
    assert explainer._model.copy.writes_padded.refuted
    alone = explainer_for("gpt2")
    assert [g.token_ids for g in many] == [alone.generate(p, max_new_tokens=4).token_ids for p in PROMPTS]


def test_encoder_decoder_models_take_prompts_one_after_the_other():
    torch.manual_seed(0)
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"vocab_size": tiny.SIZE, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0, eos_token_id=3)).eval()
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    many = explainer.generate(PROMPTS[:2], max_new_tokens=4)
    for found, prompt in zip(many, PROMPTS[:2], strict=True):
        same(found, explainer.generate(prompt, max_new_tokens=4))
