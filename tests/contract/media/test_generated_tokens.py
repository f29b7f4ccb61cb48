"""What a model that reads its prompt as a whole is told of generated tokens: the prompt never reads its answer."""

import numpy as np
import pytest
import torch
from transformers import GenerationMixin

from normxlogit import Explainer
from normxlogit.errors import UnsupportedModelError
from tests.abilities import TOLD_APART, needs
from tests.media import vlm
from tests.media.multimodal import QUESTION

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PaliGemma's processor


def generated(made, messages):
    """The tokens that the own model generates, and what is explained of its logits."""
    template = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, "return_tensors": "pt"}
    inputs = made.processor.apply_chat_template(messages, **template)
    out = made.model.generate(
        **inputs, max_new_tokens=3, do_sample=False, output_logits=True, return_dict_in_generate=True
    )
    ids = out.sequences[0, inputs["input_ids"].shape[1] :]
    return ids.tolist(), vlm.explained(torch.cat(out.logits), ids)


def total(g):
    return g.scores.sum(-1) + g.bias + (0 if g.sink is None else g.sink)


def continues_with_the_last_type(model):
    """Generation tells the model as transformers before 5.20 does: a generated token has the prompt's last type."""
    model._update_model_kwargs_for_generation = GenerationMixin._update_model_kwargs_for_generation.__get__(model)


@needs(TOLD_APART)
@pytest.mark.parametrize("older", [False, True], ids=["installed", "older"])
def test_the_prompt_does_not_read_the_answer_whatever_generate_says_of_it(older):
    made = vlm.paligemma()
    if older:
        continues_with_the_last_type(made.model)
    messages = vlm.question(vlm.picture(), text=QUESTION)
    ids, expected = generated(made, messages)
    g = Explainer(*made).generate(messages, max_new_tokens=3, method="frozen-gradient:read_at=0")
    assert [*g.token_ids][g.prompt_tokens :] == ids
    np.testing.assert_allclose(total(g), expected, atol=1e-4 * np.abs(expected).max())


@needs(TOLD_APART)
def test_a_model_whose_prompt_reads_the_answer_whatever_it_is_told_is_refused():
    made = vlm.paligemma()

    def forget_types(module, args, inputs):
        return args, {**inputs, "token_type_ids": torch.zeros_like(inputs["token_type_ids"])}

    made.model.model.register_forward_pre_hook(forget_types, with_kwargs=True)
    with pytest.raises(UnsupportedModelError, match="token_type_ids"):
        Explainer(*made).generate(vlm.question(vlm.picture(), text=QUESTION), max_new_tokens=3)


def test_a_model_whose_prompt_reads_the_answer_and_that_is_told_nothing_is_refused():
    made = vlm.llava()
    for layer in made.model.model.language_model.layers:
        layer.self_attn.is_causal = False
    with pytest.raises(UnsupportedModelError, match="nothing"):
        Explainer(*made).generate(vlm.question(vlm.picture(), text=QUESTION), max_new_tokens=3)


def test_a_cache_that_answers_otherwise_than_a_pass_is_refused():
    made = vlm.paligemma()  # without a picture it reads the whole text both ways, and the cache what came before
    with pytest.raises(UnsupportedModelError, match="generate"):
        Explainer(*made).generate("the cat is", max_new_tokens=3)
