"""Pictures without some regions, where a picture is very large or very small."""

import numpy as np
from PIL import Image

from normxlogit.media.inputs.pictures import Picture


def test_the_mean_colour_of_millions_of_pixels_is_exact():
    white = Picture(Image.new("RGB", (4000, 2000), (255, 200, 50)))
    (colour,) = np.unique(np.asarray(white.without([(0, 0, 4000, 2000)]).image).reshape(-1, 3), axis=0)
    assert colour.tolist() == [255, 200, 50]


def test_a_region_smaller_than_a_pixel_takes_the_pixel_that_it_lies_in():
    picture = Picture(Image.fromarray(np.arange(9, dtype=np.uint8).reshape(1, 3, 3) * 20))
    for box, place in (((0, 0, 0.4, 1), 0), ((0.6, 0, 0.9, 1), 0), ((1.6, 0.1, 2.0, 0.3), 1), ((2.6, 0, 3, 1), 2)):
        changed = (np.asarray(picture.without([box]).image) != np.asarray(picture.image)).any((0, 2))
        assert changed.nonzero()[0].tolist() == [place]
