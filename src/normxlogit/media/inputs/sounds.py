"""Sounds as samples, rows of data sets, and files."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral, Number
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...errors import InputError, optional_module
from ...inputs.encoded_media import ScoreSpread
from ...inputs.texts import positive_integer
from ...results.storage.schema import Fields, FloatArray, Strings
from .items import RATE_KEYS, Part, detached, first_key, is_file, is_path_or_bytes, number_axes, rewound, source_of

LOUDNESS_POINTS = 400
"""Points of the loudness that drawings show."""

MAX_CHANNELS = 8
"""Most channels of one sound."""

ARRAY_KEYS = ("raw", "array", "waveform")
"""Keys of samples in mappings of pipelines, data sets and torchaudio."""

Samples = npt.NDArray[Any]
"""Samples of a sound, (N,) or (N, channels): floats from -1 to 1, or integers."""

SOUND_KEYS = ("audio", "bytes", "path", "url", "base64")
"""Keys of a sound in a part of a message, a row, or a file of a data set."""


@dataclass(frozen=True)
class Sound:
    """One channel of a sound."""

    kind: ClassVar[str] = "sound"

    samples: FloatArray  # (N,)
    rate: int | None  # samples a second; None if neither the caller nor the model names it
    name: str
    notes: Strings = ()  # on changes, such as averaged channels

    @property
    def seconds(self) -> float | None:
        """Its duration in seconds."""
        return None if self.rate is None else len(self.samples) / self.rate

    @property
    def loudness(self) -> FloatArray:
        """The root mean square of equal parts as a share of the largest, (points,), for drawings."""
        parts = np.array_split(self.samples, min(LOUDNESS_POINTS, len(self.samples)))
        root_mean_squares = np.sqrt([np.square(part, dtype=np.float64).mean() for part in parts])
        return (root_mean_squares / max(root_mean_squares.max(), 1e-12)).astype(np.float32)

    def size_and_details(self, end: float = 0.0) -> tuple[tuple[float], Fields]:
        """Return its duration in seconds, and the fields that results store: this, and its loudness.

        Args:
            end: The duration if the sound's rate is not known.
        """
        seconds = self.seconds or end
        return (seconds,), {"seconds": seconds, "loudness": self.loudness}

    def without(self, places: Sequence[Sequence[float]]) -> "Sound":
        """Return the sound with some spans silenced.

        Args:
            places: Start and end of each span in seconds; none of a sound whose rate is not known.
        """
        samples = self.samples.copy()
        rate = self.rate or 1  # `or 1` for the type checker alone: without a rate there are no spans
        for start, end in places:
            samples[round(start * rate) : round(end * rate)] = 0
        return replace(self, samples=samples)


def feature_extractor_of(reader: Any) -> Any:
    """Return the feature extractor of a processor, or the reader itself.

    Args:
        reader: A processor or a feature extractor.
    """
    return getattr(reader, "feature_extractor", getattr(reader, "audio_processor", reader))


def sampling_rate_of(reader: Any) -> int | None:
    """Return the samples a second that a model reads; None if its processor names none, or reads no sounds.

    Args:
        reader: The processor, the feature extractor, or what else reads the model's inputs.
    """
    return getattr(feature_extractor_of(reader), "sampling_rate", None)


def is_sound(item: Any) -> bool:
    """Return whether a value may be one sound.

    Args:
        item: What `read_sound` takes, or anything else.
    """
    if isinstance(item, Mapping):
        files = [item[key] for key in SOUND_KEYS if item.get(key) is not None]
        return any(map(is_sound, files)) or first_key(item, ARRAY_KEYS) is not None
    is_encoded = is_path_or_bytes(item) or is_file(item) or hasattr(item, "get_all_samples")  # torchcodec's decoder
    return is_encoded or _pair_with_rate(item) is not None or _are_samples(item)


def _are_samples(item: Any) -> bool:
    """Return whether a value is a list of numbers, or an array of one sound, (N,) or (N, C)."""
    if isinstance(item, list | tuple):
        return bool(item) and isinstance(item[0], Number)
    axes = number_axes(item)
    return axes == 1 or (axes == 2 and _has_channels(item))


def read_sound(item: Any, model_rate: int | None, place: int = 0) -> Sound:
    """Return one channel of a sound, at the model's rate.

    Args:
        item: Samples at the model's rate, (N,) or (N, channels), integers or from -1 to 1; these with their rate, as a
            mapping with "array" and "sampling_rate" or a tuple; a file's path, its bytes or an open file, which needs
            soundfile; or a mapping with one of them under one of `SOUND_KEYS`, such as a row or a file of a data set.
        model_rate: Samples a second that the model reads; None if that is not known.
        place: Which of several sounds it is, counted from 0, for the name of one without a file.

    Raises:
        InputError: If it cannot be read, or holds numbers that are not finite.
    """
    source, name = source_of(item, "sound", SOUND_KEYS, ARRAY_KEYS)
    values, rate = _samples_and_rate(source, model_rate)
    samples = np.asarray(detached(values))  # (N,) or (N, channels)
    notes = []
    if _has_channels(samples):
        if samples.shape[1] > 1:
            notes.append(f"the mean of {samples.shape[1]} channels is read")
        samples = _scaled(samples).mean(1)  # scaled first: the mean of integers would be floats, which count as scaled
    _check_samples(samples)
    samples = _scaled(samples)  # floats, as the mean of channels, stay as they are
    # Where one of the rates is not known, the samples are taken to be at the right one.
    if model_rate is not None and rate is not None and rate != model_rate:
        samples = _resampled(samples, rate, model_rate)
        notes.append(f"resampled from {rate} samples a second to {model_rate}, which the model reads")
        rate = model_rate
    return Sound(samples.astype(np.float32), rate, name or f"sound {place + 1}", tuple(notes))


def _check_samples(samples: Samples) -> None:
    """Refuse what is not one channel of finite numbers."""
    if samples.ndim != 1 or not samples.size or samples.dtype.kind not in "fiu":
        raise InputError(f"a sound is one channel of samples, not of shape {samples.shape}")
    if not np.isfinite(samples).all():
        raise InputError("the sound holds samples that are NaN or infinite")


def _samples_and_rate(item: Any, model_rate: int | None) -> tuple[Any, int | None]:
    """Return samples and their rate; samples without a rate of their own have that of the model."""
    if is_file(item):
        with rewound(item):
            return _from_file(item)
    if hasattr(item, "get_all_samples"):  # torchcodec's decoder, by which data sets read a file
        decoded = item.get_all_samples()
        return decoded.data.T, int(decoded.sample_rate)  # its data are (channels, N)
    if isinstance(item, Mapping):
        rate = _rate_beside(item)
        samples = item[first_key(item, ARRAY_KEYS)]
        return _channels_last(np.asarray(detached(samples))), rate
    return _pair_with_rate(item) or (item, model_rate)


def _rate_beside(item: Part) -> int:
    """Return the sampling rate that a mapping has beside its samples."""
    key = first_key(item, RATE_KEYS)
    if key is None:
        raise InputError("a sound as a mapping has an array and a sampling_rate")
    rate = item[key]
    if isinstance(rate, float | np.floating) and rate.is_integer():
        rate = int(rate)
    return positive_integer(rate, "sampling_rate")


def _pair_with_rate(item: Any) -> tuple[Any, int] | None:
    """Return the samples, (N,) or (N, C), and the rate of a tuple of both; None of anything else.

    soundfile and torchaudio return the samples first, scipy the rate.
    """
    if not isinstance(item, tuple) or len(item) != 2:
        return None
    samples, rate = item
    if not isinstance(rate, Integral):
        rate, samples = item  # the other order; if that is none either, it is no pair
    is_pair = isinstance(rate, Integral) and getattr(samples, "ndim", 0) in (1, 2)
    return (_channels_last(samples), positive_integer(rate, "sampling_rate")) if is_pair else None


def _channels_last(samples: Any) -> Any:
    """Return samples of torchaudio's shape, (C, N), as (N, C); others unchanged. Channels are few, samples many."""
    has_channels_first = samples.ndim == 2 and samples.shape[0] <= MAX_CHANNELS < samples.shape[1]
    return samples.T if has_channels_first else samples


