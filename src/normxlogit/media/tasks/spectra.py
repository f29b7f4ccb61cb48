"""The seconds of a sound that each frame of its spectrum covers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ...copies.module_io import Inputs
from ...errors import UnsupportedModelError
from ...inputs.encoded_media import ScoreSpread
from ...parts.signal_entry import SignalEntry
from ...results.storage.schema import Strings
from ..inputs.sounds import Sound, moments

OF_TEXT = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "labels")
"""Outputs of a processor for the text of a prompt."""

MAX_ROUNDING = 2
"""By how many tokens half of a sound may differ from half of the tokens of the whole."""

MAX_PADDING = 4
"""By how many frames a row may differ from the length of its sound, as the windows of a spectrum overlap."""


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
        """Return a note if the end of a sound is not read; nothing else.

        Args:
            sound: A sound of the length that this layout is for.
        """
        # A last frame that the sound only begins may be missing.
        if sound.seconds is None or self.seconds >= sound.seconds - self.seconds_of_frame:
            return ()
        return (f"{sound.name} has {sound.seconds:.1f} s; only the first {self.seconds:.1f} were read",)

    def moments_of_parts(self, sound: Sound, entry: SignalEntry) -> ScoreSpread | None:
        """Return the moment of each part of a sound that the model's first layer makes of it, such as a patch.

        Parts of one moment, such as the bands of a spectrum, all get its time.

        Args:
            sound: The sound.
            entry: The first layer.

        Returns:
            The moments, and the parts of each; None if no axis of the layer's input is that of the frames.
        """
        part_axes = entry.place_axes
        time_axis = next((axis for axis in part_axes if entry.input_shape[axis] == self.frames), None)
        if time_axis is None:
            return None
        steps = entry.output_shape[time_axis]  # how many steps of time the first layer makes of a row
        parts_shape = (self.rows, *(entry.output_shape[axis] for axis in part_axes))
        row, *indices = np.indices(parts_shape)  # each part's row, and its index along each other axis
        step_of_part = (row * steps + indices[part_axes.index(time_axis)]).ravel()  # (N,), over all rows
        spread = moments(sound, self.rows * steps, self.seconds)
        parts = np.flatnonzero(step_of_part < len(spread.where))  # but those behind the end of the sound
        return spread._replace(parts=parts, places=step_of_part[parts], shares=np.ones(len(parts)))


def spectrum_of(process: Callable[[Any], Inputs], sound: Sound, reader: Any, token: int | None) -> Spectrum:
    """Return the layout of a processor's output for sounds of some length.

    The frames that become tokens are either all frames or those that are not masked. It is the count that halves with
    the tokens when the sound is cut in half.

    Args:
        process: Returns the model's inputs for a prompt with one sound, by name.
        sound: A sound of this length.
        reader: The feature extractor, which says how many samples there are from one frame to the next.
        token: The placeholder token of a sound; None if the model names none.

    Raises:
        UnsupportedModelError: If the processor returns no spectrum, or frames of another length than it says.
    """
    hop = getattr(reader, "hop_length", None)  # samples from one frame to the next
    length = len(sound.samples)
    processed = process(sound.samples)
    spectra = {name: value for name, value in processed.items() if _may_be_spectrum(value)}
    if hop is None or not spectra:
        raise UnsupportedModelError(f"{type(reader).__name__} does not say how long a frame of a sound is")
    name, values = max(spectra.items(), key=lambda spectrum: spectrum[1].numel())  # of several the largest
    has_frames_first = values.shape[2] == getattr(reader, "feature_size", None)  # (rows, frames, frequencies)
    time_axis = 1 if has_frames_first else 2
    rows = values.shape[0]
    frames = values.shape[time_axis]
    whole = _counts(processed, name, time_axis, token)
    half = _counts(process(sound.samples[: math.ceil(length / 2)]), name, time_axis, token)
    _check_frame_count(reader, length, rows, frames, visible=whole.visible_frames)
    return Spectrum(
        name=name,
        rows=rows,
        frames=frames,
        frames_of_tokens=_frames_of_tokens(whole, half),
        seconds_of_frame=hop / reader.sampling_rate,
        tokens=whole.tokens,
    )


def _check_frame_count(reader: Any, length: int, rows: int, frames: int, visible: int) -> None:
    """Refuse a spectrum whose frames are not `hop_length` samples apart.

    Args:
        reader: The feature extractor.
        length: How many samples the sound has.
        rows: How many rows the spectrum has.
        frames: How many frames a row has, with its padding.
        visible: How many frames, over all rows, are not masked; all if there is no mask.
    """
    expected = min(length / reader.hop_length, rows * frames)  # a longer sound is cut
    tolerance = MAX_PADDING * rows
    # Where all frames are visible there may be no mask, and padding among them: then they cannot be too many.
    if visible < expected - tolerance or expected + tolerance < visible < rows * frames:
        raise UnsupportedModelError(
            f"{type(reader).__name__} makes {visible} frames of {length} samples, and not one every "
            f"{reader.hop_length} samples, so the moments of a sound cannot be told"
        )


def _may_be_spectrum(value: Any) -> bool:
    """Return whether an output of a processor has the axes of a spectrum, rows of frames."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 3


class _Counts(NamedTuple):
    """How many placeholder tokens and how many frames a sound has."""

    tokens: int
    visible_frames: int  # those that are not masked; all if the processor returns no mask
    all_frames: int


def _frames_of_tokens(whole: _Counts, half: _Counts) -> int | None:
    """Return the number of frames that tokens belong to: the one that halves as theirs does; None if neither does."""
    visible = (whole.visible_frames, half.visible_frames)
    for frames, frames_of_half in (visible, (whole.all_frames, half.all_frames)):
        if abs(whole.tokens * frames_of_half / frames - half.tokens) <= MAX_ROUNDING:
            return frames
    return None


def _counts(processed: Inputs, name: str, time_axis: int, token: int | None) -> _Counts:
    """Count the placeholder tokens and the frames of a sound.

    Args:
        processed: The model's inputs for a prompt with the sound.
        name: The spectrum among them.
        time_axis: Its axis of frames.
        token: The placeholder token.
    """
    mask_shape = (processed[name].shape[0], processed[name].shape[time_axis])  # rows and frames
    tensors = [value for key, value in processed.items() if key not in OF_TEXT and isinstance(value, Tensor)]
    masks = [value for value in tensors if value.shape == mask_shape and bool(((value == 0) | (value == 1)).all())]
    all_frames = math.prod(mask_shape)
    return _Counts(
        tokens=int((np.asarray(processed["input_ids"]) == token).sum()),
        visible_frames=max(int(masks[0].sum()), 1) if masks else all_frames,  # counts are divided by it: never 0
        all_frames=all_frames,
    )
