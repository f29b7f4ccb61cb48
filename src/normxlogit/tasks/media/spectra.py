"""Which seconds of a sound the numbers are of that a processor makes of it, measured with the processor itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...inputs.media.sounds import Sound

CHANGES = (0.25, 0.75)
"""Where two test sounds begin to be others, in shares of their length."""

MIN_CHANGE = 0.1
"""Share of the largest change of a frame from which on it counts as changed: normalisation changes all a little."""

MAX_SHIFT = 4
"""Frames by which the first changed one may lie off its place: spectra look at windows of several."""


@dataclass(frozen=True)
class Spectrum:
    """What a processor makes of a sound: a spectrum or samples, in rows of frames of one length.

    Attributes:
        name: The input of the model that it is.
        rows: Into how many pieces a sound is cut that are read one by one; most are one.
        frames: Frames of a row, with those that fill it up.
        frames_of_tokens: Frames of all rows that the model makes tokens of: all, or those that are not masked.
        seconds_of_frame: How long a frame is.
        tokens: How many tokens of the prompt stand for the sound.
    """

    name: str
    rows: int
    frames: int
    frames_of_tokens: int
    seconds_of_frame: float
    tokens: int

    @property
    def seconds(self) -> float:
        """At which second the last frame ends."""
        return self.rows * self.frames * self.seconds_of_frame

    @property
    def seconds_of_tokens(self) -> float:
        """At which second the last token ends."""
        return self.frames_of_tokens * self.seconds_of_frame


def spectrum_of(
    process: Callable[[Any], Mapping[str, Any]], sound: Sound, token: int | None, hop: int | None
) -> Spectrum:
    """Return what a processor makes of a sound.

    Frames follow each other in time. How long they are is measured: two test sounds of the same length are changed
    from a quarter and from three quarters of it on, and the first frames that differ are as far apart as the changes.

    Args:
        process: Returns the model's inputs for a prompt with one sound, by name.
        sound: The sound.
        token: The token that stands for a piece of a sound.
        hop: Samples from one frame of a spectrum to the next, if the processor names them.

    Raises:
        InputError: If the processor makes nothing of the sound that follows it in time.
    """
    processed = process(sound.samples)
    ids = np.asarray(processed["input_ids"]).ravel()
    features = {
        name: value
        for name, value in processed.items()
        if isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1
    }
    if not features or sound.rate is None:
        raise _not_followed_error(sound)
    name, values = max(features.items(), key=lambda feature: feature[1].numel())
    generator = np.random.default_rng(0)
    noise, other_noise = generator.normal(0, 0.1, (2, len(sound.samples))).astype(np.float32)
    before = process(noise)[name]
    starts = [round(share * len(noise)) for share in CHANGES]
    changes = [process(np.concatenate([noise[:start], other_noise[start:]]))[name] - before for start in starts]
    for axis in range(1, values.ndim):
        first, last = (_first_changed(change, axis) for change in changes)
        if last <= first:
            continue
        samples_of_frame = (starts[1] - starts[0]) / (last - first)
        if hop is not None and values.ndim > 2:
            samples_of_frame = max(1, round(samples_of_frame / hop)) * hop
        if abs(first - starts[0] / samples_of_frame) > MAX_SHIFT:
            continue
        rows, frames = values.shape[0], values.shape[axis]
        masks = (value for value in processed.values() if isinstance(value, Tensor) and not value.is_floating_point())
        read = next((int(mask.sum()) for mask in masks if mask.shape == (rows, frames)), rows * frames)
        return Spectrum(name, rows, frames, read, samples_of_frame / sound.rate, int((ids == token).sum()))
    raise _not_followed_error(sound)


def _first_changed(change: Tensor, axis: int) -> int:
    """Return the first frame that differs between two spectra, counted through all rows.

    Args:
        change: Their difference, with rows first.
        axis: The axis of frames.
    """
    by_frame = change.abs().movedim(axis, 1).flatten(2).amax(-1) if change.ndim > 2 else change.abs()  # (rows, frames)
    changed = (by_frame > MIN_CHANGE * by_frame.max()).flatten()
    return int(torch.argmax(changed.int()))


def _not_followed_error(sound: Sound) -> InputError:
    return InputError(f"the processor makes no numbers of {sound.name} that follow it in time")
