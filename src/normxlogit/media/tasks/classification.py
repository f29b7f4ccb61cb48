"""Classification of pictures, with scores of patches as a grid, and of sounds, with scores of frames on a time axis."""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
from torch import Tensor
from transformers import AutoFeatureExtractor, AutoImageProcessor

from ...errors import InputError
from ...inputs.encoding import Encoding
from ...model.task_model import TaskModel
from ...results.units.media import Medium
from ...results.units.units import Units
from ...tasks.base import ModelClasses, TaskName
from ..inputs.items import as_array
from ..inputs.pictures import converted, is_picture, opened_picture
from ..inputs.sounds import feature_extractor_of, is_sound, read_sound, sampling_rate_of
from ..units import grid_medium, sound_of_times
from .signals import NO_GRID, SPECTRUM_STEP, PatchGrid, SignalTask, signal_of, units_of_parts

EXAMPLE_HERTZ, EXAMPLE_RATE = 440, 16_000
"""The frequency of the example input, and its sampling rate if the model names none."""

MODES = {1: "L", 3: "RGB"}
"""The mode of a Pillow picture by the number of its channels."""

EXAMPLE_SIDE = 32
"""Side of the example picture, in pixels."""


class ImageClassification(SignalTask):
    """Classification of pictures: Pillow pictures, paths of files, or arrays as the processor takes them."""

    name = "image-classification"
    models = ModelClasses(
        mapping="MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        auto_class="AutoModelForImageClassification",
        processor_class=AutoImageProcessor,
    )
    result_kind = "picture"
    media = ("picture",)
    medium = "picture"
    is_item = staticmethod(is_picture)

    def units(self, encoding: Encoding) -> tuple[Units, tuple[Medium, ...]]:
        """Return the patches, behind class and register tokens."""
        grid = NO_GRID if (signal := signal_of(encoding)) is None else signal.grid
        return units_of_parts(encoding, "patch"), (grid_medium(*grid),) if grid[0] else ()

    def example_input(self, model: TaskModel) -> Any:
        """Return a picture with a gradient from dark to light."""
        return np.linspace(0, 255, EXAMPLE_SIDE**2 * 3, dtype=np.uint8).reshape(EXAMPLE_SIDE, EXAMPLE_SIDE, 3)

    def _prepare_item(self, model: TaskModel, item: Any) -> tuple[Any, dict[str, Any], None, tuple[str, ...]]:
        """Return a picture with as many channels as the model reads; it needs no options and has no duration."""
        picture, _ = opened_picture(as_array(item))
        rescales = getattr(self.processor, "do_rescale", False)
        if rescales and isinstance(picture, np.ndarray) and picture.dtype.kind == "f":
            lowest, highest = float(picture.min()), float(picture.max())
            if lowest < 0 or 0 < highest <= 1:
                raise InputError(
                    f"the picture is an array of numbers from {lowest:.2f} to {highest:.2f}, and the processor expects "
                    "levels from 0 to 255; pass those, as in (255 * picture).round(), or {'pixel_values': batch} as "
                    "the processor returns it"
                )
        # Grey is repeated for each colour, palettes are looked up, and transparency is dropped, as in pipelines.
        channels = getattr(getattr(model.config, "vision_config", model.config), "num_channels", 0)
        if channels in MODES and hasattr(picture, "convert"):
            picture = converted(cast(Any, picture), MODES[channels])
        return picture, {}, None, ()


class AudioClassification(SignalTask):
    """Classification of sounds: one channel of samples, or a mapping with "array" and "sampling_rate"."""

    name: ClassVar[TaskName] = "audio-classification"
    models = ModelClasses(
        mapping="MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
        auto_class="AutoModelForAudioClassification",
        processor_class=AutoFeatureExtractor,
    )
    media = ("sound",)
    result_kind = "sound"
    medium = "sound"
    is_item = staticmethod(is_sound)

    def units(self, encoding: Encoding) -> tuple[Units, tuple[Medium, ...]]:
        """Return the frames, with their seconds where these are known."""
        medium = sound_of_times(() if (signal := signal_of(encoding)) is None else signal.times)
        return units_of_parts(encoding, "moment"), () if medium is None else (medium,)

    @property
    def rate(self) -> int | None:
        """Samples a second that the model reads."""
        return sampling_rate_of(self.processor)

    def example_input(self, model: TaskModel) -> Any:
        """Return a tone that lasts one second."""
        rate = self.rate or EXAMPLE_RATE
        return np.sin(2 * np.pi * EXAMPLE_HERTZ * np.arange(rate) / rate).astype(np.float32)  # (rate,)

    def _prepare_item(self, model: TaskModel, item: Any) -> tuple[Any, dict[str, Any], float | None, tuple[str, ...]]:
        """Return samples at the model's rate, the extractor's options, the seconds that are read, and notes."""
        sound = read_sound(item, self.rate)
        extractor = feature_extractor_of(self.processor)
        chunk, frames = getattr(extractor, "chunk_length", None), getattr(extractor, "max_length", None)
        seconds = None if self.rate is None else float(chunk) if chunk else sound.seconds
        limit = float(chunk) if chunk else frames * SPECTRUM_STEP if isinstance(frames, int) else None
        notes = sound.notes
        if limit is not None and sound.seconds is not None and sound.seconds > limit + SPECTRUM_STEP:
            notes = (*notes, f"the sound has {sound.seconds:.1f} s; only the first {limit:.1f} were read")
        return sound.samples, {"sampling_rate": self.rate}, seconds, notes

    def _times(
        self, model: TaskModel, inputs: Mapping[str, Tensor], grid: PatchGrid, count: int, seconds: float | None
    ) -> tuple[tuple[float, float], ...]:
        """Return the seconds of each frame or patch, start and end; () if they are not known."""
        config: Any = model.config
        rows, columns, first_frame = grid
        if rows:  # a spectrogram of ten milliseconds a frame, cut into patches
            step, width = SPECTRUM_STEP * config.time_stride, SPECTRUM_STEP * config.patch_size
            starts = [(index % columns) * step for index in range(count - first_frame)]
            return (*[(0.0, 0.0)] * first_frame, *((start, start + width) for start in starts))
        waveform, rate = inputs.get("input_values"), self.rate
        if seconds is None and waveform is not None and rate is not None:
            seconds = len(waveform) / rate
        if seconds is None:
            return ()
        ratio = getattr(config, "inputs_to_logits_ratio", None)
        step = ratio / rate if ratio and rate and waveform is not None else seconds / count
        return tuple((index * step, min(seconds, (index + 1) * step)) for index in range(count))
