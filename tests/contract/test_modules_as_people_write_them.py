"""Modules as people write them: what they return, what their forward is called with, and which answer is meant."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    BertForSequenceClassification,
    LayoutLMConfig,
    LayoutLMForSequenceClassification,
    LayoutLMForTokenClassification,
)

from normxlogit import ALL, Explainer, InputError, UnsupportedModelError
from tests import plain, tiny
from tests.contract.compare import present, refused

TEXT = tiny.TEXTS[2]
METHODS = present("frozen-gradient", "normxlogit", "integrated-gradients", "occlusion")
TASK = {"task": "sequence-classification"}


class Logits(plain.Transformer):
    """Returns logits, and applies `last` to them where a subclass has one."""

    def last(self, logits):
        return logits

    def forward(self, input_ids, attention_mask=None):
        return self.last(super().forward(input_ids, attention_mask))


class Softmax(Logits):
    def last(self, logits):
        return nn.functional.softmax(logits, dim=1)


class LogSoftmax(Logits):
    last = staticmethod(lambda logits: logits.log_softmax(-1))


class Sigmoid(Logits):
    last = staticmethod(torch.sigmoid)


class OneLogit(Logits):
    def __init__(self):
        super().__init__(outputs=1)


class OneChance(OneLogit):
    last = staticmethod(lambda logits: torch.sigmoid(logits).squeeze(-1))


class ByHand(Logits):
    last = staticmethod(lambda logits: logits.exp() / logits.exp().sum(-1, keepdim=True))


class OwnBert(BertForSequenceClassification):
    """A user's subclass of a model of transformers, whose forward ends in a softmax."""

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        pooled = self.bert(input_ids, attention_mask, token_type_ids).pooler_output
        return self.classifier(pooled).softmax(-1)


def explainer(module, **options):
    labels = {} if isinstance(module, OneLogit | OwnBert) else {"labels": plain.LABELS}
    return Explainer(module, tiny.tokenizer(specials=False), **TASK | labels | options)


def answer(module, a, **more):
    ids = torch.tensor([a.token_ids])
    with torch.no_grad():
        return module(input_ids=ids, attention_mask=torch.ones_like(ids), **more)


@pytest.mark.parametrize("kind", [Softmax, Sigmoid, OneChance, ByHand, OwnBert])
def test_the_probability_shown_is_the_modules_own(kind):
    module = plain.grown(OwnBert(tiny.model("bert", num_labels=3).config) if kind is OwnBert else kind())
    e = explainer(module)
    for a in (e(TEXT), *e(tiny.TEXTS), e(TEXT, target=0)):
        own = answer(module, a).flatten()
        assert a.prediction.probability == pytest.approx(own[a.prediction.id].item(), abs=1e-5)
        assert a.prediction.id == int(own.argmax())
        assert any("returns probabilities" in note for note in a.notes)
    verified = e(TEXT, target=0, verify=2).verified
    assert verified.original.value == pytest.approx(answer(module, a).flatten()[0].item(), abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [Softmax, LogSoftmax, Sigmoid])
def test_a_last_softmax_or_sigmoid_leaves_the_explanation_of_the_logits(kind, method):
    expected = explainer(plain.grown(Logits()))(TEXT, target=ALL, method=method)
    found = explainer(plain.grown(kind()))(TEXT, target=ALL, method=method)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-6)


def test_probabilities_without_an_operation_of_torch_are_explained_by_their_logarithms():
    module = plain.grown(ByHand())
    for method in present("integrated-gradients"):
        a = explainer(module)(TEXT, target=1, method=method)
        logarithm = answer(module, a)[0, 1].log().item()
        assert a.scores.sum() + a.bias == pytest.approx(logarithm, abs=1e-4)
    with pytest.raises(UnsupportedModelError):  # the softmax inside would be held as a constant
        explainer(module)(TEXT, method="frozen-gradient")
    assert np.abs(explainer(module)(TEXT).scores).max() > 0


def test_logits_that_lie_between_zero_and_one_are_logits():
    module = plain.grown(Logits())
    module.out.weight.data.mul_(1e-4)
    module.out.bias.data.copy_(torch.tensor([0.2, 0.3, 0.5]) + 0.01)
    a = explainer(module)(TEXT)
    assert a.prediction.probability == pytest.approx(answer(module, a).softmax(-1).max().item(), abs=1e-6)
    assert not a.notes


