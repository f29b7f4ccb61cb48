"""In a corpus: models that compare several texts are refused."""

import pytest

from normxlogit import Explainer, UnsupportedModelError, attribute
from tests import tiny


def test_a_corpus_is_not_explained_by_multiple_choice(tmp_path):
    pytest.importorskip("normxlogit.choices")
    explainer = Explainer(tiny.model("bert", "MultipleChoice"), tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="a corpus is not explained by models that compare"):
        attribute(explainer, [{"text": "the movie is not good"}], tmp_path / "out")