def _has_channels(samples: Any) -> bool:
    """Return whether an array is one sound of several channels in soundfile's shape, (N, C)."""
    return bool(len(samples.shape) == 2 and samples.shape[1] <= MAX_CHANNELS < samples.shape[0])


def _scaled(samples: Samples) -> Samples:
    """Return samples scaled to -1 to 1; floats are so already."""
    if samples.dtype.kind == "f":
        return samples
    if samples.dtype == np.uint8:  # files of 8 bits have silence at 128
        return (samples.astype(np.float64) - 128) / 128
    bits = 8 * samples.dtype.itemsize
    if bits > 32:  # a list of numbers: the fewest bits that files have and all of them fit in
        largest = int(np.abs(samples).max(initial=0))
        bits = next((file_bits for file_bits in (16, 24, 32) if largest <= 2 ** (file_bits - 1)), bits)
    is_signed = samples.dtype.kind == "i"
    return samples / 2.0 ** (bits - 1 if is_signed else bits)


def _resampled(samples: Samples, rate: int, new_rate: int) -> Samples:
    """Return samples at another rate, in samples a second, without the frequencies that the new rate cannot hold."""
    missing = (
        f"the sound has {rate} samples a second, the model reads {new_rate}, and resampling needs SciPy: "
        "pip install 'normxlogit[speech]'"
    )
    signal = optional_module("scipy.signal", missing, InputError)
    resampled: Samples = signal.resample_poly(samples.astype(np.float64), new_rate, rate)
    return resampled


