import numpy as np

from tests.media.factories import make_audio, make_image


def test_pictures_and_sounds_are_drawn_where_their_parts_are():
    picture, sound = make_image(), make_audio()
    (patches,) = picture.plot().get_axes()[0].collections
    alphas, sizes = patches.get_facecolor()[:, 3], np.abs(picture.images[0].scores.ravel())
    np.testing.assert_allclose(alphas / alphas.max(), sizes / sizes.max(), rtol=1e-6)
    (below,) = [axes for axes in sound.plot().get_axes() if axes.get_xlabel() == "seconds"]
    scores = sound.audio[0].scores
    np.testing.assert_allclose(below.collections[0].get_array()[0], scores / np.abs(scores).max(), rtol=1e-6)
    assert below.get_xlim() == (0, 2)
