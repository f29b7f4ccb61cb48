"""What people load a model by: objects of other libraries, adapters, GGUF files, modules of any kind."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from normxlogit import ALL, Explainer, UnsupportedModelError
from tests import plain, tiny

TEXTS = ["the cat is on the mat", "a dog", "a cat is good"]


def logits(model, tokenizer, *texts):
    with torch.no_grad():
        return model(**tokenizer(*texts, return_tensors="pt")).logits[0]


# --- sentence-transformers and SetFit -------------------------------------------------------------------------------


class Transformer(nn.Module):
    def __init__(self, model, tokenizer):
        super().__init__()
        self.model, self.tokenizer = model, tokenizer

    def forward(self, features):
        return features | {"token_embeddings": self.model(**features).last_hidden_state}


class CrossEncoder(nn.Sequential):
    """As of sentence-transformers 5.2: a sequence of modules, here of one."""

    def __init__(self, model, tokenizer, *more, longest=40):
        super().__init__(Transformer(model, tokenizer), *more)
        self.tokenizer, self.max_seq_length = tokenizer, longest

    @property
    def transformers_model(self):
        return self[0].model

    def rank(self):
        raise NotImplementedError


class Pooling(nn.Module):
    def get_config_dict(self):
        return {"pooling_mode": "mean"}

    def forward(self, features):
        mask = features["attention_mask"][..., None]
        return {"sentence_embedding": (features["token_embeddings"] * mask).sum(1) / mask.sum(1)}


class SentenceTransformer(nn.Sequential):
    def __init__(self, trunk, tokenizer):
        super().__init__(Transformer(trunk, tokenizer), Pooling())
        self.tokenizer, self.max_seq_length = tokenizer, 40

    def encode(self, text):
        with torch.no_grad():
            return self(dict(self.tokenizer(text, return_tensors="pt")))["sentence_embedding"]  # (1, H)


def test_a_cross_encoder_is_its_classifier():
    model, tokenizer = tiny.model("bert", num_labels=1), tiny.tokenizer_for("bert")
    pair = ("a cat", "the cat is on the mat")
    old = SimpleNamespace(model=model, tokenizer=tokenizer, rank=len, max_length=512)  # before 4.0
    for given in (CrossEncoder(model, tokenizer), old):
        result = Explainer(given)(pair)
        assert result.prediction.value == pytest.approx(float(logits(model, tokenizer, *pair)), abs=1e-5)
        assert result.text_pair == pair[1]
    cut = Explainer(CrossEncoder(model, tokenizer, longest=6))(pair)
    assert len(cut) == 6
    assert tokenizer.model_max_length == 40
    with pytest.raises(UnsupportedModelError, match="modules or prompts around"):
        Explainer(CrossEncoder(model, tokenizer, nn.Identity()))


def bodies(head, **options):
    trunk, tokenizer = tiny.model("bert").bert, tiny.tokenizer_for("bert")
    body = SentenceTransformer(trunk, tokenizer)
    defaults = {"labels": None, "normalize_embeddings": False}
    return SimpleNamespace(model_body=body, model_head=head, **defaults | options)


@pytest.mark.parametrize(("gold", "labels"), [([0, 1, 0], ["bad", "good"]), ([0, 1, 2], None), (["x", "y", "z"], None)])
@pytest.mark.parametrize("normalize", [True, False])
def test_a_setfit_model_with_a_logistic_regression(gold, labels, normalize):
    linear_model = pytest.importorskip("sklearn.linear_model")
    given = bodies(None, labels=labels, normalize_embeddings=normalize)

    def vectors():
        found = torch.cat([given.model_body.encode(text) for text in TEXTS])
        return (nn.functional.normalize(found, dim=-1) if normalize else found).numpy()

    given.model_head = linear_model.LogisticRegression(C=100.0).fit(vectors(), gold)
    explainer = Explainer(given)
    for _ in range(2):
        chances = given.model_head.predict_proba(vectors())
        for method in ("normxlogit", "frozen-gradient"):
            for row, result in zip(chances, explainer(TEXTS, method=method), strict=True):
                name = given.model_head.classes_[row.argmax()]
                assert result.prediction.label == (labels[name] if labels else str(name))
                assert result.prediction.probability == pytest.approx(row.max(), abs=1e-4)
        given.model_head.fit(vectors(), gold[::-1])  # what is fitted anew is explained anew


def test_a_setfit_model_with_a_head_of_its_own():
    head = nn.Module()
    head.linear, head.temperature, head.eps, head.multitarget = nn.Linear(32, 3), 2.0, 1e-5, False
    head.classes_ = None
    given = bodies(head, labels=["a", "b", "c"])
    result = Explainer(given)(TEXTS[0], method="occlusion")
    with torch.no_grad():
        wanted = head.linear(given.model_body.encode(TEXTS[0]))[0] / (2.0 + 1e-5)
    assert result.prediction.value == pytest.approx(float(wanted.max()), abs=1e-5)
    assert result.prediction.label == "abc"[int(wanted.argmax())]


def test_a_setfit_head_of_another_kind_is_refused():
    with pytest.raises(UnsupportedModelError, match="is a OneVsRest"):
        Explainer(bodies(type("OneVsRest", (), {})()))


# --- modules of any kind --------------------------------------------------------------------------------------------


def test_a_traced_module_is_refused():
    module, ids = plain.grown(plain.Recurrent()), torch.tensor([[2, 5, 3]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [torch.jit.trace(module, ids, check_trace=False), torch.jit.script(module)]
    for given in made:
        with pytest.raises(UnsupportedModelError, match="pass the module that it was made of"):
            Explainer(given, tiny.tokenizer_for("bert"), task="sequence-classification")


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient", "integrated-gradients", "decompx", "alti"])
def test_a_model_that_was_loaded_in_inference_mode(method):
    tokenizer = tiny.tokenizer_for("bert")
    with torch.inference_mode():
        model = tiny.model("bert")
    ordinary = tiny.model("bert")
    explainer = Explainer(model, tokenizer)
    wanted = Explainer(ordinary, tokenizer)(TEXTS[0], method=method).scores
    np.testing.assert_allclose(explainer(TEXTS[0], method=method).scores, wanted, atol=1e-5)
    assert all(weight.is_inference() for weight in model.parameters())
    with torch.inference_mode():
        model.classifier.weight.mul_(2.0)
    with torch.no_grad():
        ordinary.classifier.weight.mul_(2.0)
    wanted = Explainer(ordinary, tokenizer)(TEXTS[0], method=method).scores
    np.testing.assert_allclose(explainer(TEXTS[0], method=method).scores, wanted, atol=1e-5)
    with torch.inference_mode():
        model.double()  # gives every weight other storage
    ordinary.double()
    wanted = Explainer(ordinary, tokenizer)(TEXTS[0], method=method).scores
    np.testing.assert_allclose(explainer(TEXTS[0], method=method).scores, wanted, atol=1e-6)


class TimeFirst(nn.Module):
    """Torch's own encoder, which works with time before texts unless it is told otherwise."""

    def __init__(self, answer, ids_turned):
        super().__init__()
        self.words = nn.Embedding(tiny.SIZE, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, tiny.SIZE if answer == "word" else 3)
        self.answer, self.ids_turned = answer, ids_turned

    def states(self, input_ids, attention_mask):
        x = self.words(input_ids.T) if self.ids_turned else self.words(input_ids).transpose(0, 1)  # (T, B, H)
        causal = None
        if self.answer == "word":
            causal = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        return self.encoder(x, mask=causal, src_key_padding_mask=attention_mask == 0)

    def forward(self, input_ids, attention_mask):
        x = self.states(input_ids, attention_mask)
        if self.answer == "mean":
            there = attention_mask.T[..., None].to(x.dtype)  # (T, B, 1)
            return self.out((x * there).sum(0) / there.sum(0))
        return self.out(x[0]) if self.answer == "first" else self.out(x).transpose(0, 1)