def moments(sound: Sound, frames: int, end: float) -> ScoreSpread:
    """Return the moments of a sound: one for each of a model's frames that begins before the sound ends.

    Later frames, which fill the sound up to the length that a model reads, belong to none.

    Args:
        sound: The sound.
        frames: How many frames of equal length there are, from its beginning.
        end: The second at which the last frame ends.
    """
    seconds = sound.seconds or end
    edges = np.arange(frames + 1, dtype=np.float64) * (end / frames)  # in seconds
    # n; a frame that begins at the end of the sound, but for rounding, has no moment.
    moment_count = max(int((edges[:-1] < seconds - 1e-6).sum()), 1)
    starts = edges[:moment_count]  # (n,)
    ends = np.minimum(edges[1 : moment_count + 1], seconds)  # (n,)
    spans = np.stack([starts, ends], -1).astype(np.float32)  # (n, 2)
    indices = np.arange(moment_count)
    return ScoreSpread(where=spans, parts=indices, places=indices, shares=np.ones(moment_count))


def _from_file(file: Any) -> tuple[FloatArray, int]:
    """Return the samples of a file, (N, channels), and their rate."""
    missing = "reading files of sounds needs soundfile: pip install 'normxlogit[speech]'"
    soundfile = optional_module("soundfile", missing, InputError)
    try:
        with file.open("rb") if isinstance(file, Path) else nullcontext(file) as opened:
            samples, rate = soundfile.read(opened, dtype="float32", always_2d=True)  # (N, channels)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        # Errors of the system have a `strerror`, those of soundfile an `error_string`, without the file's name.
        reason = getattr(error, "strerror", None) or getattr(error, "error_string", None) or error
        path = f"{file}: " if isinstance(file, Path) else ""
        raise InputError(f"{path}the file cannot be read as a sound: {reason}") from None
    return np.asarray(samples, np.float32), int(rate)