def test_outputs_says_what_a_module_returns():
    for outputs, kind, chance in (
        ("logits", Softmax, lambda own: own.softmax(-1)),
        ("probabilities", Softmax, lambda own: own),
        ("log-probabilities", LogSoftmax, lambda own: own.exp()),
    ):
        module = plain.grown(kind())
        a = explainer(module, outputs=outputs)(TEXT)
        assert a.prediction.probability == pytest.approx(chance(answer(module, a)[0]).max().item(), abs=1e-5)
        assert not any("the module returns" in note for note in a.notes)
    module = plain.grown(Logits())
    a = explainer(module, outputs="values")(TEXT, target="maybe")
    assert (a.prediction.label, a.prediction.probability) == ("maybe", None)
    assert a.prediction.value == pytest.approx(answer(module, a)[0, 2].item(), abs=1e-5)
    module.out.bias.data += 5
    for outputs in ("probabilities", "log-probabilities"):
        refused(InputError, "the module returned numbers from", partial(explainer, module, outputs=outputs))
    module = plain.grown(OneLogit())
    a = explainer(module, outputs="logits")(TEXT)
    assert a.prediction.probability == pytest.approx(answer(module, a).sigmoid().item(), abs=1e-5)
    assert explainer(module)(TEXT).prediction.probability is None


class OtherNames(plain.Transformer):
    def forward(self, sent_id, mask):
        return super().forward(sent_id, mask)


