from dataclasses import replace

import numpy as np
import pytest

from normxlogit.errors import DataError
from tests.factories import make_generation


def layered():
    g = make_generation()
    return replace(g, scores=np.stack([g.scores, 2 * g.scores], 1), layers=(1, 2))


def test_words_have_a_score_for_each_generated_token():
    words = make_generation().words()
    assert [w.text for w in words] == ["the", "cat's", "mat", "is", "red."]
    np.testing.assert_allclose(words[1].score, [1.0, 1.0, 0.0])
    assert words[1].tokens == (2, 3)
    assert layered().words()[1].score.shape == (3, 2)
    np.testing.assert_allclose(make_generation(merge="max").words()[1].score, [2.0, 1.0, 0.0])
    np.testing.assert_allclose(make_generation().words("max")[1].score, [2.0, 1.0, 0.0])
    with pytest.raises(DataError, match="offsets"):
        make_generation(offsets=None).words()
