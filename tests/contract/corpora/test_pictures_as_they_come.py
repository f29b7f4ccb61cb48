"""In a corpus: photographs with an orientation tag, and documents whose text is missing."""

import numpy as np
import pytest

import normxlogit
from normxlogit import Explainer, attribute

pytest.importorskip("normxlogit.media")


def test_a_photograph_on_its_side_is_the_same_in_a_corpus(tmp_path) -> None:
    from tests.media.test_signals import PROCESSOR, vit

    from ..media.test_pictures_and_documents_as_they_come import photograph

    explainer, opened = Explainer(vit(), PROCESSOR), photograph()
    levels = np.asarray(opened)
    rows = [{"image": opened}, {"image": levels.transpose(2, 0, 1)}, {"image": opened.convert("CMYK")}]
    attribute(explainer, rows, tmp_path / "out")
    results = normxlogit.load(tmp_path / "out/shards/00000000.parquet")
    for row, result in zip(rows, results, strict=True):
        expected = explainer(row["image"])
        assert result.prediction.probability == pytest.approx(expected.prediction.probability, abs=1e-5)
