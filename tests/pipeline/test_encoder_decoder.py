import functools

import numpy as np
import pytest
import torch
import transformers
from transformers.models.t5 import modeling_t5

from normxlogit import DataError, Explainer, MethodError
from normxlogit.methods import FrozenGradient
from tests import tiny
from tests.autograd import hold_factors
from tests.contract.compare import total
from tests.tasks.test_seq2seq import CONFIGS, writer

DOCUMENT = "The movie is good. The cat sat on the mat. A plot with charm!"
ANSWER = "the cat sat"
FAMILIES = ("t5", "bart")


OTHERS = {
    "m2m_100": {},  # positions by token ids
    "led": {"attention_window": [4, 4], "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    "longt5": {"d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "local_radius": 4},
}
"""Of other kinds of positions and attention."""


@functools.cache
def shared(family):
    return explainer_for(family)


def explainer_for(family):
    tokenizer = tiny.tokenizer()
    tokenizer.model_max_length = 40
    if family in FAMILIES:
        return Explainer(writer(family), tokenizer)
    torch.manual_seed(0)
    settings = CONFIGS["bart" if family != "longt5" else "t5"] | {"max_position_embeddings": 64} | OTHERS[family]
    config = transformers.AutoConfig.for_model(family, **settings)
    return Explainer(transformers.AutoModelForSeq2SeqLM.from_config(config).eval(), tokenizer)


def logits_of(explainer, source, written):
    ids = torch.tensor([list(source)])
    with torch.inference_mode():
        return explainer._model.caller_model(input_ids=ids, decoder_input_ids=torch.tensor([written])).logits[0]


def split(g):
    """Return the token ids of the source and what the decoder read and wrote."""
    start = g.prompt_tokens - 1
    return g.token_ids[:start], list(g.token_ids[start:])


@pytest.mark.parametrize("method", ["frozen-gradient", "frozen-gradient:read_at=middle", "frozen-gradient:read_at=-1"])
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_shares_of_source_and_completion_and_the_bias_are_the_models_own_logits(family, method):
    explainer = shared(family)
    g = explainer.explain_completion(DOCUMENT, ANSWER, method=method)
    source, written = split(g)
    assert list(source) == tiny.tokenizer()(DOCUMENT).input_ids
    logits = logits_of(explainer, source, written)
    assert g.scores.shape == (len(written) - 1, len(source) + len(written))
    for row, scores in enumerate(g.scores):
        own = logits[row, written[row + 1]]
        assert scores.sum() + g.bias[row] == pytest.approx(float(own - logits[row].mean()), abs=1e-4)
        assert g.generated[row].value == pytest.approx(float(own), abs=1e-4)
        assert (scores[len(source) + row + 1 :] == 0).all()
        assert (scores[: len(source)] != 0).all()
    assert g.text == f"{DOCUMENT}\n{g.completion}"
    assert g.tokens[g.prompt_tokens - 1] == "[CLS]"
    assert g.special_tokens_mask[g.prompt_tokens - 1]


def held_rms(self, x):
    return self.weight * (x * (x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).rsqrt().detach())


