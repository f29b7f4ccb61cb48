from dataclasses import replace
from typing import Any

import numpy as np

from normxlogit import Attribution
from normxlogit.media.units import PictureScores, SoundScores
from normxlogit.results.units.units import Units
from tests.factories import make_attribution, make_generation


def make_media() -> Attribution:
    """Build a result of tokens generated after a picture of four patches and a sound of three moments."""
    random = np.random.default_rng(0)
    grid = np.array([[[0, 0, 8, 6], [8, 0, 16, 6]], [[0, 6, 8, 12], [8, 6, 16, 12]]], np.float32)
    picture = PictureScores(name="cat.png", first=7, places=grid, width=16, height=12)
    sound = SoundScores(
        name="cat.wav",
        first=11,
        places=np.array([[0, 0.5], [0.5, 1], [1, 1.5]], np.float32),
        seconds=1.5,
        loudness=np.array([0, 1, 0.5], np.float32),
    )
    g = make_generation()
    units = g.units
    units += picture.as_units() + sound.as_units()
    parts = np.concatenate([random.normal(size=(3, 4)), random.normal(size=(3, 3))], -1).astype(np.float32)
    return make_generation(scores=np.concatenate([g.scores, parts], -1), units=units, media=(picture, sound))


def make_signal(kind: str, **changes: Any) -> Attribution:
    """Build a result of five units of a picture or sound, the first of them a special token."""
    names = ("[0]", "0,0", "0,1", "1,0", "1,1")
    special = (True, False, False, False, False)
    units = Units(
        kind=tuple("token" if s else kind for s in special),  # type: ignore[misc]
        text=names,
        special=special,
        sequence=tuple(None if s else 0 for s in special),
    )
    base = make_attribution(("a", "b", "c", "d"), (1, -2, 3, 0), text="a b c d")
    return replace(base, scores=base.scores[:5], units=units, text=None, **changes)


def make_image() -> Attribution:
    boxes = np.array([[[0, 0, 4, 3], [4, 0, 8, 3]], [[0, 3, 4, 6], [4, 3, 8, 6]]], np.float32)
    return make_signal("patch", media=(PictureScores(name="cat.png", first=1, places=boxes, width=8, height=6),))


def make_audio() -> Attribution:
    times = np.array([[0.5 * i, 0.5 * i + 0.5] for i in range(4)], np.float32)
    return make_signal("moment", media=(SoundScores(name="cat.wav", first=1, places=times, seconds=2.0),))
