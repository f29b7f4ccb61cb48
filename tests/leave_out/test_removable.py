"""Which parts of a result can be left out."""

from dataclasses import replace

import pytest

from normxlogit.leave_out.removable import removable, text_parts
from tests.factories import labels_and_layers, make_attribution
from tests.results.test_media import SCORES, Strip, registered_kind, with_strips

__all__ = ["registered_kind"]  # a fixture

TOKENS = ("The", "movie", "is", "medi", "##ocre", ",", "maybe", "even", "bad", ".")


def texts(parts):
    return [part.text for part in parts]


def test_the_parts_of_a_text_are_its_words_or_its_tokens():
    a = make_attribution(scores=SCORES)
    assert texts(text_parts(a)) == ["The", "movie", "is", "mediocre", ",", "maybe", "even", "bad", "."]
    without_text = replace(a, text=None, units=replace(a.units, spans=None))
    parts = text_parts(without_text)
    assert texts(parts) == list(TOKENS)
    assert [part.tokens for part in parts] == [(unit,) for unit in range(1, 11)]
    assert [part.score for part in parts] == pytest.approx(SCORES)
    assert {part.sequence for part in parts} == {0}
    assert removable(replace(a, units=replace(a.units, special=(True,) * 12))).parts == []


def test_cells_of_a_strip_are_no_tokens():
    a = with_strips(4)
    without_words = replace(a, units=replace(a.units, spans=None))
    assert texts(text_parts(without_words)) == list(TOKENS)


def test_a_word_stays_where_there_are_others():
    a = make_attribution(scores=SCORES)
    assert "mediocre" not in texts(removable(a, fixed=5).parts)
    assert len(removable(a, fixed=5).parts) == len(removable(a).parts) - 1
    single = make_attribution(("Bad",), (1.0,), text="Bad")
    assert texts(removable(single, fixed=1).parts) == ["Bad"]
    words = removable(a)
    assert (words.unit, words.removed_by, words.most) == ("word", "deleted", 8)


def test_of_several_kinds_each_part_says_what_it_is():
    a = with_strips(4)
    mixed = removable(a)
    assert texts(mixed.parts)[-3:] == [".", "region 0-2", "region 2-4"]
    assert (mixed.unit, mixed.removed_by) == ("part", "removed")
    several = removable(with_strips(4, 3))
    assert texts(several.parts)[-2:] == ["region 0-2 of strip 2", "region 2-3 of strip 2"]


def test_of_one_kind_the_parts_have_their_own_names():
    a = with_strips(4)
    alone = replace(a, text=None, units=replace(a.units, special=(True,) * 12 + (False,) * 4, spans=None))
    found = removable(alone)
    assert (texts(found.parts), found.unit, found.removed_by) == (["0-2", "2-4"], *Strip.removed_unit)


def test_of_a_prompt_one_part_stays():
    words = removable(make_attribution(scores=SCORES))
    assert (words.quantity, words.most) == ("log-probability", 8)
    for changes in ({"all_together": True}, {"one_by_one": False}, {"may_be_empty": True}):
        assert words._replace(**changes).most == 9


def test_labels_and_layers_have_the_words_of_their_text():
    assert len(removable(labels_and_layers()["positive"].layer(2)).parts) == len(removable(make_attribution()).parts)
