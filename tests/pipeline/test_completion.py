import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer, TargetError
from tests import tiny

PROMPT = "once upon a time"


def explainer_for(family="llama"):
    return tiny.explainer(family, "CausalLM")


@pytest.mark.parametrize("family", tiny.CAUSAL_LMS)
def test_the_array_equals_a_loop_over_prefixes_and_tokens(family):
    """Each score is the norm of the token's embedding times the model's own logit there, given the prefix alone."""
    model = tiny.model(family, "CausalLM")
    found = explainer_for(family).generate(PROMPT, max_new_tokens=7, method="normxlogit")
    ids, expected = list(found.token_ids), np.zeros(found.scores.shape)
    for row, place in enumerate(range(found.prompt_tokens, len(ids))):
        with torch.inference_mode():
            out = model(torch.tensor([ids[:place]]), output_hidden_states=True, use_cache=False)
            first = out.hidden_states[0][0]  # (T, H)
            if family == "mamba":  # its hidden states begin after the first layer
                first = model.backbone.embeddings(torch.tensor(ids[:place]))
        for i in range(place):
            expected[row, i] = first[i].norm() * out.logits[0, i, ids[place]]
    np.testing.assert_allclose(found.scores, expected, rtol=2e-3, atol=1e-3)


def test_one_token_is_a_result_of_its_own():
    explainer = explainer_for()
    found = explainer.explain_completion(PROMPT, " the cat sat", method="normxlogit")
    alone = explainer(PROMPT + " the", target="cat", method="normxlogit")
    one = found[1]
    assert one == found[-2]
    assert one.tokens == alone.tokens
    assert one.target == alone.target
    np.testing.assert_allclose(one.scores, alone.scores, rtol=1e-4, atol=1e-4)
    assert one.prediction.id == alone.prediction.id
    assert one.text == PROMPT + " the "
    with pytest.raises(TargetError, match="no target 3"):
        found[3]


def test_a_model_that_reads_ahead_is_explained_one_token_after_the_other():
    model = tiny.model("bert", "CausalLM")
    found = Explainer(model, tiny.tokenizer(specials=False)).explain_completion(PROMPT, " the cat sat")
    for g, said in enumerate(found.generated):
        logits = tiny.logits_of(model, found.token_ids[: found.prompt_tokens + g])[-1]
        assert said.value == pytest.approx(logits[said.id].item(), abs=1e-4)
        assert said.id == found.token_ids[found.prompt_tokens + g]
    assert [t.position for t in found.targets] == [3, 4, 5]


def test_a_prompt_ends_without_the_token_that_closes_texts():
    explainer = Explainer(tiny.model("bert", "CausalLM", is_decoder=True), tiny.tokenizer())
    found = explainer.explain_completion(PROMPT, " the cat")
    assert found.tokens == ("[CLS]", "once", "upon", "a", "time", "the", "cat")
    assert found.special_tokens_mask[0]
    nothing = explainer.explain_completion("", "the cat")
    assert nothing.tokens == ("[CLS]", "the", "cat")
    assert nothing.scores[0, 0] != 0


def test_a_model_whose_own_settings_sample_writes_greedily_all_the_same():
    model = tiny.model("llama", "CausalLM")
    wanted = model.generate(torch.tensor([[5, 6]]), max_new_tokens=6, do_sample=False)[0].tolist()
    model.generation_config.do_sample, model.generation_config.temperature = True, 50.0
    found = Explainer(model, tiny.tokenizer_for("llama")).generate("the a", max_new_tokens=6)
    assert list(found.token_ids) == wanted


@pytest.mark.parametrize(
    "prompt", ["the cat sat", [{"role": "user", "content": "the cat sat"}]], ids=["text", "messages"]
)
def test_words_of_a_prompt_are_left_out_by_their_number_or_their_names(prompt):
    explainer = tiny.writer(template=tiny.CHAT_TEMPLATE)
    a = explainer.explain_completion(prompt, "bad movie", verify=["cat"])
    (removal,) = a.verified.single
    assert [a.tokens[token] for token in removal.tokens] == ["cat"]
    assert len(explainer.explain_completion(prompt, "bad movie", verify=2).verified.single) == 2


def test_of_several_layers_the_last_one_says_which_words_are_left_out():
    a = tiny.writer().explain_completion(
        "the movie is not good but maybe bad", "bad movie", method="frozen-gradient", layers=ALL, verify=2
    )
    of_layers = [a.layer(layer).whole().scores[: a.prompt_tokens] for layer in a.layers]
    removed = {token for removal in a.verified.single for token in removal.tokens}
    first_two = [set(np.argsort(-scores)[:2]) for scores in of_layers]
    assert [removed == words for words in first_two] == [False, False, True]
