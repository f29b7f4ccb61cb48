"""In a corpus: models that compare several texts are refused."""

import pytest

from normxlogit import Explainer, UnsupportedModelError, attribute

from ..test_tasks import CANDIDATES, TEXT, zero_shot


def test_a_corpus_is_not_explained_by_zero_shot(tmp_path):
    with pytest.raises(UnsupportedModelError, match="a corpus is not explained by models that compare"):
        attribute(Explainer(zero_shot(), labels=CANDIDATES), [{"text": TEXT}], tmp_path / "out")