@pytest.mark.parametrize(("contrast", "layer"), [(None, 0), (tiny.VOCABULARY["mat"], 0), (None, 1)])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_autograd_on_the_callers_model_with_norms_and_attention_held(
    family, contrast, layer, monkeypatch
):
    explainer = explainer_for(family)
    model = explainer._model.caller_model
    for module in model.modules():
        if hasattr(module, "activation_fn"):
            module.activation_fn = torch.nn.ReLU()  # whose slope times its input is its output
    g = explainer.explain_completion(DOCUMENT, ANSWER, contrast=contrast, method=FrozenGradient(read_at=layer))
    source, written = split(g)
    model.set_attn_implementation("eager")
    hold_factors(monkeypatch)
    monkeypatch.setattr(modeling_t5.T5LayerNorm, "forward", held_rms)
    table = model.get_encoder().get_input_embeddings()
    given = table(torch.tensor([list(source)])).detach().requires_grad_()
    own = table(torch.tensor([written])).detach().requires_grad_()
    output = model(inputs_embeds=given, decoder_inputs_embeds=own, use_cache=False, output_hidden_states=True)
    logits, read = output.logits[0], [given, *output.encoder_hidden_states[1:]][layer]
    for row, scores in enumerate(g.scores):  # one backward pass for each token that was written
        other = logits[row].mean() if contrast is None else logits[row, g.targets[row].contrast_id]
        answer = logits[row, written[row + 1]] - other
        slopes = torch.autograd.grad(answer, [read, own], retain_graph=True)
        wanted = torch.cat([(s * x)[0].sum(-1).detach() for s, x in zip(slopes, (read, own), strict=True)])
        np.testing.assert_allclose(scores, wanted, atol=1e-4)
        if family == "t5":  # which has no biases
            assert g.bias[row] == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_leaving_out_a_source_takes_its_tokens_from_the_encoder(family):
    explainer = shared(family)
    cited = explainer.cite("is this good?", {"a": DOCUMENT}, max_new_tokens=6, method="occlusion")
    prompt = cited.text[: len(cited.text) - len(cited.answer) - 1]
    tokenizer = tiny.tokenizer()
    read = tokenizer(prompt, return_offsets_mapping=True)
    g = explainer.generate(prompt, max_new_tokens=6)
    written = split(g)[1]
    count = len(written) - 1 - sum(g.special_tokens_mask[g.prompt_tokens :])

    def said(kept):
        logits = logits_of(explainer, kept, written).log_softmax(-1)
        return sum(float(logits[k, written[k + 1]]) for k in range(count))

    assert not any(g.special_tokens_mask[g.prompt_tokens : g.prompt_tokens + count])
    whole = said(read.input_ids)
    for score, (start, end) in zip(cited.attribution.whole().scores, cited.spans, strict=True):
        out = [not start <= a < b <= end for a, b in read.offset_mapping]
        left = [i for i, there in zip(read.input_ids, out, strict=True) if there]
        assert score == pytest.approx(whole - said(left), abs=1e-3)
    assert explainer.language_model.copy.padding  # sources of several lengths were read together


def test_what_scores_the_decoder_alone_says_so_and_has_no_sources():
    explainer = shared("t5")
    g = explainer.explain_completion(DOCUMENT, ANSWER, method="normxlogit")
    assert g.prompt_tokens == 1
    with pytest.raises(DataError, match=r"no source.*never reach the head.*frozen-gradient"):
        g.sources("sentence")
    with pytest.raises(MethodError, match=r"normxlogit does not score the source.*frozen-gradient"):
        explainer.cite("is this good?", {"a": DOCUMENT}, max_new_tokens=4, method="normxlogit")
    with pytest.raises(MethodError, match=r"gradient-x-input backpropagates.*frozen-gradient"):
        explainer.explain_completion(DOCUMENT, ANSWER, method="gradient-x-input")


@pytest.mark.parametrize("way", ["the model's settings", "an option", "a configuration of the call"])
def test_what_is_explained_begins_with_the_token_that_generate_begins_with(way):
    """As the languages of mBART, M2M and NLLB are chosen."""
    explainer = explainer_for("t5")
    model, options = explainer.model, {}
    if way == "the model's settings":
        model.generation_config.decoder_start_token_id = 9
        assert split(explainer.explain_completion(DOCUMENT, ANSWER))[1][0] == 9
    elif way == "an option":
        options = {"decoder_start_token_id": 9}
    else:
        options = {"generation_config": transformers.GenerationConfig(decoder_start_token_id=9, pad_token_id=0)}
    g = explainer.generate(DOCUMENT, max_new_tokens=2, **options)
    source, decoder = split(g)
    own = model.generate(torch.tensor([list(source)]), max_new_tokens=2, do_sample=False, **options)
    assert decoder == own[0].tolist()
    assert decoder[0] == 9
    logits = logits_of(explainer, source, decoder)[:-1]
    expected = logits.gather(1, torch.tensor(decoder[1:])[:, None])[:, 0] - logits.mean(-1)
    np.testing.assert_allclose(total(g), expected, atol=1e-3)


def test_words_that_the_decoder_is_given_are_of_the_prompt():
    given = torch.tensor([[tiny.VOCABULARY["[CLS]"], tiny.VOCABULARY["movie"]]])
    g = shared("bart").generate(DOCUMENT, max_new_tokens=4, decoder_input_ids=given)
    assert g.tokens[g.prompt_tokens - 2 : g.prompt_tokens] == ("[CLS]", "movie")
    assert g.text == f"{DOCUMENT}\n{g.completion}"
    assert len(g.completion.split()) == 4
