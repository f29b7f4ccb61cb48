"""Classification of pictures: scores of patches as a grid."""

from typing import Any

import numpy as np
from transformers import AutoImageProcessor

from ...errors import InputError
from ...inputs.encoding import Encoding
from ...model.task_model import TaskModel
from ...results.units.media import Medium
from ...results.units.units import Units
from ...tasks.base import ModelClasses
from ..inputs.items import as_array
from ..inputs.pictures import converted, is_picture, opened_picture
from ..inputs.signals import signal_of
from ..units import grid_medium
from .signals import NO_GRID, SignalTask, units_of_parts

MODES = {1: "L", 3: "RGB"}
"""The mode of a Pillow picture by the number of its channels."""

EXAMPLE_SIDE = 32
"""Side of the example picture, in pixels."""


class ImageClassification(SignalTask):
    """Classification of pictures: Pillow pictures, paths of files, or arrays as the processor takes them."""

    name = "image-classification"
    models = ModelClasses(
        mapping="MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        ending="ForImageClassification",
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
            picture = converted(picture, MODES[channels])
        return picture, {}, None, ()
