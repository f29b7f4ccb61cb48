"""Pictures without some regions, and sounds without some moments."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..encoding import EncodedSignal, Encoding

SPECTRUM_STEP = 0.01
"""Seconds of a frame of a spectrogram, as feature extractors compute them."""


def without_parts(encoding: Encoding, tokens: Sequence[int]) -> Encoding:
    """Return a sound without some moments, or a picture without some patches; only sounds have times."""
    remove = _silenced if _signal_of(encoding).times else _without_regions
    return remove(encoding, tokens)


def _without_regions(encoding: Encoding, tokens: Sequence[int]) -> Encoding:
    """Return a picture in which patches have the mean colour of the patches around them that stay.

    Args:
        encoding: A picture whose patches form a grid.
        tokens: The tokens of the patches.
    """
    signal = _signal_of(encoding)
    rows, columns, first_patch = signal.grid
    inputs = dict(signal.inputs)
    name, pixels = next((name, value) for name, value in inputs.items() if value.ndim == 3)  # (C, H, W)
    heights = torch.arange(pixels.shape[1]) * rows // pixels.shape[1]  # (H,)
    widths = torch.arange(pixels.shape[2]) * columns // pixels.shape[2]  # (W,)
    removed = torch.zeros(rows, columns, dtype=torch.bool)
    removed.view(-1)[[token - first_patch for token in tokens]] = True
    changed = pixels.clone()
    for row, column in removed.nonzero().tolist():
        surrounding = ~removed
        for distance in range(1, max(rows, columns)):
            neighbourhood = torch.zeros_like(removed)
            neighbourhood[
                max(0, row - distance) : row + distance + 1, max(0, column - distance) : column + distance + 1
            ] = True
            if (neighbourhood & ~removed).any():
                surrounding = neighbourhood & ~removed
                break
        pixels_around = surrounding[heights][:, widths]  # (H, W)
        surroundings = pixels[:, pixels_around] if pixels_around.any() else pixels.flatten(1)  # (C, n)
        pixels_of_patch = (heights == row)[:, None] & (widths == column)  # (H, W)
        changed[:, pixels_of_patch] = surroundings.float().mean(1, keepdim=True).to(pixels.dtype)
    inputs[name] = changed
    return replace(encoding, signal=replace(signal, inputs=inputs))


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
