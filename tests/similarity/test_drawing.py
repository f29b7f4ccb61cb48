import numpy as np
import pytest

from normxlogit.errors import DataError
from normxlogit.similarity.drawing import pairs_grid
from normxlogit.similarity.result import Similarity
from tests.contract.plots.test_plots import labels, table
from tests.factories import pair


def test_two_texts_have_their_pairs_of_words_and_no_waterfall():
    base, first = pair(), 6
    second = len(base.units) - first
    matrix = np.arange((first + 1) * (second + 1), dtype=np.float32).reshape(first + 1, second + 1)
    both = Similarity(**vars(base) | {"pairs": matrix, "quantity": "cosine"})
    figure = both.plot("heatmap")
    assert labels(figure.axes[0].yaxis) == ["A", "man", "sleeps", "."]
    assert np.array_equal(table(figure), pairs_grid(both).scores)
    with pytest.raises(DataError, match="each add up to it"):
        both.plot("waterfall")
