"""Classification of pictures: scores of patches as a grid."""

from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoImageProcessor

from ..errors import InputError
from ..inputs.encoding import Encoding
from ..inputs.pictures import open_picture
from ..results.attribution import Attribution
from ..results.characters import safe
from ..results.signals import ImageAttribution
from .model import Model
from .signals import SignalTask

MODES = {1: "L", 3: "RGB"}
"""The mode of a Pillow picture by the number of its channels."""

DEEP = ("I", "F")
"""What the modes of Pillow begin with that hold more than 256 levels."""


class ImageClassification(SignalTask):
    """Classification of pictures: Pillow pictures, paths of files, or arrays as the processor takes them."""

    name = "image-classification"
    mapping = "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES"
    ending = "ForImageClassification"
    auto_class = "AutoModelForImageClassification"
    processor_class = AutoImageProcessor

    def result(self, encoding: Encoding, **fields: Any) -> Attribution:
        """Return the result with the place of every patch."""
        rows, columns, first = (0, 1, 0) if encoding.signal is None else encoding.signal.grid
        fields["token_ids"] = ()  # there is no vocabulary
        return ImageAttribution(**fields, rows=rows, columns=columns if rows else 0, first=first)

    def _prepared(self, model: Model, item: Any, place: int) -> tuple[Any, dict[str, Any]]:
        if isinstance(item, str | Path):
            item = open_picture(item, f"input {place}, {safe(str(item))}")
        config = getattr(model.config, "vision_config", model.config)
        return as_channels(item, getattr(config, "num_channels", None), place), {}


def as_channels(picture: Any, channels: int | None, place: int) -> Any:
    """Return a picture with as many channels as a model reads; what is not a grey, palette or RGB(A) picture, as it is.

    Grey pictures are repeated for each colour, palettes looked up, and transparency is dropped, as the pipelines of
    transformers do.

    Args:
        picture: A Pillow picture, or an array of (height, width), with or without channels behind.
        channels: How many the model reads, None if that is not known.
        place: Where it is among the inputs, for errors.

    Raises:
        InputError: If a Pillow picture has more than 8 bits for a level, which its conversion would cut off.
    """
    if channels not in MODES:
        return picture
    if hasattr(picture, "mode") and hasattr(picture, "convert"):
        if picture.mode == MODES[channels]:
            return picture
        if picture.mode.startswith(DEEP):
            raise InputError(
                f"input {place} is a picture of mode {picture.mode}, with more than 256 levels; bring it to 8 bits "
                "first, as in Image.fromarray((255 * levels).astype('uint8'))"
            )
        return picture.convert(MODES[channels])
    if not isinstance(picture, np.ndarray) or channels != 3:
        return picture
    if picture.ndim == 2:
        return np.repeat(picture[..., None], 3, -1)
    if picture.ndim == 3 and picture.shape[-1] == 1:
        return np.repeat(picture, 3, -1)
    colours_last = picture.ndim == 3 and picture.shape[-1] == 4 and picture.shape[0] not in MODES
    return picture[..., :3] if colours_last else picture
