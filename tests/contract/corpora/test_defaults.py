"""In a corpus: where no method is named and the default does not work on a language model, the next takes its place."""
# ruff: noqa: F811  # fixtures

import pytest

import normxlogit
from normxlogit import ALL, Explainer, Predictions, attribute
from tests import tiny

from ..test_defaults import (
    TEXTS,
    Unknown,
    explainer,  # noqa: F401  # fixtures
    same,
)


@pytest.mark.parametrize("layers", [None, ALL])
def test_a_corpus_is_explained_by_what_explains_its_texts(explainer, tmp_path, layers):
    attribute(explainer, [{"text": text} for text in TEXTS], tmp_path, Predictions(layers=layers), keep_text=True)
    rows = normxlogit.load(next((tmp_path / "shards").glob("*.parquet")))
    same(rows, explainer(TEXTS, layers=layers, method="normxlogit"))


def test_a_corpus_of_masked_texts_is_too(tmp_path):
    model = tiny.model("bert", "MaskedLM")
    layer = model.bert.encoder.layer[1].output
    layer.dense = Unknown(layer.dense)
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    texts = ["the movie is [MASK]", "[MASK] bad"]
    attribute(explainer, [{"text": text} for text in texts], tmp_path, keep_text=True)
    rows = normxlogit.load(next((tmp_path / "shards").glob("*.parquet")))
    same(rows, explainer(texts, method="normxlogit"))
