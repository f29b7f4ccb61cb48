"""A model that embeds: how it reads texts, and the cosine as what is explained, on numbers worked out by hand."""

import pytest
import torch
from torch import nn

from normxlogit.models.embedding_model import Direction, EmbeddingModel
from normxlogit.models.sentence_embedding import SentenceEmbedding, Steps
from normxlogit.models.tasks import Task
from tests import tiny


def made(declared=10**30, **steps):
    tokenizer = tiny.tokenizer_for("bert")
    tokenizer.model_max_length = declared
    return EmbeddingModel(SentenceEmbedding(tiny.model("bert").bert, Steps(**steps)), tokenizer)


@pytest.mark.parametrize(("max_length", "limit"), [(None, 40), (6, 6), (50, 40)])
def test_the_least_of_the_limits_counts(max_length, limit):
    assert made(max_length=max_length).encoder.limit == limit


def test_no_limit_at_all():
    model = EmbeddingModel(SentenceEmbedding(tiny.model("llama").model, Steps()), tiny.tokenizer_for("llama"))
    assert model._limit(model.given) is None
    assert (model.batch_tokens, model.task) == (8192, Task("embedding", "vector", ()))


def test_texts_are_read_with_their_prompt_and_in_lower_case_where_that_is_said():
    for lower, text in ((True, "find a cat"), (False, "Find A cat")):
        assert [e.text for e in made(prompt="Find ", lower=lower).read_texts(["A cat"])] == [text]
    assert [e.text for e in made().read_texts(["A", "b"])] == ["A", "b"]


@pytest.mark.parametrize("normalize", [True, False])
def test_vectors_have_length_one_where_that_is_said(normalize):
    model = made(normalize=normalize)
    batch = model.batch(model.read_texts(["a cat", "the movie is bad"]), [0, 1])
    found = model.embed(batch)
    with torch.no_grad():
        own = [model.given(torch.tensor([e.ids])).logits[0] for e in batch.encodings]
    wanted = torch.stack([v / v.norm() if normalize else v for v in own])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert not found.requires_grad


def test_the_steps_of_a_sentence_transformer_are_read_anew(monkeypatch):
    class Pooling(nn.Module):
        pass

    given, read = nn.Sequential(nn.Linear(1, 1), Pooling()), []

    def steps(model, pooling=None):
        read.append(pooling)
        return SentenceEmbedding(tiny.model("bert").bert, Steps(prompt=f"{len(read)} "))

    monkeypatch.setattr("normxlogit.models.embedding_model.sentence_embedding", steps)
    model = EmbeddingModel(given, tiny.tokenizer_for("bert"), pooling="mean")
    assert read[0] == "mean"
    assert not model.refresh()
    before = len(read)
    given.append(nn.Linear(1, 1))
    assert model.refresh()
    assert len(read) == before + 1
    assert model.read_texts(["a"])[0].text == f"{len(read)} a"


def test_a_direction_is_the_cosine_with_the_own_length_held():
    vectors = torch.tensor([[[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [0.0, 2.0]]])  # (B, K, C)
    target = Direction.of(made(), vectors)
    assert (target.ids.tolist(), target.contrast, target.positions) == ([[0, 0], [0, 0]], None, None)
    assert (target.labelled, target.task.name) == (True, "embedding")
    own = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
    found = target.read(own)
    torch.testing.assert_close(found.detach(), torch.tensor([[0.6, 0.36 + 0.64], [0.8, 1.6]]))
    (slope,) = torch.autograd.grad(found[0, 0], own)
    torch.testing.assert_close(slope, torch.tensor([[1 / 5, 0], [0, 0]]), msg="the length is no part of the slope")
    texts = torch.tensor([1, 0, 1])
    many = target.read(torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), texts)
    torch.testing.assert_close(many, torch.tensor([[0.8, 1.6], [0.6, 1.0], [0.0, 0.0]]))
    with pytest.raises(NotImplementedError):
        target.rows()
