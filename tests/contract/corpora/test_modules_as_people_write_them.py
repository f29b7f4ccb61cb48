"""In a corpus: modules as people write them."""

import pytest

from normxlogit import DataError, attribute, load
from tests import plain, tiny

from ..test_modules_as_people_write_them import Softmax, answer, explainer


def test_a_corpus_has_the_modules_own_probabilities_and_knows_its_settings(tmp_path):
    module, texts = plain.grown(Softmax()), [*tiny.TEXTS]
    rows = [{"text": text} for text in texts]
    attribute(explainer(module), rows, tmp_path / "out")
    (shard,) = (tmp_path / "out" / "shards").glob("*.parquet")
    for row, a in zip(load(shard), explainer(module)(texts), strict=True):
        assert row.prediction.probability == pytest.approx(answer(module, a).max().item(), abs=1e-5)
        assert row.notes == a.notes
    with pytest.raises(DataError):
        attribute(explainer(module, outputs="logits"), rows, tmp_path / "out")