class WithFeatures(plain.Transformer):
    """Reads four numbers beside each text."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16 + 4, 3)

    def answer(self, pooled, features):
        return self.head(torch.cat([pooled, features], -1))

    def forward(self, features, input_ids, attention_mask):
        kept = attention_mask[..., None].float()
        return self.answer((self.states(input_ids, attention_mask) * kept).sum(1) / kept.sum(1), features)


def with_features():
    module = plain.grown(WithFeatures())
    return module, Explainer(module, tiny.tokenizer(specials=False), extra_inputs={"features": [0.0] * 4}, **TASK)


FOUR_WORDS = "the movie is good"
"""As many tokens as there are features: a batch of either has the same shape."""


@pytest.mark.parametrize("method", [None, *METHODS])
def test_a_forward_may_have_other_names(method):
    names = {"input_ids": "sent_id", "attention_mask": "mask"}
    expected = explainer(plain.grown(plain.Transformer()))(tiny.TEXTS, method=method)
    found = explainer(plain.grown(OtherNames()), input_names=names)(tiny.TEXTS, method=method)
    assert [one.scores.tolist() for one in found] == [other.scores.tolist() for other in expected]


@pytest.mark.parametrize("method", METHODS)
def test_each_text_is_read_with_its_own_extra_inputs(method):
    module, e = with_features()
    texts = [*tiny.TEXTS, FOUR_WORDS]
    features = torch.randn(len(texts), 4, generator=torch.Generator().manual_seed(0))
    many = e(texts, extra_inputs={"features": features}, method=method)
    for a, text, row in zip(many, texts, features, strict=True):
        own = answer(module, a, features=row[None])
        assert a.prediction.value == pytest.approx(own.max().item(), abs=1e-4)
        alone = e(text, extra_inputs={"features": row.tolist()}, method=method)
        np.testing.assert_allclose(alone.scores, a.scores, rtol=1e-3, atol=2e-5)
        if a.bias is not None:
            assert a.scores.sum() + a.bias == pytest.approx(own.max().item(), abs=1e-3)


def test_the_head_reads_each_token_with_its_texts_extra_inputs():
    module, e = with_features()
    row = torch.tensor([3.0, -2.0, 1.0, 0.5])
    a = e(TEXT, target=1, extra_inputs={"features": row}, method="normxlogit")
    ids = torch.tensor([a.token_ids])
    with torch.no_grad():
        states = module.states(ids)[0]
        at_token = module.answer(states, row.expand(len(states), -1))[:, 1]
        expected = module.embed(ids)[0].norm(dim=-1) * at_token
    np.testing.assert_allclose(a.scores, expected.numpy(), rtol=1e-4, atol=1e-5)
    zero = e(TEXT, extra_inputs={"features": [0.0] * 4})
    np.testing.assert_allclose(e(TEXT).scores, zero.scores, rtol=1e-5)  # without its own it has those of the explainer


def test_extra_inputs_stay_while_words_are_removed():
    module, e = with_features()
    row = torch.tensor([3.0, -2.0, 1.0, 0.5])
    a = e(FOUR_WORDS, extra_inputs={"features": row}, method="occlusion", verify=4)
    whole = list(a.token_ids)

    def logits_of(ids):
        ids = torch.tensor([ids])
        with torch.no_grad():
            return module(row[None], ids, torch.ones_like(ids))[0]

    for position, score in enumerate(a.scores):
        masked = [*whole[:position], e.tokenizer.mask_token_id, *whole[position + 1 :]]
        lost = (logits_of(whole) - logits_of(masked))[a.target.id]
        assert score == pytest.approx(lost.item(), abs=1e-4)
    for removed in (a.verified.original, *a.verified.single):
        own = logits_of([index for place, index in enumerate(whole) if place not in removed.tokens]).softmax(-1)
        assert removed.value == pytest.approx(own[a.target.id].item(), abs=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feature": [[0.0] * 4]}, "no extra input 'feature'"),
        ({"features": [[0.0] * 4] * 2}, "2 values of 'features' for 1 texts"),
        ({"features": [[0.0] * 3]}, r"of shape \(3,\) for a text, and \(4,\)"),
        ({"features": ["red"]}, "must be a number"),
    ],
)
def test_extra_inputs_that_do_not_fit_are_refused(given, message):
    _, e = with_features()
    refused(InputError, message, lambda: e([TEXT], extra_inputs=given))


class WithLanguage(plain.Transformer):
    """Reads the number of a language beside a text."""

    def forward(self, input_ids, attention_mask, language):
        return super().forward(input_ids, attention_mask) * (1 + language[:, None])


def test_a_fraction_is_not_cut_to_a_whole_number():
    module = plain.grown(WithLanguage())
    e = Explainer(module, tiny.tokenizer(specials=False), extra_inputs={"language": 1}, **TASK)
    whole = e(TEXT, target=0, extra_inputs={"language": 2}, method="occlusion")
    assert not np.allclose(whole.scores, e(TEXT, target=0, method="occlusion").scores)
    refused(InputError, "whole number", lambda: e(TEXT, extra_inputs={"language": 2.7}))


def test_a_name_that_the_forward_does_not_have_is_refused():
    module = plain.grown(plain.Transformer())
    for options in ({"input_names": {"input_ids": "words"}}, {"extra_inputs": {"stars": 3.0}}):
        refused(InputError, "has no argument", partial(explainer, module, **options))


class TwoTasks(plain.Transformer):
    """Answers for a mood of three and for a topic of five."""

    def __init__(self):
        super().__init__()
        self.topic = nn.Linear(16, 5)

    def forward(self, input_ids, attention_mask=None):
        pooled = self.states(input_ids, attention_mask).mean(1)
        return {"mood": self.out(pooled), "topic": self.topic(pooled)}


class TwoTasksInATuple(TwoTasks):
    def forward(self, input_ids, attention_mask=None):
        return tuple(super().forward(input_ids, attention_mask).values())


@pytest.mark.parametrize(("kind", "topic"), [(TwoTasks, "topic"), (TwoTasksInATuple, 1)])
def test_one_of_several_answers_is_chosen_by_its_name_or_its_labels(kind, topic):
    module = plain.grown(kind())
    tokenizer = tiny.tokenizer(specials=False)
    refused(UnsupportedModelError, "output_field=", lambda: Explainer(module, tokenizer, **TASK))
    named = Explainer(module, tokenizer, output_field=topic, **TASK)(TEXT)
    assert named.prediction.value == pytest.approx(answer(module, named)[topic].max().item(), abs=1e-5)
    by_labels = Explainer(module, tokenizer, labels=list("abcde"), **TASK)(TEXT)
    np.testing.assert_array_equal(by_labels.scores, named.scores)
    refused(InputError, "returns no 'topics'", lambda: Explainer(module, tokenizer, output_field="topics", **TASK))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [LayoutLMForSequenceClassification, LayoutLMForTokenClassification])
def test_the_boxes_of_a_tokenised_page_are_read_with_its_tokens(kind, method):
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    settings |= {"max_2d_position_embeddings": 100, "pad_token_id": 0}
    config = LayoutLMConfig(vocab_size=tiny.SIZE, num_labels=3, **settings)
    model, tokenizer = plain.grown(kind(config)), tiny.tokenizer_for("bert")
    encoded = tokenizer(tiny.TEXTS, padding=True, return_tensors="pt")
    corners = torch.randint(0, 50, (*encoded.input_ids.shape, 2), generator=torch.Generator().manual_seed(0))
    encoded["bbox"] = torch.cat([corners, corners + 20], -1)
    with torch.no_grad():
        logits = model(**encoded).logits
    e = Explainer(model, tokenizer)
    for row, a in enumerate(e(encoded, method=method)):
        own = logits[row] if logits.ndim == 2 else logits[row, a.target.position]
        assert a.prediction.value == pytest.approx(own.max().item(), abs=1e-4)
        alone = e({name: values[row, : len(a.tokens)] for name, values in encoded.items()}, method=method)[0]
        np.testing.assert_allclose(alone.scores, a.scores, rtol=1e-3, atol=1e-4)
        if a.bias is not None:
            assert a.scores.sum() + a.bias == pytest.approx(own.max().item(), abs=1e-3)


class Around(nn.Module):
    """A transformer of transformers with the names of a module of one's own."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, sent_id, mask):
        return self.inner(sent_id, attention_mask=mask).logits


