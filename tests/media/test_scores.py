import numpy as np

from tests.media.factories import make_media


def test_a_region_has_the_patches_by_the_share_of_their_area_in_it():
    (image,) = make_media().images  # four patches of 8 x 6 pixels
    s = image.scores
    expected = s[:, 0, 0] / 2 + s[:, 0, 1] + s[:, 1, 0] / 2 / 3 + s[:, 1, 1] / 3
    inside = image.share_inside((4, 0, 16, 8))
    np.testing.assert_allclose((image.scores * inside).sum((1, 2)), expected, rtol=1e-5)
    sums = make_media().group({"a": (4, 0, 16, 8)})
    region = sums.units.name.index("a")
    np.testing.assert_allclose(sums.scores[:, region], expected, rtol=1e-5)
    np.testing.assert_allclose(sums.scores.sum(1), make_media().scores.sum(1), rtol=1e-5)  # the rest is there too
