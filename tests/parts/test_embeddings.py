"""Vectors in the place of word embeddings: the model's own pass, on any architecture, and nothing left behind."""

import pytest

from normxlogit import UnsupportedModelError
from normxlogit.parts.embeddings import WordEmbeddings
from tools.survey.base import build


def test_a_model_without_a_table_is_refused():
    for made in (build("sequence-classification", "canine"), build("sequence-classification", "perceiver")):
        with pytest.raises(UnsupportedModelError, match=f"{type(made).__name__} has no table of word embeddings"):
            WordEmbeddings(made)
