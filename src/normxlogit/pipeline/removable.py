"""What of an input can be removed at a time: words or tokens, regions of pictures, moments of sounds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..results.attribution import Attribution
from ..results.units.media import Medium
from ..results.units.words import UnitScore
from ..results.verification import RemovedBy, Unit

REGIONS = 8
"""Most regions of a picture in a row or a column: a single patch of many seldom matters."""

MOMENT = 0.25
"""Seconds of a sound that are silenced at a time, at least."""


class Removable(NamedTuple):
    """The parts of an input that can be removed, what they are, and what happens to them."""

    parts: list[UnitScore]
    unit: Unit
    removed_by: RemovedBy


def removable(a: Attribution, fixed: int | None = None) -> Removable:
    """Return what can be removed from an input: words, or tokens where words are not known; regions; moments.

    Args:
        a: The explanation, with one score for each unit.
        fixed: A token that stays, unless there is nothing else.
    """
    if a.has_text:
        parts = with_spaces_before(_text_parts(a))
        parts = [part for part in parts if fixed not in part.tokens] or parts
        return Removable(parts, "word" if a.has_words else "token", "deleted")
    if a.images:
        count = len(a.images)
        names = [f" of picture {number}" if count > 1 else "" for number in range(1, count + 1)]
        regions = [part for image, name in zip(a.images, names, strict=True) for part in _regions(image, name)]
        return Removable(regions, "region", "replaced")
    moments = [
        part._replace(tokens=tuple(sound.first + moment for moment in part.tokens))
        for sound in a.audio
        for part in moments_of(sound)
    ]
    return Removable(moments, "moment", "silenced")


def _text_parts(a: Attribution) -> list[UnitScore]:
    if a.has_words:
        return a.words()
    plain = [i for i, special in enumerate(a.units.special) if not special and a.units.kind[i] == "token"]
    return [UnitScore(a.tokens[i], (i,), float(a.scores[i])) for i in plain]


def with_spaces_before(parts: Sequence[UnitScore]) -> list[UnitScore]:
    """Return the parts that are not white space, each with the token of the space before it, if it is one by itself.

    So it is before numbers, in most tokenizers of language models. Left where it is, it would be a second space.
    """
    visible: list[UnitScore] = []
    spaces: tuple[int, ...] = ()
    for part in parts:
        if part.text.strip():
            visible.append(part._replace(tokens=(*spaces, *part.tokens)))
        spaces = part.tokens if part.text and not part.text.strip(" ") else ()
    return visible


def _regions(image: Medium, ending: str) -> list[UnitScore]:
    """Return squares of patches, at most `REGIONS` in a row or column; `ending` says which picture's."""
    side = -(-max(image.shape) // REGIONS)
    groups: dict[tuple[int, int], list[int]] = {}
    for patch, (row, column) in enumerate(np.ndindex(*image.shape)):
        groups.setdefault((row // side, column // side), []).append(patch)
    last = side - 1
    return [
        UnitScore(
            f"{row * side},{column * side}"
            + (f" to {row * side + last},{column * side + last}" if last else "")
            + ending,
            tuple(image.first + patch for patch in patches),
            _sum(image, patches),
        )
        for (row, column), patches in groups.items()
    ]


def moments_of(sound: Medium) -> list[UnitScore]:
    """Return moments of `MOMENT` seconds, or of a frame where frames are longer; their tokens are frames of the sound.

    Args:
        sound: A sound with scores of its frames; of several answers their sum counts.
    """
    times = sound.times.tolist()
    groups: dict[int, list[int]] = {}
    for frame, (start, end) in enumerate(times):
        if end > start:
            groups.setdefault(int((start + end) / 2 / MOMENT), []).append(frame)
    parts = []
    for frames in groups.values():
        start, end = min(times[i][0] for i in frames), max(times[i][1] for i in frames)
        parts.append(UnitScore(f"{start:.2f}-{end:.2f} s", tuple(frames), _sum(sound, frames)))
    return parts


def _sum(medium: Medium, parts: Sequence[int]) -> float:
    units = medium.scores.reshape(-1, int(np.prod(medium.shape)))  # (answers, units)
    return float(units[:, parts].sum())
