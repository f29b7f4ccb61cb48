"""Models of sentence-transformers that classify (SetFit), against their own answers."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from normxlogit import Explainer, UnsupportedModelError
from tests import tiny
from tests.contract.test_loading import TEXTS, Transformer


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
