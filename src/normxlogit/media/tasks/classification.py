"""Classification of pictures, with scores of patches as a grid, and of sounds, with scores of frames on a time axis."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...copies.module_io import TensorInputs
from ...errors import InputError
from ...model.task_model import TaskModel
from ...results.storage.schema import Fields, Float64Array, FloatArray
from ...results.units.media import Medium
from ..extension import AUDIO_CLASSIFICATION, IMAGE_CLASSIFICATION
from ..inputs.items import as_array
from ..inputs.picture_grids import Size, equal_cells
from ..inputs.picture_places import KEPT_SIZES, cell_boxes, sources_of
from ..inputs.pictures import Picture, converted, is_picture, opened_picture
from ..inputs.sounds import feature_extractor_of, is_sound, read_sound, sampling_rate_of
from ..units import PictureScores, SoundScores
from .encoded_signals import SPECTRUM_STEP, PatchGrid, Signal, Times
from .signals import Prepared, SignalTask, config_of_signal

EXAMPLE_HERTZ = 440
"""The frequency of the example input."""

EXAMPLE_RATE = 16_000
"""The sampling rate of the example input if the model names none."""

MODES = {1: "L", 3: "RGB"}
"""The mode of a Pillow picture by the number of its channels."""

EXAMPLE_SIDE = 32
"""Side of the example picture, in pixels."""


class ImageClassification(SignalTask):
    """Classification of pictures: Pillow pictures, paths of files, or arrays as the processor takes them."""

    name = IMAGE_CLASSIFICATION.name
    models = IMAGE_CLASSIFICATION.models
    result_kind = "picture"
    reader_name = "image processor"
    is_item = staticmethod(is_picture)

    @cached_property
    def _boxes(self) -> Callable[..., FloatArray]:
        """The function `_measured_boxes`, whose results are kept for pictures of the same size."""
        return lru_cache(KEPT_SIZES)(self._measured_boxes)

    def example_input(self, model: TaskModel) -> Any:
        """Return a picture with a gradient from dark to light."""
        return np.linspace(0, 255, EXAMPLE_SIDE**2 * 3, dtype=np.uint8).reshape(EXAMPLE_SIDE, EXAMPLE_SIDE, 3)

    def _prepare_item(self, model: TaskModel, item: Any, place: int) -> Prepared:
        """Return a picture with as many channels as the model reads."""
        picture, name = opened_picture(as_array(item))
        if isinstance(picture, np.ndarray):  # of numbers that are no levels, which the processor reads as they are
            self._check_levels(picture)
            height, width = picture.shape[:2]
            details = {"width": width, "height": height}
        else:
            _, details = Picture(converted(picture, "RGB")).size_and_details()
            picture = _in_channels(model, picture)
        return Prepared(picture, {"name": name or f"picture {place + 1}", **details}, options={})

    def _check_levels(self, picture: npt.NDArray[Any]) -> None:
        """Refuse an array of floats that are not levels from 0 to 255, if the processor divides levels by 255."""
        if not getattr(self.processor, "do_rescale", False) or picture.dtype.kind != "f":
            return
        lowest = float(picture.min())
        highest = float(picture.max())
        if lowest < 0 or 0 < highest <= 1:  # a picture of zeros alone is black by either scale
            raise InputError(
                f"the picture is an array of numbers from {lowest:.2f} to {highest:.2f}, and the processor expects "
                "levels from 0 to 255; pass those, as in (255 * picture).round(), or {'pixel_values': batch} as "
                "the processor returns it"
            )

    def _scored(self, model: TaskModel, signal: Signal, fields: Fields) -> Medium | None:
        """Return a picture with the boxes of its patches.

        They are in its pixels; where the caller has passed the processor's output, in the pixels of that.
        """
        rows, columns, tokens_before = signal.grid
        if not rows:
            return None
        if "width" in fields:  # the picture itself was given
            boxes = self._boxes(model, (fields["width"], fields["height"]), rows, columns)
        else:
            _, height, width = signal.shapes[0]
            boxes = equal_cells((rows, columns), (width, height))
            fields = {"width": width, "height": height, **fields}
        return PictureScores(first=tokens_before, places=boxes, **fields)

    def _measured_boxes(self, model: TaskModel, size: Size, rows: int, columns: int) -> FloatArray:
        """Return the boxes of patches in a picture, (rows, columns, 4), measured with test pictures, see `sources_of`.

        Args:
            model: The model.
            size: Width and height of the picture, in pixels.
            rows: How many rows of patches the model reads.
            columns: How many patches a row has.
        """

        def process(image: Any) -> Float64Array:
            """Return what the model reads of a picture, (C, H, W)."""
            processed = self.processor(_in_channels(model, image), return_tensors="pt")
            return np.asarray(processed[model.module.main_input_name][0].float(), np.float64)

        return cell_boxes(sources_of(process, size), (rows, columns), size)


class ReadsSounds:
    """What tasks have in common whose inputs are sounds: a sampling rate."""

    processor: Any

    @property
    def rate(self) -> int | None:
        """Samples a second that the model reads; None if its feature extractor names none."""
        return sampling_rate_of(self.processor)


class AudioClassification(ReadsSounds, SignalTask):
    """Classification of sounds: one channel of samples, or a mapping with "array" and "sampling_rate"."""

    name = AUDIO_CLASSIFICATION.name
    models = AUDIO_CLASSIFICATION.models
    result_kind = "sound"
    reader_name = "feature extractor"
    is_item = staticmethod(is_sound)

    def example_input(self, model: TaskModel) -> Any:
        """Return a tone that lasts one second."""
        rate = self.rate or EXAMPLE_RATE
        return np.sin(2 * np.pi * EXAMPLE_HERTZ * np.arange(rate) / rate).astype(np.float32)  # (rate,)

    def _prepare_item(self, model: TaskModel, item: Any, place: int) -> Prepared:
        """Return samples at the model's rate."""
        sound = read_sound(item, self.rate, place)
        extractor = feature_extractor_of(self.processor)
        chunk: int | None = getattr(extractor, "chunk_length", None)  # seconds, to which each sound is padded or cut
        frames = getattr(extractor, "max_length", None)  # most frames of a spectrum
        limit = frames * SPECTRUM_STEP if isinstance(frames, int) else None  # most seconds of a sound
        read_seconds = sound.seconds
        if chunk:  # a shorter sound is filled up to it, and the model reads that, too
            limit = read_seconds = float(chunk)
        notes = sound.notes
        # A sound longer by a part of a frame counts as read whole.
        if limit is not None and sound.seconds is not None and sound.seconds > limit + SPECTRUM_STEP:
            notes = (*notes, f"the sound has {sound.seconds:.1f} s; only the first {limit:.1f} were read")
        _, details = sound.size_and_details()
        return Prepared(
            sound.samples,
            fields={"name": sound.name, **details},
            options={"sampling_rate": self.rate},
            read_seconds=None if self.rate is None else read_seconds,  # without a rate there are no seconds
            notes=notes,
        )

    def _scored(self, model: TaskModel, signal: Signal, fields: Fields) -> Medium | None:
        """Return a sound with its moments: its tokens from the first to the last that have a duration."""
        times = np.array(signal.times, np.float32).reshape(-1, 2)  # (T, 2)
        times = np.minimum(times, fields.get("seconds", np.inf))  # tokens behind its end get no duration
        timed = np.flatnonzero(times[:, 1] > times[:, 0])
        if not len(timed):
            return None
        moments = times[timed[0] : timed[-1] + 1]  # (n, 2)
        # The duration is in `fields` unless the processor's output was given.
        return SoundScores(first=int(timed[0]), places=moments, **{"seconds": float(moments.max()), **fields})

    def _times(
        self, model: TaskModel, inputs: TensorInputs, grid: PatchGrid, count: int, read_seconds: float | None
    ) -> Times:
        """Return where each frame or patch begins and ends, in seconds; () if that is not known."""
        if grid.rows:
            return _times_of_patches(model.config, grid, count)
        waveform = inputs.get("input_values")
        step = 0.0  # seconds from one frame to the next; 0 if the model does not say it
        if waveform is not None and self.rate is not None:
            if read_seconds is None:
                read_seconds = len(waveform) / self.rate
            samples_of_frame = getattr(model.config, "inputs_to_logits_ratio", 0)  # as Wav2Vec2's configuration says it
            step = samples_of_frame / self.rate
        if read_seconds is None:
            return ()
        step = step or read_seconds / count  # frames of equal length, which divide what is read
        return tuple((index * step, min(read_seconds, (index + 1) * step)) for index in range(count))


def _in_channels(model: TaskModel, picture: Any) -> Any:
    """Return a picture with as many channels as the model reads.

    Grey is repeated for each colour, palettes are looked up, and transparency is dropped, as in pipelines.
    """
    channels = getattr(config_of_signal(model), "num_channels", 0)
    return converted(picture, MODES[channels]) if channels in MODES else picture


def _times_of_patches(config: Any, grid: PatchGrid, count: int) -> Times:
    """Return where each token of a spectrogram that is cut into patches begins and ends, in seconds.

    Args:
        config: The model's configuration, whose sizes are frames of the spectrogram.
        grid: A row for each band of frequencies, columns along the time; tokens before them have no duration.
        count: The number of tokens, T.
    """
    step = SPECTRUM_STEP * config.time_stride
    width = SPECTRUM_STEP * config.patch_size
    starts = [(patch % grid.columns) * step for patch in range(count - grid.tokens_before)]
    return (*[(0.0, 0.0)] * grid.tokens_before, *((start, start + width) for start in starts))
