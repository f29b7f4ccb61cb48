import numpy as np
import pytest
import torch

from normxlogit import Explainer, HeadMismatchError, InputError, MethodError
from tests import tiny
from tests.pipeline.test_completion_batches import PROMPTS

KEEP = {"return_dict_in_generate": True, "output_hidden_states": True, "output_logits": True, "do_sample": False}


def written(family="llama", prompts=PROMPTS, **options):
    model, tokenizer = tiny.model(family, "CausalLM"), tiny.tokenizer_for(family)
    tokenizer.padding_side = "left"
    inputs = tokenizer(prompts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        outputs = model.generate(**inputs, **KEEP | {"max_new_tokens": 5} | options)
    return model, tokenizer, inputs, outputs


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2"])
@pytest.mark.parametrize("method", ["normxlogit", "logat"])
def test_the_states_of_a_generation_give_what_a_pass_gives(family, method, monkeypatch):
    model, tokenizer, inputs, outputs = written(family)
    explainer = Explainer(model, tokenizer)
    explainer.generate("bad", max_new_tokens=2)  # the head is proved
    monkeypatch.setattr(type(explainer._model), "run", None)
    many = explainer.from_outputs(inputs, outputs, method=method)
    monkeypatch.undo()
    for found, prompt in zip(many, PROMPTS, strict=True):
        alone = explainer.generate(prompt, max_new_tokens=5, method=method)
        assert found.token_ids == alone.token_ids
        assert (found.completion, found.prompt) == (alone.completion, alone.prompt)
        assert [word.text for word in found.words()] == [word.text for word in alone.words()]
        np.testing.assert_allclose(found.scores, alone.scores, atol=2e-3)
        assert [p.id for p in found.predictions] == [p.id for p in alone.predictions]


def test_outputs_that_do_not_fit_are_refused():
    model, tokenizer, inputs, outputs = written()
    explainer = Explainer(model, tokenizer)
    with pytest.raises(MethodError, match="pass of its own"):
        explainer.from_outputs(inputs, outputs, method="frozen-gradient")
    *_, several = written(do_sample=True, num_return_sequences=2)
    with pytest.raises(InputError, match="each given as often as it has sequences"):
        explainer.from_outputs(inputs, several)
    repeated = {name: values.repeat_interleave(2, 0) for name, values in inputs.items()}
    assert len(explainer.from_outputs(repeated, several)) == 2 * len(PROMPTS)
    with pytest.raises(InputError, match="output_logits=True"):
        explainer.from_outputs(inputs, {"sequences": outputs.sequences})
    with pytest.raises(InputError, match="begin with these inputs"):
        explainer.from_outputs({"input_ids": inputs["input_ids"].flip(0)}, outputs)
    with pytest.raises(InputError, match="beams"):
        explainer.from_outputs(inputs, outputs | {"hidden_states": outputs.hidden_states[:-1]})
    for place, error, says in (
        (3, HeadMismatchError, "differ from these outputs"),
        (0, InputError, "do not come from these inputs"),
    ):
        steps = [tuple(state + (i == place) for i, state in enumerate(step)) for step in outputs.hidden_states]
        with pytest.raises(error, match=says):
            explainer.from_outputs(inputs, outputs | {"hidden_states": tuple(steps)})
