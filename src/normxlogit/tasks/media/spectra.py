"""Which seconds of a sound the numbers are of that a processor makes of it, measured with the processor itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...inputs.encoding import ScoreSpread
from ...inputs.media.sounds import Sound, moments
from ...parts.signal_entry import SignalEntry

CHANGES = (0.25, 0.75)
"""Where two test sounds begin to be others, in shares of their length."""

OF_TEXT = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "labels")
"""What a processor returns of the words of a prompt."""

SHORTEST_CHANGE = 1000
"""Samples of a sound up to which frames cannot be measured."""

MIN_CHANGE = 0.1
"""Share of the largest change of a frame from which on it counts as changed: normalisation changes all a little."""

MAX_ROUNDING = 2
"""Tokens by which half of a sound may have more or fewer than half as many."""

MAX_SHIFT = 4
"""Frames by which the first changed one may lie off its place: spectra look at windows of several."""


@dataclass(frozen=True)
class Spectrum:
    """What a processor makes of sounds of one length: a spectrum or samples, in rows of frames.

    Attributes:
        name: The input of the model that it is.
        rows: Into how many pieces a sound is cut that are read one by one; most are one.
        frames: Frames of a row, with those that fill it up.
        frames_of_tokens: Frames of all rows that the model makes tokens of, all or those that are not masked; None
            where that cannot be told.
        seconds_of_frame: How long a frame is.
        tokens: How many tokens of the prompt stand for the sound.
    """

    name: str
    rows: int
    frames: int
    frames_of_tokens: int | None
    seconds_of_frame: float
    tokens: int

    @property
    def seconds(self) -> float:
        """At which second the last frame ends."""
        return self.rows * self.frames * self.seconds_of_frame

    @property
    def seconds_of_tokens(self) -> float | None:
        """At which second the last token ends; None where that cannot be told."""
        return None if self.frames_of_tokens is None else self.frames_of_tokens * self.seconds_of_frame

    def notes(self, sound: Sound) -> tuple[str, ...]:
        """Return a note of a sound whose end is not read."""
        if sound.seconds is None or self.seconds >= sound.seconds - self.seconds_of_frame:
            return ()
        return (f"{sound.name} has {sound.seconds:.1f} s; only the first {self.seconds:.1f} were read",)

    def moments_of_parts(self, sound: Sound, entry: SignalEntry) -> ScoreSpread | None:
        """Return the moments that the parts of a sound at its entry into a model are of.

        Args:
            sound: The sound.
            entry: Where it enters; several places of one moment, such as bands of a spectrum, are all of that moment.

        Returns:
            None where no axis of the entry is that of the frames.
        """
        places = [axis for axis in range(1, len(entry.output_shape)) if axis != entry.channels]
        time = next((axis for axis in places if entry.input_shape[axis] == self.frames), None)
        if time is None:
            return None
        steps = entry.output_shape[time]
        row, *indices = np.indices((self.rows, *(entry.output_shape[axis] for axis in places)))
        step_of_part = (row * steps + indices[places.index(time)]).ravel()  # (N,)
        spread = moments(sound, self.rows * steps, self.seconds)
        parts = np.flatnonzero(step_of_part < len(spread.where))
        return spread._replace(parts=parts, places=step_of_part[parts], shares=np.ones(len(parts)))


def spectrum_of(
    process: Callable[[Any], Mapping[str, Any]], length: int, rate: int, token: int | None, hop: int | None
) -> Spectrum:
    """Return what a processor makes of sounds of one length, measured with test sounds.

    Frames follow each other in time. How long they are: two test sounds are changed from a quarter and from three
    quarters of them on, and the first frames that differ are as far apart as the changes. Tokens are of all frames, or
    of those that a mask leaves: whichever half of a sound has half as many of, too.

    Args:
        process: Returns the model's inputs for a prompt with one sound, by name.
        length: Samples of the sounds.
        rate: Samples a second.
        token: The token that stands for a piece of a sound.
        hop: Samples from one frame of a spectrum to the next, if the processor names them.

    Raises:
        InputError: If the processor makes nothing of a sound that follows it in time.
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
    read = length
    while read > SHORTEST_CHANGE:  # what is not read of a long sound does not change its spectrum
        starts = [round(share * read) for share in CHANGES]
        changes = [process(np.concatenate([noise[:start], other_noise[start:]]))[name] - values for start in starts]
        for axis in range(1, values.ndim):
            samples = _samples_of_frame(changes, starts, axis, hop)
            if samples is not None:
                whole = _counts(processed, name, axis, token)
                half = _counts(process(noise[: length // 2]), name, axis, token)
                pairs = zip(whole.frames, half.frames, strict=True)
                of_tokens = (f for f, of_half in pairs if abs(whole.tokens * of_half / f - half.tokens) <= MAX_ROUNDING)
                rows, frames = values.shape[0], values.shape[axis]
                return Spectrum(name, rows, frames, next(of_tokens, None), samples / rate, whole.tokens)
        read //= 2
    raise _not_followed_error(length)


def _samples_of_frame(changes: Sequence[Tensor], starts: Sequence[int], axis: int, hop: int | None) -> float | None:
    """Return how many samples a frame is of, None if an axis is not that of frames.

    Args:
        changes: Differences of spectra of sounds that are others from a sample on.
        starts: From which.
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
        frames: Those that a mask leaves, where there is one, and all.
    """

    tokens: int
    frames: tuple[int, ...]


def _counts(processed: Mapping[str, Any], name: str, axis: int, token: int | None) -> _Counts:
    """Return the counts of a processor's output.

    Args:
        processed: The output.
        name: Which of it is the spectrum.
        axis: Its axis of frames.
        token: The token that stands for a piece of a sound.
    """
    shape = (processed[name].shape[0], processed[name].shape[axis])
    others = [value for other, value in processed.items() if other not in OF_TEXT and isinstance(value, Tensor)]
    masks = [value for value in others if value.shape == shape and bool(((value == 0) | (value == 1)).all())]
    tokens = int((np.asarray(processed["input_ids"]) == token).sum())
    return _Counts(tokens, (*(max(int(mask.sum()), 1) for mask in masks[:1]), shape[0] * shape[1]))


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
