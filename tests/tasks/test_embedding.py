"""A model that embeds: how it reads texts, and the cosine as what is explained, on numbers worked out by hand."""

import pytest
import torch

from normxlogit.model.task_model import TaskModel
from normxlogit.tasks.similarity.embedding import Direction
from normxlogit.tasks.similarity.sentence_embedding import SentenceEmbedding, Steps
from tests import tiny


def made(declared=10**30, **steps):
    tokenizer = tiny.tokenizer_for("bert")
    tokenizer.model_max_length = declared
    return TaskModel(SentenceEmbedding(tiny.model("bert").bert, Steps(**steps)), tokenizer)


def texts(model, *given):
    return [e.text for e in model.task.encode_each(model, given)]


@pytest.mark.parametrize(("max_length", "limit"), [(None, 40), (6, 6), (50, 40)])
def test_the_least_of_the_limits_counts(max_length, limit):
    assert made(max_length=max_length).encoder.limit == limit


def test_a_direction_is_the_cosine_with_the_own_length_held():
    vectors = torch.tensor([[[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [0.0, 2.0]]])  # (B, K, C)
    target = Direction.of(made().task, vectors)
    assert (target.ids.tolist(), target.contrast, target.positions) == ([[0, 0], [0, 0]], None, None)
    assert (target.labelled, target.task.name) == (True, "embedding")
    logits = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
    cosines = target.select(logits)
    torch.testing.assert_close(cosines.detach(), torch.tensor([[0.6, 0.36 + 0.64], [0.8, 1.6]]))
    (slope,) = torch.autograd.grad(cosines[0, 0], logits)
    torch.testing.assert_close(slope, torch.tensor([[1 / 5, 0], [0, 0]]), msg="the length is no part of the slope")
    many = target.select(torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), torch.tensor([1, 0, 1]))
    torch.testing.assert_close(many, torch.tensor([[0.8, 1.6], [0.6, 1.0], [0.0, 0.0]]))
