"""Pictures and sounds that are the whole input of a model, as it reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ...inputs.encoding import EncodedMedium, EncodedSignal, Encoding
from .pictures import filled_by_surroundings
from .sounds import Sound, moments

SPECTRUM_STEP = 0.01
"""Seconds of a frame of a spectrogram, as feature extractors compute them."""


@dataclass(frozen=True)
class Signal(EncodedSignal):
    """A picture or a sound as the model reads it.

    Attributes:
        grid: Rows and columns of patches, and the tokens before them; 0 rows where they form no grid.
        times: The seconds of each token, start and end; () if it has none, as those of pictures.
        sound: The sound, if it is what words rest on; None for pictures, and for sounds that are classified.
        picture: The places of its patches, if it is a picture that is compared.
        padding: The last of an encoder's states of a sound that are padding, which a decoder does not look at.
    """

    grid: tuple[int, int, int]
    times: tuple[tuple[float, float], ...] = ()
    sound: Sound | None = None
    picture: EncodedMedium | None = None
    padding: int = 0

    def medium(self, parts: int) -> EncodedMedium | None:
        """Return the picture that is compared, or the sound that an encoder reads in so many frames."""
        if self.sound is None:
            return self.picture
        end = self.times[-1][1] if self.times else 0.0  # the model's rate may not be known
        end = end or self.sound.seconds or float(parts)
        spread = moments(self.sound, parts, end)
        return EncodedMedium("sound", self.sound.name, (), None, spread, *self.sound.size_and_details(end))

    def without(self, tokens: Sequence[int]) -> "Signal":
        """Return a sound without some moments; patches of a picture get the mean colour of what surrounds them."""
        if self.times:
            return self._silenced(tokens)
        rows, columns, first_patch = self.grid
        name, pixels = next((name, value) for name, value in self.inputs.items() if value.ndim == 3)  # (C, H, W)
        height, width = pixels.shape[1:]
        places = [divmod(token - first_patch, columns) for token in tokens]
        boxes = [
            (column * width / columns, row * height / rows, (column + 1) * width / columns, (row + 1) * height / rows)
            for row, column in places
        ]
        filled = filled_by_surroundings(np.moveaxis(pixels.float().numpy(), 0, -1), boxes)  # (H, W, C)
        changed = torch.from_numpy(np.moveaxis(filled, -1, 0).copy()).to(pixels.dtype)  # (C, H, W)
        return replace(self, inputs={**self.inputs, name: changed})

    def _silenced(self, tokens: Sequence[int]) -> "Signal":
        """Return a sound with some moments silenced: samples are zero, spectra at the minimum of the sound."""
        name, values = next((name, value) for name, value in self.inputs.items() if value.is_floating_point())
        changed = values.clone()
        axis, seconds = 0, max(end for _, end in self.times)
        if values.ndim > 1 and self.grid[0]:  # (time, bins), cut into patches that need not reach the end
            seconds = values.shape[0] * SPECTRUM_STEP
        elif values.ndim > 1:
            axis = int(values.shape[1] > values.shape[0])
        length = values.shape[axis]
        floor = 0.0 if values.ndim == 1 else float(values.min())
        for start, end in (self.times[token] for token in tokens):
            first, last = round(start / seconds * length), round(end / seconds * length)
            changed.narrow(axis, first, max(0, min(last, length) - first)).fill_(floor)
        return replace(self, inputs={**self.inputs, name: changed})


def signal_of(encoding: Encoding) -> Signal | None:
    """Return the picture or sound of an encoding; None for texts."""
    return encoding.signal if isinstance(encoding.signal, Signal) else None
