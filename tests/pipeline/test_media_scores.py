"""What is read of scores for something beside a text, by a kind of medium that an extension could add."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from normxlogit import UnsupportedModelError
from normxlogit.inputs.encoded_media import EncodedMedium, ScoreSpread
from normxlogit.inputs.encoding import Encoding
from normxlogit.methods import Scores
from normxlogit.pipeline.media_scores import appended, split_media_scores
from tests.factories import make_attribution
from tests.results.test_media import cells, registered_kind

__all__ = ["registered_kind"]  # a fixture


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


@pytest.mark.parametrize("has_other", [True, False])
def test_the_other_way_to_read_a_medium_is_named_where_there_is_one(has_other):
    """Of a medium whose patches have no place, its tokens may have one, and the other way round."""
    known = encoded("first", (1, 2), 4)
    by_patches = replace(known, by_token=known.by_token if has_other else None)
    scores = Scores(torch.ones(1, 1, 6), parts=torch.ones(1, 1, 4))
    with pytest.raises(UnsupportedModelError, match="read_at=1 reads its tokens$" if has_other else "no grid$"):
        split_media_scores(prompt(by_patches), scores)


def test_scores_of_patches_go_to_their_places():
    spread = ScoreSpread(cells(4), np.arange(4), np.arange(4), np.array([1.0, 1.0, 1.0, 0.5]))
    medium = replace(encoded("first", (1, 2), 4), by_part=spread)
    scores = Scores(torch.ones(1, 1, 6), bias=torch.ones(1, 1), parts=torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]))
    of_text, placed = split_media_scores(prompt(medium), scores)
    assert placed[0].scores[0, 0].tolist() == [1, 2, 3, 2]
    assert of_text.values[0, 0].tolist() == [1, 0, 0, 1, 1, 1]
    assert (of_text.bias.item(), of_text.parts) == (3.0, None), "what has no place is the bias's"
