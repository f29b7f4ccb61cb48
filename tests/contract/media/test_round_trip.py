"""Results of pictures and sounds check what a file holds."""

import pytest

from normxlogit import Attribution
from normxlogit.errors import DataError
from tests.media.factories import make_audio, make_image


def test_pictures_and_sounds_check_their_own_fields():
    image = make_image().to_dict()
    sound = make_audio().to_dict()
    for state, changes in (
        (image, {"first": 2}),
        (image, {"width": 0}),
        (image, {"places": [[0.0, 1.0]]}),
        (image, {"kind": "film"}),
        (sound, {"places": [[0.0, 1.0, 2.0]] * 4}),
        (sound, {"first": -1}),
    ):
        broken = state | {"media": [state["media"][0] | changes]}
        with pytest.raises(DataError, match="not an attribution: "):
            Attribution.from_dict(broken)
