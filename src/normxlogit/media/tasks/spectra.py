"""The seconds of a sound that each frame of its spectrum covers, measured with the processor itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...inputs.encoding import ScoreSpread
from ...parts.signal_entry import SignalEntry
from ..inputs.sounds import Sound, moments

CHANGES = (0.25, 0.75)
"""Where the two test sounds are changed, as shares of their length."""

OF_TEXT = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "labels")
"""Outputs of a processor for the text of a prompt."""

SHORTEST_CHANGE = 1000
"""Sounds of at most so many samples are too short to measure frames."""

MIN_CHANGE = 0.1
"""A frame counts as changed from this share of the largest change on; normalisation changes all frames a little."""

MAX_ROUNDING = 2
"""By how many tokens half of a sound may differ from half of the tokens."""

MAX_SHIFT = 4
"""By how many frames the first changed one may be displaced, as windows of spectra overlap."""


@dataclass(frozen=True)
class Spectrum:
    """The layout of what a processor returns for sounds of one length: a spectrum or samples, in rows of frames.

    Attributes:
        name: The name of this input in the model's forward.
        rows: The number of pieces that a sound is cut into, which the model reads one by one; mostly one.
        frames: Frames of a row, with its padding.
        frames_of_tokens: How many frames, over all rows, become tokens: all, or those that are not masked; None if
            that cannot be measured.
        seconds_of_frame: The duration of a frame.
        tokens: The number of placeholder tokens in the prompt for the sound.
    """

    name: str
    rows: int
    frames: int
    frames_of_tokens: int | None
    seconds_of_frame: float
    tokens: int

    @property
    def seconds(self) -> float:
        """The second at which the last frame ends."""
        return self.rows * self.frames * self.seconds_of_frame

    @property
    def seconds_of_tokens(self) -> float | None:
        """The second at which the last token ends; None if that cannot be measured."""
        return None if self.frames_of_tokens is None else self.frames_of_tokens * self.seconds_of_frame

    def notes(self, sound: Sound) -> tuple[str, ...]:
        """Return a note of a sound whose end is not read."""
        if sound.seconds is None or self.seconds >= sound.seconds - self.seconds_of_frame:
            return ()
        return (f"{sound.name} has {sound.seconds:.1f} s; only the first {self.seconds:.1f} were read",)

    def moments_of_parts(self, sound: Sound, entry: SignalEntry) -> ScoreSpread | None:
        """Return the time of each part of a sound, such as a patch, that the model's first layer makes of it.

        Args:
            sound: The sound.
            entry: The first layer that reads the sound. Parts of one moment, such as the bands of a spectrum, all get
                the time of that moment.

        Returns:
            The times of the parts; None if no axis of the layer's input is that of the frames.
        """
        part_axes = [axis for axis in range(1, len(entry.output_shape)) if axis != entry.channels]
        time_axis = next((axis for axis in part_axes if entry.input_shape[axis] == self.frames), None)
        if time_axis is None:
            return None
        steps = entry.output_shape[time_axis]
        row, *indices = np.indices((self.rows, *(entry.output_shape[axis] for axis in part_axes)))
        step_of_part = (row * steps + indices[part_axes.index(time_axis)]).ravel()  # (N,)
        spread = moments(sound, self.rows * steps, self.seconds)
        parts = np.flatnonzero(step_of_part < len(spread.where))
        return spread._replace(parts=parts, places=step_of_part[parts], shares=np.ones(len(parts)))


def spectrum_of(
    process: Callable[[Any], Mapping[str, Any]], length: int, rate: int, token: int | None, hop: int | None
) -> Spectrum:
    """Measure the layout of a processor's output for sounds of one length, with test sounds.

    The duration of a frame is measured with two changed sounds: one differs from a quarter of its length on, one from
    three quarters on. The first frames that differ are as far apart as the two changes. The frames that become tokens
    are either all frames or those that are not masked. It is the count that halves with the tokens when the sound is
    cut in half.

    Args:
        process: Returns the model's inputs for a prompt with one sound, by name.
        length: Samples of the sounds.
        rate: Samples a second.
        token: The placeholder token of a sound.
        hop: Samples from one frame of a spectrum to the next, if the processor names them.

    Raises:
        InputError: If no output of the processor has an axis that follows the sound in time.
    """
    noise, other_noise = np.random.default_rng(0).normal(0, 0.1, (2, length)).astype(np.float32)
    processed = process(noise)
    features = {
        name: value
        for name, value in processed.items()
        if isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1
    }
    if not features:
        raise _not_followed_error(length)
    name, values = max(features.items(), key=lambda feature: feature[1].numel())
    used_length = length
    while used_length > SHORTEST_CHANGE:  # a processor may cut a long sound: changes in the cut part have no effect
        starts = [round(share * used_length) for share in CHANGES]
        changes = [process(np.concatenate([noise[:start], other_noise[start:]]))[name] - values for start in starts]
        for axis in range(1, values.ndim):
            samples = _samples_of_frame(changes, starts, axis, hop)
            if samples is not None:
                whole = _counts(processed, name, axis, token)
                half = _counts(process(noise[: length // 2]), name, axis, token)
                # The tokens belong to those frames whose number halves as theirs does.
                frames_of_tokens = (
                    frames
                    for frames, frames_of_half in zip(whole.frames, half.frames, strict=True)
                    if abs(whole.tokens * frames_of_half / frames - half.tokens) <= MAX_ROUNDING
                )
                rows, all_frames = values.shape[0], values.shape[axis]
                return Spectrum(name, rows, all_frames, next(frames_of_tokens, None), samples / rate, whole.tokens)
        used_length //= 2
    raise _not_followed_error(length)


def _samples_of_frame(changes: Sequence[Tensor], starts: Sequence[int], axis: int, hop: int | None) -> float | None:
    """Return how many samples a frame is of, None if an axis is not that of frames.

    Args:
        changes: Differences of spectra of sounds that are others from a sample on.
        starts: The samples from which they differ.
        axis: The axis.
        hop: As for `spectrum_of`.
    """
    first, last = (_first_changed(change, axis) for change in changes)
    if last <= first:
        return None
    samples = (starts[1] - starts[0]) / (last - first)
    if hop is not None and changes[0].ndim > 2:
        samples = float(max(1, round(samples / hop)) * hop)
    return samples if abs(first - starts[0] / samples) <= MAX_SHIFT else None


class _Counts(NamedTuple):
    """How many tokens and frames a processor makes of a sound.

    Attributes:
        tokens: The placeholder tokens in the prompt.
        frames: The numbers of frames that the tokens may belong to: the frames that the processor's mask keeps, if it
            returns a mask, and all frames.
    """

    tokens: int
    frames: tuple[int, ...]


def _counts(processed: Mapping[str, Any], name: str, axis: int, token: int | None) -> _Counts:
    """Count the tokens and frames in a processor's output.

    Args:
        processed: The output.
        name: The name of the spectrum in it.
        axis: The axis of frames of the spectrum.
        token: The id of the placeholder token of a sound.
    """
    shape = (processed[name].shape[0], processed[name].shape[axis])
    tensors = [
        value for input_name, value in processed.items() if input_name not in OF_TEXT and isinstance(value, Tensor)
    ]
    masks = [value for value in tensors if value.shape == shape and bool(((value == 0) | (value == 1)).all())]
    kept_frames = [max(int(mask.sum()), 1) for mask in masks[:1]]
    tokens = int((np.asarray(processed["input_ids"]) == token).sum())
    return _Counts(tokens, (*kept_frames, shape[0] * shape[1]))


def _first_changed(change: Tensor, axis: int) -> int:
    """Return the first frame that differs between two spectra, counted through all rows.

    Args:
        change: Their difference, with rows first.
        axis: The axis of frames.
    """
    by_frame = change.abs().movedim(axis, 1).flatten(2).amax(-1) if change.ndim > 2 else change.abs()  # (rows, frames)
    changed = (by_frame > MIN_CHANGE * by_frame.max()).flatten()
    return int(torch.argmax(changed.int()))


def _not_followed_error(length: int) -> InputError:
    return InputError(f"the processor makes no numbers of a sound of {length} samples that follow it in time")
