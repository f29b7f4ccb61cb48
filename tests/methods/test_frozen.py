import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from tests import plain, tiny
from tests.tiny import explainer

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
TEXT = "the movie is mediocre , maybe even bad ."


def without_biases(model):
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias") or any(
                part in name for part in ("position_emb", "token_type", "wpe", "embed_pos")
            ):
                weight.zero_()
    return model


@pytest.mark.parametrize("family", ["bert", "electra", "distilbert"])
def test_without_biases_it_is_decompx(family):
    e = Explainer(without_biases(tiny.model(family)), tiny.tokenizer_for(family))
    ours, theirs = (e(TEXT, method=name, target=ALL).scores for name in ("frozen-gradient:read_at=0", "decompx"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "albert", "xlnet"])
def test_all_layers_are_read_from_one_pass(family):
    e = explainer(family)
    every = e(TEXT, method="frozen-gradient", layers=ALL)
    assert every.layers == (1, 2, 3)
    for place, layer in enumerate(every.layers):
        np.testing.assert_allclose(
            every.scores[place], e(TEXT, method=f"frozen-gradient:read_at={layer}").scores, **CLOSE
        )
    np.testing.assert_allclose(every.scores[1], e(TEXT, method="frozen-gradient:read_at=-1").scores, **CLOSE)
    halfway = e(TEXT, method="frozen-gradient:read_at=middle").scores
    np.testing.assert_allclose(halfway, every.scores[0], **CLOSE)  # of three layers
    half, mean = (e(TEXT, method=f"frozen-gradient:read_at={place}") for place in ("first-half", "all"))
    at_embeddings = 2 * half.scores - every.scores[0]  # of x^0; half of three layers is one
    assert half.scores.sum() + half.bias == pytest.approx(half.prediction.value, abs=1e-4)
    np.testing.assert_allclose(3 * mean.scores, at_embeddings + every.scores[:2].sum(0), atol=1e-5)
    if family == "llama":  # its x^0 is the word embeddings
        words = e(TEXT, method="frozen-gradient:read_at=0").scores
        np.testing.assert_allclose(at_embeddings, words, atol=1e-5)
    assert not np.allclose(at_embeddings, every.scores[0], atol=1e-4)
    assert every.scores[-1].sum() + every.bias[-1] == pytest.approx(every.prediction.value, abs=1e-4)
    assert family == "llama" or abs(every.scores[0].sum() - every.scores[-1].sum()) > 1e-3, "biases are on the way"
    assert not np.allclose(every.scores[0], every.scores[1], atol=1e-4)


@pytest.mark.parametrize(("count", "last"), [(1, 0), (2, 1), (3, 1), (5, 2)])
def test_the_default_is_the_mean_over_the_first_half_of_any_number_of_layers(count, last):
    e = tiny.explainer("llama", num_hidden_layers=count)
    each = [e(TEXT, method=f"frozen-gradient:read_at={layer}").scores for layer in range(count)]
    np.testing.assert_allclose(e(TEXT).scores, np.mean(each[: last + 1], 0), **CLOSE)
    np.testing.assert_allclose(e(TEXT, method="frozen-gradient:read_at=all").scores, np.mean(each, 0), **CLOSE)
    middle = e(TEXT, method=f"frozen-gradient:read_at={count // 2}").scores
    np.testing.assert_allclose(e(TEXT, method="frozen-gradient:read_at=middle").scores, middle, **CLOSE)


@pytest.mark.parametrize("baseline", ["pad", "mask"])
def test_special_tokens_and_the_masked_word_that_is_asked_for_are_their_own_baseline(baseline):
    e = tiny.explainer("bert", "MaskedLM")
    a = e(tiny.MASKED, method=f"frozen-gradient:read_at=0,baseline={baseline}")
    stays = np.array(a.special_tokens_mask) | (np.arange(len(a.tokens)) == a.target.position)
    assert a.tokens[a.target.position] == "[MASK]"
    assert not a.scores[stays].any()
    assert a.scores[~stays].all()


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("point", [0.3, 0.9])
def test_a_point_on_the_path_is_a_text_whose_word_embeddings_are_as_much_smaller(family, point):
    at_point = explainer(family)(TEXT, target=0, method=f"frozen-gradient:read_at=0,point={point}").scores
    smaller = explainer(family)
    with torch.no_grad():
        smaller.model.get_input_embeddings().weight.mul_(point)
    scores = smaller(TEXT, target=0, method="frozen-gradient:read_at=0").scores
    np.testing.assert_allclose(point * at_point, scores, **CLOSE)


@pytest.mark.parametrize("settings", ["", "baseline=pad", "baseline=mask,point=0.5", "point=0.3"])
def test_a_linear_model_gives_its_own_shares_from_every_point(settings):
    model, made = plain.Bag().eval(), tiny.tokenizer_for("bert")
    e = Explainer(model, made, task="sequence-classification", labels=["no", "yes"])
    a = e(TEXT, method=f"frozen-gradient:read_at=0,{settings}".rstrip(","), target="yes")
    ids = torch.tensor(a.token_ids)
    shares = model.shares(ids)
    if "baseline" in settings:
        filler = made.pad_token_id if "pad" in settings else made.mask_token_id
        shares = model.shares(ids, filler) * ~torch.tensor(a.special_tokens_mask)[:, None]
    np.testing.assert_allclose(a.scores, shares[:, 1], **CLOSE)


@pytest.mark.parametrize(
    ("family", "settings"),
    [("llama", ""), ("gpt2", ""), ("llama", ":read_at=0"), ("llama", ":read_at=-1"), ("gpt2", ":read_at=0,point=0.3")],
)
def test_a_completion_from_one_pass_is_token_by_token(family, settings):
    e, method = explainer(family, "CausalLM"), f"frozen-gradient{settings}"
    g = e.explain_completion("the movie is", " very good and", method=method, contrast=7)
    for index in range(len(g)):
        own = g[index]
        ids = {"input_ids": torch.tensor([own.token_ids])}
        alone = e(ids, method=method, target=own.target.id, contrast=7)[0]
        np.testing.assert_allclose(own.scores, alone.scores, rtol=1e-3, atol=1e-5)
        assert own.bias == pytest.approx(alone.bias, rel=1e-3, abs=1e-4)