TASKS = {"mean": "sequence-classification", "first": "sequence-classification"}
TASKS |= {"each": "token-classification", "word": "causal-lm"}


@pytest.mark.parametrize("ids_turned", [True, False])
@pytest.mark.parametrize("answer", TASKS)
def test_time_before_texts(answer, ids_turned):
    module, tokenizer = plain.grown(TimeFirst(answer, ids_turned)), tiny.tokenizer_for("bert")
    explainer = Explainer(module, tokenizer, task=TASKS[answer])
    texts = [*TEXTS, "a", "cat", "dog"]  # three of three tokens each, among others
    for text, result in zip(texts, explainer(texts), strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            states = module.states(ids, torch.ones_like(ids))[:, 0]  # (T, H)
            own = module.out(states)[:, result.target.ids[0]] * module.words(ids[0]).norm(dim=-1)  # (T,)
        np.testing.assert_allclose(result.scores, own, atol=1e-4)
    for text, result in zip(texts, explainer(texts, method="frozen-gradient"), strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            found = module(ids, torch.ones_like(ids))[0]
        value = found[result.target.ids[0]] if found.ndim == 1 else found[result.target.position, result.target.ids[0]]
        assert result.scores.sum() + result.bias == pytest.approx(float(value), abs=1e-4)
    layers = explainer(texts, layers=ALL)
    np.testing.assert_allclose(layers[-1].scores[-1], explainer(texts[-1]).scores, atol=1e-4)
    norms = explainer(texts, method="input-norm")[0].scores
    ids = tokenizer(texts[0], return_tensors="pt").input_ids
    np.testing.assert_allclose(norms, module.words(ids[0]).norm(dim=-1).detach(), atol=1e-5)
