"""The seconds of a sound that each frame of its spectrum covers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ...copies.run import Inputs
from ...errors import UnsupportedModelError
from ...inputs.encoding import ScoreSpread
from ...parts.signal_entry import SignalEntry
from ...results.storage.schema import Indices, Strings
from ..inputs.sounds import Sound, moments

OF_TEXT = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "labels")
"""Outputs of a processor for the text of a prompt."""

MAX_ROUNDING = 2
"""By how many tokens half of a sound may differ from half of the tokens."""

MAX_PADDING = 4
"""By how many frames a row may differ from the length of its sound, as windows of spectra overlap."""


@dataclass(frozen=True)
class Spectrum:
    """The layout of what a processor returns for sounds of one length: a spectrum, in rows of frames.

    Attributes:
        frames_of_tokens: How many frames, over all rows, become tokens: all, or those that are not masked; None if
            that cannot be measured.
    """

    name: str  # of this input in the model's forward
    rows: int  # pieces that a sound is cut into, which the model reads one by one; mostly one
    frames: int  # of a row, with its padding
    frames_of_tokens: int | None
    seconds_of_frame: float
    tokens: int  # placeholders in the prompt for the sound

    @property
    def seconds(self) -> float:
        """The second at which the last frame ends."""
        return self.rows * self.frames * self.seconds_of_frame

    @property
    def seconds_of_tokens(self) -> float | None:
        """The second at which the last token ends; None if that cannot be measured."""
        return None if self.frames_of_tokens is None else self.frames_of_tokens * self.seconds_of_frame

    def notes(self, sound: Sound) -> Strings:
        """Return a note of a sound whose end is not read."""
        if sound.seconds is None or self.seconds >= sound.seconds - self.seconds_of_frame:
            return ()
        return (f"{sound.name} has {sound.seconds:.1f} s; only the first {self.seconds:.1f} were read",)

    def moments_of_parts(self, sound: Sound, entry: SignalEntry) -> ScoreSpread | None:
        """Return the time of each part of a sound, such as a patch, that the model's first layer makes of it.

        Parts of one moment, such as the bands of a spectrum, all get its time. None if no axis of the layer's input is
        that of the frames.
        """
        part_axes = entry.place_axes
        time_axis = next((axis for axis in part_axes if entry.input_shape[axis] == self.frames), None)
        if time_axis is None:
            return None
        steps = entry.output_shape[time_axis]
        row, *indices = np.indices((self.rows, *(entry.output_shape[axis] for axis in part_axes)))
        step_of_part = (row * steps + indices[part_axes.index(time_axis)]).ravel()  # (N,)
        spread = moments(sound, self.rows * steps, self.seconds)
        parts = np.flatnonzero(step_of_part < len(spread.where))
        return spread._replace(parts=parts, places=step_of_part[parts], shares=np.ones(len(parts)))


def spectrum_of(process: Callable[[Any], Inputs], sound: Sound, reader: Any, token: int | None) -> Spectrum:
    """Return the layout of a processor's output for sounds of the length of one.

    The frames that become tokens are either all frames or those that are not masked. It is the count that halves with
    the tokens when the sound is cut in half.

    Args:
        process: Returns the model's inputs for a prompt with one sound, by name.
        sound: The sound, whose length all sounds here have.
        reader: The feature extractor, which says how many samples there are from one frame to the next.
        token: The placeholder token of a sound.
    """
    hop = getattr(reader, "hop_length", None)
    bins = getattr(reader, "feature_size", None)
    length = len(sound.samples)
    processed, of_half = process(sound.samples), process(sound.samples[: -(-length // 2)])
    spectra = {name: value for name, value in processed.items() if _may_be_spectrum(value)}
    if hop is None or not spectra:
        raise UnsupportedModelError(f"{type(reader).__name__} does not say how long a frame of a sound is")
    name, values = max(spectra.items(), key=lambda spectrum: spectrum[1].numel())
    axis = 1 if values.shape[2] == bins else 2  # of frames: the other one is that of frequencies
    rows, frames = values.shape[0], values.shape[axis]
    whole, half = (_counts(of, name, axis, token) for of in (processed, of_half))
    read, kept, tolerance = min(length / hop, rows * frames), whole.frames[0], MAX_PADDING * rows  # a long sound is cut
    if kept < read - tolerance or read + tolerance < kept < rows * frames:
        raise UnsupportedModelError(
            f"{type(reader).__name__} makes {kept} frames of {length} samples, and not one every {hop} "
            "samples, so the moments of a sound cannot be told"
        )
    return Spectrum(name, rows, frames, _frames_of_tokens(whole, half), hop / reader.sampling_rate, whole.tokens)


def _may_be_spectrum(value: Any) -> bool:
    """Return whether an output of a processor has the axes of a spectrum, rows of frames."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 3


class _Counts(NamedTuple):
    """The number of placeholder tokens of a sound, and the numbers of frames that they may belong to."""

    tokens: int
    frames: Indices


def _frames_of_tokens(whole: _Counts, half: _Counts) -> int | None:
    """Return the number of frames that tokens belong to, which halves as theirs does; None if none does."""
    for count, count_of_half in zip(whole.frames, half.frames, strict=True):
        if abs(whole.tokens * count_of_half / count - half.tokens) <= MAX_ROUNDING:
            return count
    return None


def _counts(processed: Inputs, name: str, axis: int, token: int | None) -> _Counts:
    """Return the number of placeholder tokens of a sound, and the numbers of frames that they may belong to.

    These are the frames that the processor's mask keeps, if it returns a mask, and all frames, on an axis of the
    spectrum of a name.
    """
    shape = (processed[name].shape[0], processed[name].shape[axis])
    tensors = [value for key, value in processed.items() if key not in OF_TEXT and isinstance(value, Tensor)]
    masks = [value for value in tensors if value.shape == shape and bool(((value == 0) | (value == 1)).all())]
    kept_frames = [max(int(mask.sum()), 1) for mask in masks[:1]]
    tokens = int((np.asarray(processed["input_ids"]) == token).sum())
    return _Counts(tokens, (*kept_frames, shape[0] * shape[1]))
