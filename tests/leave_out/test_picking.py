"""Which parts of a result are left out, by what the caller asks for."""

import pytest

from normxlogit import InputError
from normxlogit.leave_out.picking import picked
from normxlogit.leave_out.removable import removable
from tests.factories import make_attribution
from tests.results.test_media import SCORES, registered_kind, with_strips

__all__ = ["registered_kind"]  # a fixture

BY_SCORE = ["bad", "mediocre", "maybe", "even", "The", ",", "is", "movie", "."]


def test_words_are_left_out_by_score_also_beside_media():
    for a, expected in ((make_attribution(scores=SCORES), BY_SCORE), (with_strips(4), ["strip 1", *BY_SCORE])):
        found = picked(a, removable(a), "word")
        assert [part.text for part in found.parts] == expected
        assert (found.unit, found.singles) == ("word", len(expected))


def test_sentences_have_no_words():
    sentences = make_attribution(scores=SCORES).group("sentence")
    with pytest.raises(InputError, match="there are no words to leave out: the units are "):
        picked(sentences, removable(sentences), "word")
