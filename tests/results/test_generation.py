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


def test_one_token_carries_what_the_method_measured():
    one = make_generation(merge="max")[1]
    assert one.diagnostics == {"convergence_error": 0.5}
    assert one.merge == "max"
    assert one.text == "<s>the cat's mat"
    assert [w.text for w in one.words()] == ["the", "cat's", "mat"]


def test_a_token_between_the_bytes_of_a_character_is_saved_and_loaded():
    g = make_generation()
    bytes_of_one = ((14, 18), (17, 18), (18, 24))  # " mat" ends in a character that the next token ends too
    shared = replace(g, units=replace(g.units, spans=(*g.offsets[:4], *bytes_of_one)))
    for index in range(3):
        one = shared[index]
        assert one.text == g.text[: len(one.text)]
        assert type(one).from_dict(one.to_dict()) == one
    assert shared[1].text == g.text[:18]
    unplaced = replace(
        g, units=replace(g.units, spans=(*g.offsets[:5], (0, 0), (18, 24)))
    )  # a special token that stands nowhere
    assert unplaced[1].text == g.text[: g.offsets[4][1]]
