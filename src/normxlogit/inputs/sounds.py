"""Sounds as people have them: samples, what data sets hold, and files."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .encoding import Medium, Spread

COURSE = 400
"""Points of the loudness that drawings show."""

CHANNELS = 8
"""Most channels of one sound."""

FILES = (str, Path)


Recording = Path | Mapping[str, Any] | npt.NDArray[Any]
"""A sound as a caller has it: a file, a mapping with "array" and "sampling_rate", or samples."""


@dataclass(frozen=True)
class Sound:
    """One channel of a sound.

    Attributes:
        samples: float32, (N,).
        rate: Samples a second; None where neither the caller nor the model names it.
        notes: What was done to it.
    """

    samples: npt.NDArray[np.float32]
    rate: int | None
    name: str
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Its length in seconds."""
        return None if self.rate is None else len(self.samples) / self.rate

    @property
    def loudness(self) -> npt.NDArray[np.float32]:
        """The root mean square of its parts, from 0 to 1, for drawings."""
        parts = np.array_split(self.samples, min(COURSE, len(self.samples)))
        course = np.sqrt([np.square(part, dtype=np.float64).mean() for part in parts])
        relative: npt.NDArray[np.float32] = (course / max(course.max(), 1e-12)).astype(np.float32)
        return relative


def feature_extractor_of(reader: Any) -> Any:
    """Return the feature extractor of a processor, or the reader itself."""
    return getattr(reader, "feature_extractor", reader)


def is_sound(item: Any) -> bool:
    """Return whether something is one sound, and not several."""
    if isinstance(item, Mapping | str | Path) or hasattr(item, "get_all_samples"):
        return True
    if isinstance(item, list | tuple):
        return bool(item) and isinstance(item[0], int | float)
    return hasattr(item, "ndim") and (item.ndim < 2 or _has_channels(item))


def read_sound(item: Any, rate: int | None, place: int = 0) -> Sound:
    """Read a sound.

    Args:
        item: Samples at the model's rate, (N,) or (N, channels), integers or from -1 to 1; a mapping with "array" and
            "sampling_rate", as data sets have it; or a file's path or an open file, which needs soundfile.
        rate: Samples a second that the model reads; None if that is not known.
        place: Which input it is, for its name.

    Raises:
        InputError: If it is none of these, of another rate, or the file cannot be read.
    """
    notes: tuple[str, ...] = ()
    name = f"sound {place + 1}"
    own_rate = rate
    if isinstance(item, FILES):
        name = Path(item).name
        item, own_rate, notes = _from_file(item)
    elif hasattr(item, "read"):
        item, own_rate, notes = _from_file(item)
    elif isinstance(item, Mapping):
        key = "raw" if "raw" in item else "array"  # as pipelines have it, and as data sets have it
        if {key, "sampling_rate"} - item.keys():
            raise InputError("a sound as a mapping has an array and a sampling_rate")
        name = Path(str(item.get("path") or name)).name
        own_rate, item = int(item["sampling_rate"]), item[key]
    samples = _array_of(item)
    if _has_channels(samples):
        notes = (f"the mean of {samples.shape[1]} channels is read",)
        samples = _scaled(samples).mean(1)
    if samples.ndim != 1 or not samples.size or samples.dtype.kind not in "fiu":
        raise InputError(f"a sound is one channel of samples, not of shape {samples.shape}")
    if not np.isfinite(samples).all():
        raise InputError("the sound holds samples that are NaN or infinite")
    if rate is not None and own_rate != rate:
        raise InputError(
            f"the sound has {own_rate} samples a second, the model reads {rate}; bring it to that first, as in "
            f"scipy.signal.resample_poly(samples, {rate}, {own_rate})"
        )
    return Sound(_scaled(samples).astype(np.float32), own_rate, name, notes)


def _array_of(samples: Any) -> npt.NDArray[Any]:
    """Return samples as an array, also of a tensor with a gradient, of half precision or on another device."""
    if hasattr(samples, "detach"):
        samples = samples.detach().cpu()
        samples = samples.float() if samples.is_floating_point() else samples
    return np.asarray(samples)


def _has_channels(samples: Any) -> bool:
    """Return whether something is one sound of several channels, as soundfile reads it, (N, C)."""
    return bool(samples.ndim == 2 and samples.shape[1] <= CHANNELS < samples.shape[0])


def _scaled(samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return samples from -1 to 1; integers of 64 bits, as of a list, are of the fewest bits that files have."""
    if samples.dtype.kind == "f":
        return samples
    if samples.dtype == np.uint8:
        return (samples.astype(np.float64) - 128) / 128
    bits = 8 * samples.dtype.itemsize
    if bits > 32:
        largest = int(np.abs(samples).max(initial=0))
        bits = next((width for width in (16, 24, 32) if largest <= 1 << (width - 1)), bits)
    return samples / float(1 << (bits - 1 if samples.dtype.kind == "i" else bits))


def moments_of(sound: Sound, frames: int, end: float) -> Medium:
    """Return a sound as what words rest on.

    Frames after its end, which fill it up to the length that a model reads, belong to none of its moments.

    Args:
        sound: The sound.
        frames: How many frames of one length the model reads.
        end: The seconds at which the last one ends.
    """
    seconds = sound.seconds or end
    edges = np.arange(frames + 1, dtype=np.float64) * (end / frames)
    inside = max(int((edges[:-1] < seconds - 1e-6).sum()), 1)  # n
    where = np.stack([edges[:inside], np.minimum(edges[1 : inside + 1], seconds)], -1).astype(np.float32)  # (n, 2)
    each = np.arange(inside)
    about = {"seconds": seconds, "loudness": sound.loudness}
    return Medium(sound.name, (), None, Spread(where, each, each, np.ones(inside)), about)


def _from_file(file: Any) -> tuple[npt.NDArray[np.float32], int, tuple[str, ...]]:
    """Return samples, their rate, and what was done to them."""
    try:
        import soundfile
    except ImportError:
        raise InputError("reading files of sounds needs soundfile: pip install 'normxlogit[speech]'") from None
    try:
        with Path(file).open("rb") if isinstance(file, FILES) else nullcontext(file) as opened:
            samples, rate = soundfile.read(opened, dtype="float32", always_2d=True)  # (N, channels)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "error_string", None) or error
        raise InputError(f"the file cannot be read as a sound: {reason}") from None
    several = samples.shape[1] > 1
    notes = (f"the mean of {samples.shape[1]} channels is read",) if several else ()
    return samples.mean(1), int(rate), notes
