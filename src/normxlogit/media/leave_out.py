"""Pictures without some regions, and sounds without some moments."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..inputs.encoding import EncodedSignal, Encoding
from .inputs.pictures import Picture
from .inputs.sounds import Sound

Floats = npt.NDArray[np.float32]

Box = Sequence[float]
"""Left, top, right and bottom, in pixels."""

Span = Sequence[float]
"""Beginning and end, in seconds."""

SPECTRUM_STEP = 0.01
"""Seconds of a frame of a spectrogram, as feature extractors compute them."""


def without_parts(encoding: Encoding, tokens: Sequence[int]) -> Encoding:
    """Return a sound without some moments, or a picture without some patches; only sounds have times."""
    remove = _silenced if _signal_of(encoding).times else _without_regions
    return remove(encoding, tokens)


def _without_regions(encoding: Encoding, tokens: Sequence[int]) -> Encoding:
    """Return a picture in which patches have the mean colour of what surrounds them.

    Args:
        encoding: A picture whose patches form a grid.
        tokens: The tokens of the patches.
    """
    signal = _signal_of(encoding)
    rows, columns, first_patch = signal.grid
    inputs = dict(signal.inputs)
    name, pixels = next((name, value) for name, value in inputs.items() if value.ndim == 3)  # (C, H, W)
    height, width = pixels.shape[1:]
    places = [divmod(token - first_patch, columns) for token in tokens]
    boxes = [
        (column * width / columns, row * height / rows, (column + 1) * width / columns, (row + 1) * height / rows)
        for row, column in places
    ]
    filled = filled_by_surroundings(np.moveaxis(pixels.float().numpy(), 0, -1), boxes)  # (H, W, C)
    inputs[name] = torch.from_numpy(np.moveaxis(filled, -1, 0).copy()).to(pixels.dtype)
    return replace(encoding, signal=replace(signal, inputs=inputs))


def without_places(medium: Picture | Sound, places: Sequence[Box | Span]) -> Picture | Sound:
    """Return a picture without some regions, or a sound without some moments."""
    if not places:
        return medium
    return picture_without(medium, places) if isinstance(medium, Picture) else sound_without(medium, places)


def picture_without(picture: Picture, boxes: Sequence[Box]) -> Picture:
    """Return a picture in which regions have the mean colour of what surrounds them; boxes are in its pixels."""
    from PIL import Image

    filled = filled_by_surroundings(np.asarray(picture.image, np.float32), boxes)
    return replace(picture, image=Image.fromarray(filled.round().astype(np.uint8)))


def filled_by_surroundings(pixels: Floats, boxes: Sequence[Box]) -> Floats:
    """Return a picture in which each of some boxes has the mean colour of the nearest pixels that stay.

    Those are within a box of the same size on each side; where all of these are removed too, within two of them, and
    so on. Of a picture that is removed whole it is the mean colour of all.

    Args:
        pixels: The picture, (H, W, C).
        boxes: Left, top, right and bottom of what is removed; pixels are removed whose centres lie in a box.
    """
    height, width = pixels.shape[:2]
    inside = [_pixels_in(box, height, width) for box in boxes]
    removed = np.zeros((height, width), bool)
    for rows, columns in inside:
        removed[rows, columns] = True
    filled = pixels.copy()
    for (left, top, right, bottom), pixels_inside in zip(boxes, inside, strict=True):
        wide, high = right - left, bottom - top
        surroundings = pixels.reshape(height * width, -1)  # (n, C)
        for distance in range(1, math.ceil(max(width / wide, height / high)) + 1):
            expanded = left - distance * wide, top - distance * high, right + distance * wide, bottom + distance * high
            near = _pixels_in(expanded, height, width)
            if not removed[near].all():
                surroundings = pixels[near][~removed[near]]
                break
        filled[pixels_inside] = surroundings.mean(0, dtype=np.float64)  # float32 would lose the millionth pixel
    return filled


def _pixels_in(box: Box, height: int, width: int) -> tuple[slice, slice]:
    """Return the rows and columns of the pixels whose centres lie in a box, or of the one around a smaller box."""
    left, top, right, bottom = box
    return _places_in(top, bottom, height), _places_in(left, right, width)


def _places_in(start: float, end: float, length: int) -> slice:
    """Return the pixels in a row or column from one edge of a box to the other."""
    first, last = math.ceil(start - 0.5), math.ceil(end - 0.5)
    if first >= last:  # the box lies between two centres
        first = min(math.floor((start + end) / 2), length - 1)
        last = first + 1
    return slice(max(0, first), min(length, max(0, last)))


def sound_without(sound: Sound, spans: Sequence[Span]) -> Sound:
    """Return a sound that is silent from and to some seconds; its rate is known."""
    samples, rate = sound.samples.copy(), sound.rate or 1
    for start, end in spans:
        samples[round(start * rate) : round(end * rate)] = 0
    return replace(sound, samples=samples)


def _silenced(encoding: Encoding, tokens: Sequence[int]) -> Encoding:
    """Return a sound with some moments silenced: samples are zero, spectra at the minimum of the sound.

    Args:
        encoding: A sound whose tokens have times.
        tokens: The tokens of the moments.
    """
    signal = _signal_of(encoding)
    inputs = dict(signal.inputs)
    name, values = next((name, value) for name, value in inputs.items() if value.is_floating_point())
    changed = values.clone()
    spans = [signal.times[token] for token in tokens]
    axis, seconds = _time_axis(signal, values)
    length = values.shape[axis]
    floor = 0.0 if values.ndim == 1 else float(values.min())
    for start, end in spans:
        first, last = round(start / seconds * length), round(end / seconds * length)
        changed.narrow(axis, first, max(0, min(last, length) - first)).fill_(floor)
    inputs[name] = changed
    return replace(encoding, signal=replace(signal, inputs=inputs))


def _time_axis(signal: EncodedSignal, values: Tensor) -> tuple[int, float]:
    """Return the time axis, and its duration in seconds."""
    ends = max(end for _, end in signal.times)
    if values.ndim == 1:
        return 0, ends
    if signal.grid[0]:  # (time, bins), cut into patches that need not reach the end
        return 0, values.shape[0] * SPECTRUM_STEP
    return int(values.shape[1] > values.shape[0]), ends


def _signal_of(encoding: Encoding) -> EncodedSignal:
    """Return the picture or sound of an encoding."""
    if encoding.signal is None:
        raise ValueError("not a picture or a sound")
    return encoding.signal
