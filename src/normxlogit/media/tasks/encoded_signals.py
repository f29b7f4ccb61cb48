"""A picture or a sound as a model reads it, whole or without some of its parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from ...inputs.encoded_media import EncodedMedium, EncodedSignal
from ...inputs.encoding import Encoding
from ...results.units.media import Medium
from ..inputs.picture_grids import equal_cells
from ..inputs.pictures import filled_by_surroundings
from ..inputs.sounds import Sound, moments


class PatchGrid(NamedTuple):
    """How the tokens of a picture or a spectrogram form rows and columns of patches; without rows they form no grid."""

    rows: int = 0
    columns: int = 1
    tokens_before: int = 0  # such as the class token and registers


NO_GRID = PatchGrid()

Times = tuple[tuple[float, float], ...]
"""Where each token of a sound begins and ends, in seconds."""

SPECTRUM_STEP = 0.01
"""Seconds of a frame of a spectrogram, as feature extractors compute them."""


@dataclass(frozen=True)
class Signal(EncodedSignal):
    """A picture or a sound as the model reads it.

    Attributes:
        grid: How its tokens form a grid.
        times: Start and end of each token in seconds; () for pictures.
        sound: The sound that the words of a transcript rest on; None for what is classified or compared.
        scored: What is classified or compared, with the places of its tokens; None for others.
        padding: How many of the encoder's last states of a sound the decoder does not look at.
    """

    grid: PatchGrid
    times: Times = ()
    sound: Sound | None = None
    scored: Medium | None = None
    padding: int = 0

    def medium(self, parts: int) -> EncodedMedium | None:
        """Return the sound that an encoder reads in so many frames; None of what is classified or compared."""
        if self.sound is None:
            return None
        end = self.times[-1][1] if self.times else 0.0  # of the last frame, in seconds
        end = end or self.sound.seconds or float(parts)  # if no rate is known, a frame counts as a second
        extent, details = self.sound.size_and_details(end)
        return EncodedMedium(
            kind="sound",
            name=self.sound.name,
            tokens=(),  # an encoder reads it: none of the decoder's tokens stands for it
            by_token=None,
            by_part=moments(self.sound, parts, end),
            extent=extent,
            details=details,
        )

    def without(self, tokens: Sequence[int]) -> "Signal":
        """Return a sound without some moments; patches of a picture get the mean colour of what surrounds them."""
        if self.times:
            return self._silenced(tokens)
        rows, columns, tokens_before = self.grid
        name, pixels = next((name, value) for name, value in self.inputs.items() if value.ndim == 3)  # (C, H, W)
        _, height, width = pixels.shape
        cells = equal_cells((rows, columns), (width, height)).reshape(-1, 4)  # (patches, 4)
        boxes = cells[[token - tokens_before for token in tokens]].tolist()
        filled = filled_by_surroundings(np.moveaxis(pixels.float().numpy(), 0, -1), boxes)  # (H, W, C)
        changed = torch.from_numpy(np.moveaxis(filled, -1, 0).copy()).to(pixels.dtype)  # (C, H, W)
        return replace(self, inputs={**self.inputs, name: changed})

    def _silenced(self, tokens: Sequence[int]) -> "Signal":
        """Return a sound with some moments silenced: samples are zero, spectra at the minimum of the sound."""
        # Beside the samples or the spectrum there may be a mask, of integers.
        name, values = next((name, value) for name, value in self.inputs.items() if value.is_floating_point())
        silenced = values.clone()  # (time,) of samples, (time, bins) or (bins, time) of a spectrum
        is_spectrum = values.ndim > 1
        silence = float(values.min()) if is_spectrum else 0.0  # spectra are logarithms, in which 0 is not silence
        time_axis = 0
        seconds = max(end for _, end in self.times)  # of all values along the time
        if is_spectrum and self.grid.rows:  # (time, bins), cut into patches that need not reach its end
            seconds = values.shape[0] * SPECTRUM_STEP
        elif is_spectrum and values.shape[1] > values.shape[0]:  # (bins, time), as there are more frames than bins
            time_axis = 1
        length = values.shape[time_axis]
        for token in tokens:
            start, end = self.times[token]
            first = round(start / seconds * length)
            last = round(end / seconds * length)
            # A patch may reach beyond the end of the spectrum: the rest of it is silenced.
            silenced.narrow(time_axis, first, max(0, min(last, length) - first)).fill_(silence)
        return replace(self, inputs={**self.inputs, name: silenced})


def signal_of(encoding: Encoding) -> Signal | None:
    """Return the picture or sound of an encoding; None for texts.

    Args:
        encoding: The encoding.
    """
    return encoding.signal if isinstance(encoding.signal, Signal) else None
