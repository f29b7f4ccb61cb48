import numpy as np
import pytest

from normxlogit.errors import InputError
from normxlogit.inputs.encoding import ScoreSpread
from normxlogit.results.units.spans import regions_of, share_inside
from tests.media.factories import make_media


def test_a_spread_keeps_the_sum_and_puts_each_part_in_its_place():
    spread = ScoreSpread(
        np.zeros((2, 2, 4), np.float32), np.array([0, 1, 1]), np.array([3, 0, 1]), np.array([1.0, 0.25, 0.75])
    )
    found = spread(np.array([[2.0, 4.0]]))
    assert found.tolist() == [[[1.0, 3.0], [0.0, 2.0]]]


def test_a_region_has_the_patches_by_the_share_of_their_area_in_it():
    (image,) = make_media().images  # four patches of 8 x 6 pixels
    s = image.scores
    expected = s[:, 0, 0] / 2 + s[:, 0, 1] + s[:, 1, 0] / 2 / 3 + s[:, 1, 1] / 3
    inside = share_inside(image, (4, 0, 16, 8))
    np.testing.assert_allclose((image.scores * inside).sum((1, 2)), expected, rtol=1e-5)
    sums = make_media().group({"a": (4, 0, 16, 8)})
    region = sums.units.name.index("a")
    np.testing.assert_allclose(sums.scores[:, region], expected, rtol=1e-5)
    np.testing.assert_allclose(sums.scores.sum(1), make_media().scores.sum(1), rtol=1e-5)  # the rest is there too


def test_regions_of_several_pictures_are_named_with_their_number():
    sizes = [(8, 6), (8, 6)]
    regions = regions_of({"a": (1, 0, 0, 8, 6), "b": [0, 0, 0, 8, 6], "words": (0, 3)}, sizes)
    assert regions == {"a": (1, (0, 0, 8, 6)), "b": (0, (0, 0, 8, 6))}
    with pytest.raises(InputError, match="2 pictures"):
        regions_of({"a": (0, 0, 8, 6)}, sizes)