class PastTheLayers(plain.Transformer):
    """Its answer depends on the words by its layers, and by the mean of their embeddings."""

    def forward(self, input_ids, attention_mask=None):
        x = words = self.words(input_ids)
        for block in self.blocks:
            x = block(x, None)
        return self.out((x + words).mean(1))


class LateWords(plain.Transformer):
    """Its later layers read the words' embeddings again, beside the output of the layer before."""

    def forward(self, input_ids, attention_mask=None):
        x = words = self.words(input_ids)
        for block in self.blocks:
            x = block(x, None) + words
        return self.out(x.mean(1))


@pytest.mark.parametrize("family", ["bert", "distilbert", "gpt2", "llama"])
def test_a_transformer_in_a_module_of_ones_own_is_read_at_its_layers(family):
    inner, tokenizer = tiny.model(family, num_labels=3), tiny.tokenizer_for(family)
    names = {"input_ids": "sent_id", "attention_mask": "mask"}
    labels = ["LABEL_0", "LABEL_1", "LABEL_2"]
    around = Explainer(Around(inner), tokenizer, labels=labels, input_names=names, **TASK)
    for read_at in ("first-half", "all", 2):
        method = f"frozen-gradient:read_at={read_at}"
        expected, found = Explainer(inner, tokenizer)(tiny.TEXTS, method=method), around(tiny.TEXTS, method=method)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.scores, b.scores, rtol=1e-4, atol=1e-6)
            assert not any("embeddings" in note for note in a.notes)


@pytest.mark.parametrize("kind", [PastTheLayers, LateWords])
def test_layers_that_the_words_bypass_are_not_read_and_a_note_says_so(kind):
    e = explainer(plain.grown(kind()))
    for target in range(3):
        a, embeddings = (e(TEXT, target=target, method=f"frozen-gradient:read_at={at}") for at in ("first-half", 0))
        np.testing.assert_allclose(a.scores, embeddings.scores, rtol=1e-4, atol=1e-6)
        assert any(f"no modules of {kind.__name__} were found" in note for note in a.notes)
        assert not any("were found" in note for note in embeddings.notes)
    if "normxlogit" in METHODS:
        assert not any("were found" in note for note in e(TEXT, method="normxlogit").notes)


