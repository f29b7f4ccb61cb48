import pytest
import transformers

from normxlogit import Explainer
from tests import tiny
from tests.pipeline.test_completion import explainer_for

PROMPTS = ["once upon a time", "the cat sat on the mat and the movie is good", "bad", "a film with charm and wit"]


@pytest.mark.parametrize(
    "options",
    [{"repetition_penalty": 1.5}, {"repetition_penalty": 0.5}, {"do_sample": True, "top_k": 1}, {"num_beams": 2}],
)
def test_settings_that_see_padding_are_asked_one_prompt_at_a_time(options, monkeypatch):
    explainer, sizes = explainer_for(), []
    generate = transformers.LlamaForCausalLM.generate

    def counted(model, *, input_ids, **inputs):
        sizes.append(len(input_ids))
        return generate(model, input_ids=input_ids, **inputs)

    monkeypatch.setattr(transformers.LlamaForCausalLM, "generate", counted)
    many = explainer.generate(PROMPTS, max_new_tokens=4, **options)
    assert sizes == [1] * 4
    alone = explainer_for()
    assert [g.token_ids for g in many] == [alone.generate(p, max_new_tokens=4, **options).token_ids for p in PROMPTS]


class Blind(transformers.GPT2LMHeadModel):
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
