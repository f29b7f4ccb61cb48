import pytest
import torch

from normxlogit import UnsupportedModelError
from normxlogit.copies.run import run
from normxlogit.parts.embeddings import WordEmbeddings
from tests import tiny
from tools.survey.base import build

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])
VECTORS = torch.arange(12.0).view(2, 3, 2)


class Table(torch.nn.Module):
    def __init__(self, look):
        super().__init__()
        self.words, self.look = torch.nn.Embedding(9, 2), look

    def get_input_embeddings(self):
        return self.words

    def forward(self, ids):
        return self.look(self.words, ids)


def test_what_the_model_pads_itself_keeps_its_own_embeddings():
    model = Table(lambda words, ids: words(torch.nn.functional.pad(ids, (0, 2), value=7)))
    with WordEmbeddings(model).replaced(VECTORS, IDS) as words:
        found = run(model, {"ids": IDS}, replace=words).output
    assert torch.equal(found[:, :3], VECTORS)
    assert torch.equal(found[:, 3:], model.words.weight[7].expand(2, 2, 2))


@pytest.mark.parametrize(
    ("look", "times"), [(lambda words, ids: words(ids + 1), 0), (lambda words, ids: (words(ids), words(ids)), 2)]
)
def test_ids_are_looked_up_once(look, times):
    model, refused = Table(look), pytest.raises(UnsupportedModelError, match=f"looks its token ids up {times} times")
    with refused, WordEmbeddings(model).replaced(VECTORS, IDS) as words:
        run(model, {"ids": IDS}, replace=words)


def test_a_model_without_a_table_is_refused():
    for made in (build("sequence-classification", "canine"), build("sequence-classification", "perceiver")):
        with pytest.raises(UnsupportedModelError, match=f"{type(made).__name__} has no table of word embeddings"):
            WordEmbeddings(made)


def test_the_table_of_an_encoder_comes_before_the_one_that_both_sides_share():
    for family in ("bart", "t5"):
        made = tiny.model(family, "Seq2SeqLM")
        assert WordEmbeddings(made).table is made.get_encoder().get_input_embeddings()
