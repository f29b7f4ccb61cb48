"""Prompt tuning, p-tuning and prefix tuning: the scores are those of the caller's own `PeftModel`, as it answers."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from normxlogit import ALL, Explainer, UnsupportedModelError
from tests import tiny
from tests.contract.compare import total

peft = pytest.importorskip("peft")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),  # peft's calls
    pytest.mark.filterwarnings("ignore:Position ids are not supported:UserWarning"),
]

COUNT = 4
CONFIGS = {
    "prompt": (peft.PromptTuningConfig, {}),
    "p-tuning": (peft.PromptEncoderConfig, {"encoder_hidden_size": 16}),
    "lstm": (peft.PromptEncoderConfig, {"encoder_hidden_size": 16, "encoder_reparameterization_type": "LSTM"}),
    "prefix": (peft.PrefixTuningConfig, {}),
    "projected prefix": (peft.PrefixTuningConfig, {"encoder_hidden_size": 16, "prefix_projection": True}),
}
TASKS = {"SequenceClassification": "SEQ_CLS", "CausalLM": "CAUSAL_LM", "TokenClassification": "TOKEN_CLS"}
MODELS = [
    ("bert", "SequenceClassification"),
    ("roberta", "SequenceClassification"),
    ("gpt2", "SequenceClassification"),
    ("llama", "CausalLM"),
    ("gemma2", "CausalLM"),
    ("opt", "CausalLM"),
]
BOTH = [("bert", "SequenceClassification"), ("llama", "CausalLM")]
TEXT = tiny.TEXTS[2]


def tuned(family, kind, how, count=COUNT, base=None, **options):
    """A random model with virtual tokens that have learned something."""
    config, settings = CONFIGS[how]
    base = tiny.model(family, kind, **options) if base is None else base
    torch.manual_seed(0)
    model = peft.get_peft_model(base, config(task_type=TASKS[kind], num_virtual_tokens=count, **settings)).eval()
    with torch.no_grad():
        for weight in model.prompt_encoder.parameters():
            weight.normal_(std=0.5)
    return model


def inputs_of(family, text=TEXT):
    ids = torch.tensor([tiny.tokenizer_for(family)(text)["input_ids"]])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def answer(model, inputs):
    """The own answer to a text: the logits of the labels, or of the last token minus their mean."""
    logits = model(**inputs).logits[0]
    return logits if logits.ndim == 1 else logits[-1] - logits[-1].mean()


def of_text(a, how):
    """The scores of the text's own tokens."""
    return a.scores[..., 0 if "prefix" in how else COUNT :]


@pytest.fixture
def held(monkeypatch):
    """Hold attention, denominators and activation ratios of any model in torch's own functions."""
    softmax, gelu, tanh = F.softmax, F.gelu, torch.tanh

    def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
        scale = (x.var(-1, correction=0, keepdim=True) + eps).rsqrt().detach()
        return (x - x.mean(-1, keepdim=True)) * scale * weight + bias

    def hold():
        monkeypatch.setattr(F, "softmax", lambda *args, **options: softmax(*args, **options).detach())
        monkeypatch.setattr(F, "layer_norm", layer_norm)
        monkeypatch.setattr(F, "gelu", lambda x, *args: x * (gelu(x) / x).detach())
        monkeypatch.setattr(torch, "tanh", lambda x: x * (tanh(x) / x).detach())

    return hold


@pytest.mark.parametrize("how", CONFIGS)
@pytest.mark.parametrize(("family", "kind"), MODELS)
def test_scores_add_up_to_the_own_logit_of_the_wrapped_model(family, kind, how):
    model = tuned(family, kind, how)
    explainer = Explainer(model, tiny.tokenizer_for(family))
    with torch.no_grad():
        own = answer(model, inputs_of(family))
    for options in ({}, {"method": "frozen-gradient:read_at=0"}, {"layers": ALL}):
        a = explainer(TEXT, **options)
        np.testing.assert_allclose(total(a), float(own[a.targets[0].id]), rtol=1e-4, atol=1e-5)
    a = explainer(TEXT)
    assert a.targets[0].id == int(own.argmax())
    virtual = 0 if "prefix" in how else COUNT
    assert len(a.tokens) == virtual + inputs_of(family)["input_ids"].shape[1]
    assert a.special_tokens_mask[:virtual] == (True,) * virtual
    assert [a.text[start:end] for start, end in a.offsets[:virtual]] == [""] * virtual
    assert sum("4 virtual tokens of the adapter precede the text" in note for note in a.notes) == 1


