"""Vectors in the place of word embeddings: the model's own pass, on any architecture, and nothing left behind."""

import pytest
import torch

from normxlogit import UnsupportedModelError
from normxlogit.copies.run import run
from normxlogit.parts.embeddings import WordEmbeddings
from tools.survey.base import build


class Table(torch.nn.Module):
    """A model that looks ids up as it is told."""

    def __init__(self, look):
        super().__init__()
        self.words, self.look = torch.nn.Embedding(9, 2), look

    def get_input_embeddings(self):
        return self.words

    def forward(self, ids):
        return self.look(self.words, ids)


IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])
VECTORS = torch.arange(12.0).view(2, 3, 2)


@pytest.mark.parametrize(
    ("look", "wanted"),
    [
        (lambda words, ids: words(ids), VECTORS),
        (lambda words, ids: words(input=ids), VECTORS),
        (lambda words, ids: words(ids.T), VECTORS.transpose(0, 1)),
    ],
)
def test_vectors_are_put_in_place_however_they_are_asked_for(look, wanted):
    model = Table(look)
    embeddings = WordEmbeddings(model)
    with embeddings.replaced(VECTORS.double(), IDS) as words:
        found = run(model, {"ids": IDS}, replace=words).output
    assert found.dtype == torch.float32
    assert torch.equal(found, wanted)
    assert not torch.equal(model(IDS), wanted), "nothing is left behind"
    assert torch.equal(embeddings(IDS), model.words.weight[IDS])


@pytest.mark.parametrize(
    ("look", "times"),
    [
        (lambda words, ids: words(ids + 1), 0),
        (lambda words, ids: words(ids[:1]), 0),
        (lambda words, ids: words(ids[:, 0]), 0),
        (lambda words, ids: (words(ids), words(ids)), 2),
    ],
)
def test_other_ids_keep_their_own_and_ids_are_looked_up_once(look, times):
    model = Table(look)
    embeddings = WordEmbeddings(model)
    said = f"Table looks its token ids up {times} times"
    with pytest.raises(UnsupportedModelError, match=said), embeddings.replaced(VECTORS, IDS) as words:
        run(model, {"ids": IDS}, replace=words)
    with pytest.raises(ValueError, match="mine"), embeddings.replaced(VECTORS, IDS):
        raise ValueError("mine")


def test_a_model_without_a_table_is_refused():
    for made in (build("sequence-classification", "canine"), build("sequence-classification", "perceiver")):
        with pytest.raises(UnsupportedModelError, match=f"{type(made).__name__} has no table of word embeddings"):
            WordEmbeddings(made)
