"""What a result keeps of something beside a text, by a kind of medium that an extension could add."""

from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
import torch

from normxlogit import Attribution, InputError, UnsupportedModelError
from normxlogit.extending import registered
from normxlogit.inputs.encoding import EncodedMedium, Encoding, ScoreSpread
from normxlogit.leave_out.removable import removable
from normxlogit.methods import Scores
from normxlogit.pipeline.media_scores import appended, split_media_scores
from normxlogit.render.blocks import Paragraph
from normxlogit.render.text import attribution_blocks
from normxlogit.results.storage.schema import Number
from normxlogit.results.units.media import Medium, overlap
from tests.contract.compare import comes_back
from tests.factories import make_attribution

SCORES = (0.1, -0.2, 0.0, 1.5, 0.7, 0.05, 0.4, 0.3, 3.0, -0.6)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Strip(Medium):
    """A row of cells, each of length one."""

    unit_kind: ClassVar = "patch"
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


def prompt(*media) -> Encoding:
    """Return a prompt of six tokens."""
    count = 6
    ids = {"input_ids": list(range(count))}
    columns = (("a",) * count, None, None, (0,) * count, (False,) * count)
    return Encoding(ids, *columns, media=media)


def encoded(name, tokens, count, *, lost=0.0) -> EncodedMedium:
    """Return a strip for which tokens stand, each for two cells; of the last one a share is in no place."""
    parts = np.repeat(np.arange(len(tokens)), 2)
    shares = np.full(2 * len(tokens), 0.5)
    shares[-1] -= lost
    spread = ScoreSpread(cells(count), parts, np.arange(2 * len(tokens)), shares)
    return EncodedMedium("strip", name, tokens, spread, None, (float(count),), {"length": float(count)})


def test_scores_of_the_tokens_that_stand_for_media_go_to_their_places():
    context = prompt(encoded("first", (1, 2), 4), encoded("second", (4,), 2, lost=0.25))
    values = torch.arange(1.0, 13.0).reshape(2, 1, 6)  # (G, L, T)
    scores = Scores(values, bias=torch.tensor([[1.0], [2.0]]))
    of_text, placed = split_media_scores(context, scores)
    assert of_text.values[0, 0].tolist() == [1, 0, 0, 4, 0, 6]
    np.testing.assert_allclose(placed[0].scores[:, 0], [[1, 1, 1.5, 1.5], [4, 4, 4.5, 4.5]])
    np.testing.assert_allclose(placed[1].scores[:, 0], [[2.5, 1.25], [5.5, 2.75]])
    assert of_text.bias[:, 0].tolist() == [2.25, 4.75], "what has no place is the bias's"
    units = make_attribution(special=False).units
    start = np.zeros((2, len(units)), np.float32)
    all_units, all_scores, media = appended(units, start, placed, layers=False)
    assert [(medium.name, medium.first, medium.units.stop) for medium in media] == [
        ("first", len(units), len(units) + 4),
        ("second", len(units) + 4, len(all_units)),
    ]
    assert all_scores[0, len(units) :].tolist() == [1, 1, 1.5, 1.5, 2.5, 1.25]
    assert split_media_scores(prompt(), scores) == (scores, [])


class Frames:
    """A sound that an encoder reads beside the tokens."""

    def medium(self, frames):
        """Return a strip with a cell for each frame."""
        every = np.arange(frames)
        spread = ScoreSpread(cells(frames), every, every, np.ones(frames))
        return EncodedMedium("strip", "sound", (), None, spread, (float(frames),), {"length": float(frames)})


def test_the_frames_of_an_encoder_come_before_the_tokens():
    values = torch.arange(1.0, 10.0)[None, None]  # (1, 1, 3 + 6)
    context = replace(prompt(), signal=Frames())
    of_text, placed = split_media_scores(context, Scores(values, bias=torch.ones(1, 1)))
    assert of_text.values[0, 0].tolist() == [4, 5, 6, 7, 8, 9]
    assert placed[0].scores[0, 0].tolist() == [1, 2, 3]
    assert of_text.bias.tolist() == [[1.0]]


def test_scores_without_a_place_are_refused():
    unknown = replace(encoded("first", (1, 2), 4), by_token=None)
    with pytest.raises(UnsupportedModelError, match="which part of first a score belongs to"):
        split_media_scores(prompt(unknown), Scores(torch.ones(1, 1, 6)))
