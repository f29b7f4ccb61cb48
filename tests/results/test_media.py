"""What a result keeps of something beside a text, by a kind of medium that an extension could add."""

import re
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest

from normxlogit import Attribution, Attributions, DataError, InputError
from normxlogit.extending import registered
from normxlogit.leave_out.removable import removable
from normxlogit.render.blocks import Paragraph
from normxlogit.render.cards import results_page
from normxlogit.render.text import attribution_blocks
from normxlogit.results.storage.schema import Number
from normxlogit.results.units.media import Medium, overlap
from tests.contract.compare import comes_back
from tests.factories import make_attribution

SCORES = (0.1, -0.2, 0.0, 1.5, 0.7, 0.05, 0.4, 0.3, 3.0, -0.6)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Strip(Medium):
    """A row of cells, each of length one."""

    unit_kind: ClassVar = "cell"
    parts_name: ClassVar = "cells"
    removed_unit: ClassVar = ("region", "replaced")

    kind: str = "strip"
    length: Number = 0.0

    @classmethod
    def is_region(cls, item, *, has_text=True):
        return isinstance(item, tuple) and len(item) == 3

    @classmethod
    def regions(cls, media, named):
        return {name: (int(number), (start, end)) for name, (number, start, end) in named.items()}

    @property
    def extent(self):
        return (self.length,)

    @staticmethod
    def place_name(place):
        return f"{place[0]:g}-{place[1]:g}"

    def removed_together(self):
        return np.arange(*self.shape) // 2

    def block(self, *, signed, first=None, alone=True):
        return Paragraph(f"{self.name}, alone" if alone else self.name)


@pytest.fixture(autouse=True)
def registered_kind(monkeypatch):
    monkeypatch.setitem(registered("media"), "strip", Strip)


def test_a_region_that_two_kinds_could_have_is_of_a_medium_that_is_there(monkeypatch):
    pytest.importorskip("normxlogit.media")  # whose sounds have pairs of numbers
    regions = {"is_region": lambda item, has_text=True: isinstance(item, tuple) and len(item) == 2}
    regions["regions"] = lambda media, named: {name: (0, item) for name, item in named.items()}
    for name, function in regions.items():
        monkeypatch.setattr(Strip, name, staticmethod(function))
    assert with_strips(4).group({"start": (0.5, 2.0)}).units.name[0] == "start"


def test_a_kind_without_a_figure_says_so():
    with pytest.raises(DataError, match="there is no figure of inputs of the kind strip"):
        with_strips(2).media[0].figure(None, None)


def cells(count):
    starts = np.arange(count, dtype=np.float32)
    return np.stack([starts, starts + 1], -1)


def with_strips(*counts) -> Attribution:
    """Return a result of a text and strips of cells, whose scores are 1, 2, 3..."""
    a, media = make_attribution(scores=SCORES), []
    units, scores = a.units, a.scores
    for number, count in enumerate(counts):
        name, first = f"strip {number + 1}", len(units)
        medium = Strip(name=name, first=first, places=cells(count), length=float(count))
        media.append(medium)
        units += medium.as_units()
        scores = np.concatenate([scores, np.arange(1, count + 1, dtype=np.float32)])
    return replace(a, units=units, scores=scores, media=tuple(media))


def scores_by_name(a):
    return dict(zip(a.units.names, a.scores.tolist(), strict=True))


def test_regions_take_the_share_of_each_cell_that_lies_in_them_and_leave_the_rest():
    a = with_strips(4, 3)
    regions = a.group({"left": (0, 0.0, 2.5), "right": (1, 1.0, 3.0), "word": (4, 9)})
    by_name = scores_by_name(regions)
    assert by_name["left"] == pytest.approx(1 + 2 + 3 / 2)
    assert by_name["right"] == pytest.approx(2 + 3)
    assert by_name["word"] == pytest.approx(-0.2)
    assert regions.scores.sum() == pytest.approx(a.scores.sum(), abs=1e-5)
    with pytest.raises(InputError, match="'a' and 'b' overlap"):
        a.group({"a": (0, 0.0, 2.0), "b": (0, 1.0, 3.0)})
    touching = a.group({"a": (0, 0.0, 2.0), "b": (0, 2.0, 3.0), "c": (1, 0.0, 3.0)})
    assert [scores_by_name(touching)[name] for name in "abc"] == [3.0, 3.0, 6.0]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_places_overlap_where_they_have_a_cell_in_common(axes):
    sides = [(0, 1), (1, 3), (2, 4), (0, 4), (3, 4)]
    places = [(*zip(*chosen, strict=True),) for chosen in product(sides, repeat=axes)]
    for (low, high), (second_low, second_high) in product(places, repeat=2):
        covered = set(product(*(range(*side) for side in zip(low, high, strict=True))))
        second = set(product(*(range(*side) for side in zip(second_low, second_high, strict=True))))
        assert overlap((*low, *high), (*second_low, *second_high)) == bool(covered & second)


def test_a_medium_is_told_whether_it_is_the_only_one():
    def names(a):
        return [block.text for block in attribution_blocks(a) if isinstance(block, Paragraph) and "strip" in block.text]

    assert names(with_strips(4)) == ["strip 1, alone"]
    assert names(with_strips(4, 3)) == ["strip 1", "strip 2"]


def test_words_and_whole_media_are_groups():
    words = with_strips(4, 3).group("word")
    assert {"strip 1": 10.0, "strip 2": 6.0}.items() <= scores_by_name(words).items()
    assert {"movie", "mediocre", "bad"} <= {text.strip(" ,.") for text in words.units.text}


def test_parts_that_can_be_left_out_say_of_which_medium_they_are_only_where_there_are_several():
    one, two = removable(with_strips(4)), removable(with_strips(4, 3))
    assert [part.text for part in one.parts][-2:] == ["region 0-2", "region 2-4"]
    assert [part.text for part in two.parts][-2:] == ["region 0-2 of strip 2", "region 2-3 of strip 2"]
    assert [part.score for part in two.parts][-4:] == [3.0, 7.0, 3.0, 3.0]
    assert [len(part.tokens) for part in two.parts][-2:] == [2, 1]


def test_a_result_with_media_comes_back_from_files(tmp_path):
    a = with_strips(4, 3)
    comes_back(a, tmp_path)
    assert [medium.total.item() for medium in a.scored_media] == [10.0, 6.0]


def test_a_result_is_named_by_its_text_and_its_media():
    page = results_page(Attributions([with_strips(4, 3), make_attribution()]))
    assert re.search(r'href="#result-1"[^>]*>[^<]*strip 1 / strip 2<', page)
    assert re.search(r'href="#result-2"[^>]*>[^<]*bad\.<', page)