@pytest.mark.parametrize("how", CONFIGS)
def test_scores_are_gradients_of_the_own_model_with_factors_held(held, how):
    options = {"attn_implementation": "eager", "hidden_act": "gelu"}
    model = tuned("bert", "SequenceClassification", how, **options)
    a = Explainer(model, tiny.tokenizer_for("bert"))(TEXT, method="frozen-gradient:read_at=0", target=0)
    held()
    model = tuned("bert", "SequenceClassification", how, **options)  # its activations are looked up anew
    inputs = inputs_of("bert")
    vectors = model.word_embeddings(inputs["input_ids"]).detach().requires_grad_()
    prompts = None
    if "prefix" not in how:
        prompts = model.get_prompt(1)
        prompts.retain_grad()
        model.get_prompt = lambda **_: prompts
    model(inputs_embeds=vectors, attention_mask=inputs["attention_mask"]).logits[0, 0].backward()
    np.testing.assert_allclose(of_text(a, how), (vectors.grad * vectors).sum(-1)[0].detach(), rtol=1e-3, atol=1e-5)
    if prompts is not None:
        wanted = (prompts.grad * prompts).sum(-1)[0].detach()
        np.testing.assert_allclose(a.scores[:COUNT], wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("how", CONFIGS)
@pytest.mark.parametrize(("family", "kind"), BOTH)
def test_other_methods_and_removals_are_those_of_the_own_model(family, kind, how):
    model = tuned(family, kind, how)
    explainer, inputs = Explainer(model, tiny.tokenizer_for(family)), inputs_of(family)
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    plain = model.get_base_model()
    target = 1

    a = explainer(TEXT, method="normxlogit", target=target)
    norms, last = out.hidden_states[0][0].norm(dim=-1), out.hidden_states[-1][0]  # (T,), (T, H)
    with torch.no_grad():
        if kind == "CausalLM":
            logits = plain.lm_head(last)[:, target]  # (T,)
        else:
            logits = plain.classifier(plain.bert.pooler(last[:, None]))[:, target]  # each token as a text of its own
    np.testing.assert_allclose(a.scores, norms * logits, rtol=1e-4, atol=1e-5)

    a = explainer(TEXT, method="gradient-x-input", target=target)
    vectors = model.word_embeddings(inputs["input_ids"]).detach().requires_grad_()
    answer(model, {"inputs_embeds": vectors, "attention_mask": inputs["attention_mask"]})[target].backward()
    wanted = (vectors.grad * vectors).sum(-1)[0].detach()
    np.testing.assert_allclose(of_text(a, how), wanted, rtol=1e-3, atol=1e-5)

    verified = explainer(TEXT, verify=2).verified
    for removal in verified.single:
        virtual = 0 if "prefix" in how else COUNT
        kept = [i for i in range(inputs["input_ids"].shape[1]) if i + virtual not in removal.tokens]
        with torch.no_grad():
            own = answer(model, {name: value[:, kept] for name, value in inputs.items()})
        assert removal.prediction.id == int(own.argmax())
        assert removal.prediction.probability == pytest.approx(float(own.softmax(-1).max()), rel=1e-4)


@pytest.mark.parametrize("how", ["prompt", "p-tuning", "prefix"])
@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
def test_completions_are_the_own_ones_and_add_up(family, how):
    model, tokenizer = tuned(family, "CausalLM", how), tiny.tokenizer_for(family)
    explainer, inputs = Explainer(model, tokenizer), inputs_of(family, tiny.TEXTS[0])
    for options in ({}, {"repetition_penalty": 1.5}):
        g = explainer.generate(inputs, max_new_tokens=5, **options)[0]
        with torch.no_grad():
            written = model.generate(**inputs, max_new_tokens=5, do_sample=False, pad_token_id=0, **options)
        own = written[0, inputs["input_ids"].shape[1] :].tolist()
        assert [target.id for target in g.targets] == own
        with torch.no_grad():
            logits = model(input_ids=written, attention_mask=torch.ones_like(written)).logits[0, -len(own) - 1 : -1]
        wanted = logits.gather(1, torch.tensor(own)[:, None])[:, 0] - logits.mean(-1)
        np.testing.assert_allclose(total(g), wanted, rtol=1e-4, atol=1e-5)
    again = explainer.explain_completion(inputs, [own])[0]
    np.testing.assert_allclose(again.scores, g.scores, rtol=1e-4, atol=1e-5)
    together = explainer.generate(tiny.TEXTS, max_new_tokens=3)
    for g, prompt in zip(together, tiny.TEXTS, strict=True):
        alone = explainer.generate(prompt, max_new_tokens=3)
        assert g.completion == alone.completion
        np.testing.assert_allclose(g.scores, alone.scores, rtol=1e-4, atol=1e-5)


def test_an_adapter_is_followed_while_it_changes():
    model, tokenizer = tuned("llama", "CausalLM", "prompt"), tiny.tokenizer_for("llama")
    explainer = Explainer(model, tokenizer)
    first = explainer(TEXT)
    with torch.no_grad():
        model.prompt_encoder["default"].embedding.weight.mul_(2)
        own = answer(model, inputs_of("llama"))
    trained = explainer(TEXT)
    assert total(trained) == pytest.approx(float(own[trained.targets[0].id]), rel=1e-4)
    assert np.abs(trained.scores - first.scores).max() > 1e-3
    with model.disable_adapter():
        disabled = explainer(TEXT)
    plain = Explainer(model.get_base_model(), tokenizer)(TEXT)
    np.testing.assert_allclose(disabled.scores, plain.scores, atol=1e-6)
    assert disabled.notes == plain.notes
    model.add_adapter("other", peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    model.set_adapter("other")
    assert len(explainer(TEXT).tokens) == len(plain.tokens) + 2
    model.set_adapter("default")
    np.testing.assert_allclose(explainer(TEXT).scores, trained.scores, atol=1e-6)


@pytest.mark.parametrize("method", ["alti", "decompx", "globenc", "attention-rollout", "value-zeroing"])
def test_what_shares_attention_out_among_tokens_needs_tokens_for_all_of_it(method):
    explainer = Explainer(tuned("bert", "SequenceClassification", "prefix"), tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="attend to keys and values that are no tokens"):
        explainer(TEXT, method=method)
    model = tuned("bert", "SequenceClassification", "prompt")
    a = Explainer(model, tiny.tokenizer_for("bert"))(TEXT, method=method)
    assert len(a.scores) == COUNT + inputs_of("bert")["input_ids"].shape[1]
    if method == "decompx":
        with torch.no_grad():
            assert total(a) == pytest.approx(float(answer(model, inputs_of("bert"))[a.targets[0].id]), rel=1e-4)


def test_virtual_tokens_that_depend_on_more_than_the_adapter_are_refused():
    config = peft.MultitaskPromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4, num_tasks=2)
    with pytest.raises(UnsupportedModelError, match="MULTITASK_PROMPT_TUNING depend on more than the adapter"):
        Explainer(peft.get_peft_model(tiny.model("llama", "CausalLM"), config), tiny.tokenizer_for("llama"))
    config = peft.PromptTuningConfig(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=4)
    with pytest.raises(UnsupportedModelError, match="own way to put virtual tokens before the inputs of SEQ_2_SEQ_LM"):
        Explainer(peft.get_peft_model(tiny.model("bart", "Seq2SeqLM"), config), tiny.tokenizer_for("bart"))


@pytest.mark.parametrize("how", ["prompt", "prefix"])
def test_long_texts_are_cut_to_what_the_positions_leave(how):
    model = tuned("bert", "SequenceClassification", how)
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    words = TEXT.split() * 5
    a = explainer(" ".join(words), long_text="truncate")
    inputs = inputs_of("bert", " ".join(words[: 40 - COUNT - 2]))
    assert of_text(a, how).shape == inputs["input_ids"].shape[1:]
    with torch.no_grad():
        assert total(a) == pytest.approx(float(answer(model, inputs)[a.targets[0].id]), rel=1e-4)
    encoding = explainer.encode(TEXT, max_length=6)[0]
    assert len(encoding) - (0 if how == "prefix" else COUNT) == 6
    with torch.no_grad():
        own = answer(model, inputs_of("bert", " ".join(words[:4])))
    assert total(explainer([encoding], target=0)[0]) == pytest.approx(float(own[0]), rel=1e-4)