class Padded(nn.Module):
    """Torch's encoder as it is made by default: without gradients it packs padded texts into nested tensors."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(tiny.SIZE, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True), 2)
        self.out = nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask):
        states = self.encoder(self.words(input_ids), src_key_padding_mask=attention_mask == 0)  # (B, T, H)
        there = attention_mask[..., None].to(states.dtype)  # (B, T, 1)
        return self.out((states * there).sum(1) / there.sum(1))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # of the caller's own call
def test_torchs_own_encoder_is_explained_as_it_is_made_by_default():
    module, tokenizer = plain.grown(Padded()), tiny.tokenizer_for("bert")
    texts = ["the movie is not good", "the cat", "a film"]
    for text, result in zip(texts, Explainer(module, tokenizer, task="sequence-classification")(texts), strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            logits = module(inputs.input_ids, inputs.attention_mask)[0]
        assert result.method == "frozen-gradient"
        assert float(result.scores.sum() + result.bias) == pytest.approx(float(logits[result.target.id]), abs=1e-4)
    assert module.encoder.use_nested_tensor, "the caller's module is as it was"


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_the_last_layer_counts_where_the_head_reads_it_as_it_is(layer):
    """Of three layers without a norm behind them, layer 3 is the last, and layer 2 is not its output."""

    class Unnormed(plain.Transformer):
        def states(self, input_ids, attention_mask=None, causal=None, count=3):
            x = self.embed(input_ids)
            for block in self.blocks[:count]:
                x = block(x, None, causal)
            return x

    module, reader = plain.grown(Unnormed()), tiny.tokenizer_for("bert")
    explainer = Explainer(module, reader, task="sequence-classification", labels=plain.LABELS)
    a = explainer("the cat sat", method="logat", layers=ALL)
    assert a.layers == (1, 2, 3)
    ids = torch.tensor([explainer.encode("the cat sat")[0].ids])
    logits = module.out(module.states(ids, count=layer))[0, :, a.target.id].detach()  # (T,)
    np.testing.assert_allclose(a.layer(layer).scores, logits, atol=1e-4)


class Autocasting(BertForSequenceClassification):
    """A model that computes in bfloat16 and answers in float32, as accelerate prepares one for mixed precision."""

    def forward(self, *args, **kwargs):
        with torch.autocast("cpu", torch.bfloat16):
            output = super().forward(*args, **kwargs)
        output.logits = output.logits.float()
        return output


def test_a_model_that_computes_in_another_precision_than_its_weights_adds_up_in_that():
    weights = tiny.model("bert")
    model = Autocasting(weights.config).eval()
    model.load_state_dict(weights.state_dict())
    tokenizer = tiny.tokenizer_for("bert")
    a = Explainer(model, tokenizer)(tiny.TEXTS[2])
    assert (a.method, a.notes) == ("frozen-gradient", ())
    logits = model(**tokenizer(tiny.TEXTS[2], return_tensors="pt")).logits[0]
    assert a.prediction.value == pytest.approx(logits.max().item(), abs=1e-6)
    assert a.scores.sum() + a.bias == pytest.approx(a.prediction.value, abs=0.01)


def test_a_forward_that_calls_the_model_through_a_global_is_refused_with_the_reason():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    notebook = {"original": model.forward}
    exec("def forward(*args, **kwargs):\n    return original(*args, **kwargs)", notebook)
    model.forward = notebook["forward"]
    explainer = Explainer(model, tokenizer)
    refused(UnsupportedModelError, "override forward in a subclass", partial(explainer, TEXT))
    logits = model(**tokenizer(TEXT, return_tensors="pt")).logits[0]
    assert explainer(TEXT, method="occlusion").prediction.value == pytest.approx(logits.max().item(), abs=1e-6)


class MixingHead(nn.Module):
    """Adds the mean of the states up to a token before the vocabulary's logits."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(16, tiny.SIZE)

    def forward(self, states):
        counts = torch.arange(1, states.shape[1] + 1)[:, None]
        return self.out(states + states.cumsum(1) / counts)


class StatesOfLanguageModel(plain.LanguageModel):
    def __init__(self):
        super().__init__()
        self.out = nn.Identity()


class LanguageModelWithMixingHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = StatesOfLanguageModel()
        self.head = MixingHead()

    def forward(self, input_ids):
        return self.head(self.trunk(input_ids))


def test_a_vocabulary_head_over_several_tokens_is_read_behind_what_mixes_them():
    model = plain.grown(LanguageModelWithMixingHead())
    explainer = Explainer(model, tiny.tokenizer(), task="causal-lm")
    text = tiny.TEXTS[0]
    with torch.no_grad():
        logits = model(torch.tensor([explainer.encode([text])[0].ids]))[0]
    result = explainer(text, method="logat")
    assert result.prediction.id == int(logits[-1].argmax())
    assert result.prediction.value == pytest.approx(float(logits[-1].max()), abs=1e-5)
    assert result.scores == pytest.approx(logits[:, result.target.id].numpy(), abs=1e-5)
