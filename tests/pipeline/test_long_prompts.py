"""Long prompts in bounded memory, grouped heads, sliding windows, quantised weights: the same scores, or an error."""

import warnings

import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer, UnsupportedModelError
from normxlogit.frozen import frozen_model, places
from normxlogit.frozen.places import Place
from normxlogit.model.task_model import TaskModel
from tests import tiny
from tests.autograd import shapes_kept

PROMPT = "once upon a time the cat sat on the mat and the movie is good"
AFTER = " but the film was bad"
SIZES = {"vocab_size": tiny.SIZE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
WINDOW = SIZES | {"intermediate_size": 48, "num_key_value_heads": 2, "sliding_window": 4} | tiny.IDS


def mistral(**options):
    return tiny.random_model(transformers.MistralForCausalLM, transformers.MistralConfig(**WINDOW | options))


MODELS = {family: (lambda f=family: tiny.model(f, "CausalLM")) for family in ("llama", "gpt2", "opt", "mamba")}
MODELS |= {"mistral": mistral, "gemma2": lambda: tiny.model("gemma2", "CausalLM", sliding_window=4)}


def explainer_for(name):
    return Explainer(MODELS[name](), tiny.tokenizer_for("llama"))


@pytest.mark.parametrize("method", ["frozen-gradient", "frozen-gradient:read_at=-1"])
@pytest.mark.parametrize("name", MODELS)
def test_layers_that_run_again_give_the_same_scores(name, method, monkeypatch):
    plain = explainer_for(name).explain_completion(PROMPT, AFTER, method=method)
    monkeypatch.setattr(frozen_model.FrozenModel, "tokens_kept", 1)
    spared = explainer_for(name).explain_completion(PROMPT, AFTER, method=method)
    scale = np.abs(plain.scores).max()
    np.testing.assert_allclose(spared.scores, plain.scores, atol=1e-5 * scale)
    np.testing.assert_allclose(spared.bias, plain.bias, atol=1e-4, rtol=1e-4)


def test_only_what_layers_are_given_is_kept(monkeypatch):
    def kept(long):
        monkeypatch.setattr(frozen_model.FrozenModel, "tokens_kept", long)
        explainer = explainer_for("llama")
        model = explainer._model
        frozen, batch = frozen_model.FrozenModel.of(model), model.batch(explainer.encode([PROMPT]), [0])
        model.prepare(batch)
        frozen.run(batch, Place.of_text([0]))  # proved, which keeps everything
        with shapes_kept(explainer.model.parameters()) as shapes:
            frozen.run(batch, Place.of_text([0]))
        return sum(shape.numel() for shape in shapes)

    assert kept(1) < kept(10_000) / 6


def test_no_logits_of_all_explained_tokens_are_kept():
    explainer, tokens = explainer_for("llama"), [5, 6, 7] * 6
    with shapes_kept(explainer.model.parameters()) as shapes:
        explainer.explain_completion(PROMPT, tokens)
    rows = [shape[:-1].numel() for shape in shapes if shape[-1:] == (explainer.model.config.vocab_size,)]
    assert max(rows, default=0) <= 8


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_a_long_prompt_is_proved_on_its_beginning(name, monkeypatch):
    def explainer():
        return explainer_for(name) if name != "t5" else tiny.explainer("t5", "Seq2SeqLM")

    whole = explainer().explain_completion(PROMPT, AFTER)
    monkeypatch.setattr(places, "PROOF_TOKENS", 4)
    read, answer = [], TaskModel.answer

    def noted(self, inputs, *args, **options):
        read.extend(value.shape[1] for value in inputs.values())
        return answer(self, inputs, *args, **options)

    monkeypatch.setattr(TaskModel, "answer", noted)
    assert explainer().explain_completion(PROMPT, AFTER) == whole
    assert set(read) == {4}


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_grouped_heads_and_windows_are_frozen_alike_by_both_kernels(name):
    model = MODELS[name]()
    found = {}
    for kernel in ("eager", "sdpa"):
        model.set_attn_implementation(kernel)
        found[kernel] = Explainer(model, tiny.tokenizer_for("llama")).explain_completion(PROMPT, AFTER)
    scale = np.abs(found["eager"].scores).max()
    np.testing.assert_allclose(found["sdpa"].scores, found["eager"].scores, atol=1e-4 * scale)
    one = found["eager"]
    totals = one.scores.sum(-1) + one.bias
    logits = tiny.logits_of(model, one.token_ids)
    for g, total in enumerate(totals):
        place = one.prompt_tokens + g
        wanted = logits[place - 1, one.token_ids[place]] - logits[place - 1].mean()
        assert total == pytest.approx(float(wanted), abs=1e-3)


def quantised(family, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(tiny.model(family, kind), {torch.nn.Linear}, dtype=torch.qint8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["frozen-gradient", "frozen-gradient:read_at=-1", "gradient-x-input", "guided-lime"])
def test_no_gradient_is_made_up_where_none_flows(method):
    explainer = Explainer(quantised("bert", "SequenceClassification"), tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="no gradient flows through"):
        explainer("the movie is good", method=method)
    only_head = Explainer(quantised("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2"))
    with pytest.raises(UnsupportedModelError, match="no gradient flows through"):
        only_head.explain_completion("the cat sat", " on", method=method)


@pytest.mark.filterwarnings("ignore")
def test_quantised_models_are_explained_one_text_at_a_time():
    """Activations are quantised by the largest of a whole batch, so that texts would change each other's scores."""
    model, texts = quantised("bert", "SequenceClassification"), ["the movie is good", "a cat is bad"]
    many = Explainer(model, tiny.tokenizer_for("bert"))(texts)
    for found, text in zip(many, texts, strict=True):
        alone = Explainer(model, tiny.tokenizer_for("bert"))(text)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-5)
    writer = Explainer(quantised("llama", "CausalLM"), tiny.tokenizer_for("llama"))
    with pytest.raises(UnsupportedModelError, match="quantises"):
        writer.explain_completion(PROMPT, AFTER, method="normxlogit")
