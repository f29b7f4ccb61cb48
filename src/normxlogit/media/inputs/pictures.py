"""Pictures of prompts: read from any source, with a small copy for drawings."""

import base64
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import InputError
from ...results.storage.schema import Fields, FloatArray
from .items import (
    BASE64_STARTS,
    PICTURE_SUFFIXES,
    Part,
    detached,
    first_key,
    is_file,
    is_opened_picture,
    is_path_or_bytes,
    number_axes,
    rewound,
    source_of,
)

if TYPE_CHECKING:
    from PIL.Image import Image

PREVIEW_SIDE = 448
"""Longer side, in pixels, of the copy of a picture that results store for drawings."""

LOSSLESS_SIDE = 128
"""Pictures up to this longer side, in pixels, are stored without loss."""

PICTURE_KEYS = ("image", "bytes", "path", "url", "base64")
"""Keys of a picture in a part of a message, a row, or a file of a data set."""

CHANNELS = (1, 3, 4)
"""Numbers of channels of a picture: grey, red, green and blue, and these with transparency."""


@dataclass(frozen=True)
class Picture:
    """A picture of a prompt, in RGB as it is looked at, with the name of its file."""

    kind: ClassVar[str] = "picture"

    image: "Image"
    name: str = ""

    def size_and_details(self) -> tuple[tuple[int, int], Fields]:
        """Return its width and height, and with a small copy the fields that results store."""
        width, height = self.image.size
        return (width, height), {"width": width, "height": height, "preview": _preview(self.image)}

    def without(self, places: Sequence[Sequence[float]]) -> "Picture":
        """Return the picture with the mean colour of what surrounds them in some boxes of its pixels."""
        from PIL import Image

        filled = filled_by_surroundings(np.asarray(self.image, np.float32), places)
        return replace(self, image=Image.fromarray(filled.round().astype(np.uint8)))


def is_picture(item: Any) -> bool:
    """Return whether a value is one picture."""
    if isinstance(item, Mapping):
        return any(item.get(key) is not None and is_picture(item[key]) for key in PICTURE_KEYS)
    return is_path_or_bytes(item) or is_file(item) or is_opened_picture(item)


def holds_picture(part: Part) -> bool:
    """Return whether a part of a message holds a picture or its path, and is not a place for one beside it."""
    return first_key(part, PICTURE_KEYS) is not None


def names_picture(text: str) -> bool:
    """Return whether a text is the path of a picture, or a picture in base64."""
    return text.startswith(BASE64_STARTS) or (
        Path(text).suffix.casefold() in PICTURE_SUFFIXES and len(text.split()) == 1
    )


def read_picture(item: Any) -> Picture:
    """Return a picture in RGB of what `opened_picture` takes; an array must be of whole numbers from 0 to 255."""
    source = item.get("image") if isinstance(item, Mapping) else item
    if isinstance(source, Picture):
        return source
    pillow = _import_pillow()
    picture, name = opened_picture(item)
    if isinstance(picture, np.ndarray):
        raise InputError(
            f"an array of {picture.dtype} of shape {picture.shape} is not a picture: expected (height, width) or "
            "(height, width, 3), of levels from 0 to 255, as in (255 * picture).round()"
        )
    if not isinstance(picture, pillow.Image.Image):
        raise InputError(f"a picture is a path, a Pillow picture or an array, not {type(picture).__name__}")
    return Picture(converted(picture, "RGB"), name)


def converted(picture: "Image", mode: str) -> "Image":
    """Return a picture of Pillow in another mode of 8 bits.

    Args:
        picture: A picture of Pillow.
        mode: The mode, such as "RGB".

    Raises:
        InputError: If the picture has more than 256 levels.
    """
    if picture.mode.startswith(("I", "F")):
        raise InputError(
            f"a picture of mode {picture.mode} has more than 256 levels; bring it to 8 bits first, as in "
            "Image.fromarray((255 * levels).astype('uint8'))"
        )
    return picture if picture.mode == mode else picture.convert(mode)


def opened_picture(item: Any) -> tuple[Any, str]:
    """Return a picture and the name of its file, "" if it has none.

    A file or a picture of Pillow becomes an upright picture of Pillow, and so does an array or a tensor of levels; one
    of other numbers becomes an array with its channels behind, and anything else is returned as it is.

    Args:
        item: What `source_of` takes, a Pillow picture, or an array or a tensor, (height, width), with or without
            channels on either side.
    """
    item, name = source_of(item, "picture", PICTURE_KEYS)
    if is_file(item):
        with rewound(item):
            return _opened(item, str(item) if isinstance(item, Path) else name or "the file"), name
    if hasattr(item, "getexif"):
        return _import_pillow().ImageOps.exif_transpose(item), name
    return (_picture_of_array(item) if number_axes(item) in (2, 3) else item), name


def _picture_of_array(values: Any) -> Any:
    """Return an array of levels from 0 to 255 as a Pillow picture; any other array with its channels last."""
    array = np.asarray(detached(values))
    if array.ndim == 3:
        # As torch has them, where both axes could be the channels.
        array = _channels_last(array, preferred_sides=(0, -1) if hasattr(values, "detach") else (-1, 0))
    if array.dtype == bool:
        array = array * np.uint8(255)
    has_channels = array.ndim < 3 or array.shape[-1] in CHANNELS
    if not _holds_levels(array) or not array.size or not has_channels:
        return array
    return _import_pillow().Image.fromarray(np.ascontiguousarray(array.astype(np.uint8)))


def _channels_last(array: Any, preferred_sides: tuple[int, int]) -> Any:
    """Return a picture, (H, W, C) or (C, H, W), with its channels last, without the axis of a single one."""
    side = next((axis for axis in preferred_sides if array.shape[axis] in CHANNELS), -1)
    array = np.moveaxis(array, side, -1)
    return array[..., 0] if array.shape[-1] == 1 else array


def _holds_levels(array: Any) -> bool:
    """Return whether the numbers of a picture are whole, from 0 to 255; refuse an array of other whole numbers."""
    lowest, highest = (array.min(), array.max()) if array.size else (0, 0)
    if array.dtype.kind not in "iu":
        return bool(lowest >= 0 and 1 < highest <= 255 and np.array_equal(array, np.rint(array)))
    if not 0 <= lowest <= highest <= 255:
        raise InputError(
            f"an array of {array.dtype} from {lowest} to {highest} has more than 256 levels; bring it to 8 bits first"
        )
    return True


def _opened(file: Any, name: str) -> "Image":
    """Return the upright picture in a file, which errors call by a name."""
    pillow = _import_pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.Image.DecompressionBombWarning)
            opened = pillow.Image.open(file)
        with opened:
            picture: Image = pillow.ImageOps.exif_transpose(opened)
            picture.load()
            return picture
    except Exception as error:  # decoders of damaged files raise whatever they come across
        reason = "" if isinstance(error, pillow.UnidentifiedImageError) else getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read as a picture{reason and f': {reason}'}") from None


def _import_pillow() -> Any:
    """Return Pillow, which reads pictures."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise InputError("pictures need Pillow: pip install 'normxlogit[vision]'") from None
    return PIL


def _preview(image: "Image") -> str:
    """Return a picture for drawings, as a data URI of at most 448 pixels on its longer side."""
    preview = image.copy()
    file = io.BytesIO()
    preview.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    file_format = "PNG" if max(image.size) <= LOSSLESS_SIDE else "JPEG"
    preview.save(file, file_format, quality=85)  # which a PNG has no use for
    return f"data:image/{file_format.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def filled_by_surroundings(pixels: FloatArray, boxes: Sequence[Sequence[float]]) -> FloatArray:
    """Return a picture in which each of some boxes has the mean colour of the nearest pixels that stay.

    Those are within a box of the same size on each side; where all of these are removed too, within two of them, and
    so on. Of a picture that is removed whole it is the mean colour of all.

    Args:
        pixels: The picture, (H, W, C).
        boxes: Left, top, right and bottom of what is removed; pixels are removed whose centres lie in a box.
    """
    height, width = pixels.shape[:2]
    inside = [_pixels_in(box, height, width) for box in boxes]
    removed = np.zeros((height, width), bool)
    for rows, columns in inside:
        removed[rows, columns] = True
    filled = pixels.copy()
    for (left, top, right, bottom), pixels_inside in zip(boxes, inside, strict=True):
        wide, high = right - left, bottom - top
        surroundings = pixels.reshape(height * width, -1)  # (n, C)
        for distance in range(1, math.ceil(max(width / wide, height / high)) + 1):
            expanded = left - distance * wide, top - distance * high, right + distance * wide, bottom + distance * high
            near = _pixels_in(expanded, height, width)
            if not removed[near].all():
                surroundings = pixels[near][~removed[near]]
                break
        filled[pixels_inside] = surroundings.mean(0, dtype=np.float64)  # float32 would lose the millionth pixel
    return filled


def _pixels_in(box: Sequence[float], height: int, width: int) -> tuple[slice, slice]:
    """Return the rows and columns of the pixels whose centres lie in a box, or of the one around a smaller box."""
    left, top, right, bottom = box
    slices = []
    for start, end, length in ((top, bottom, height), (left, right, width)):
        first, last = math.ceil(start - 0.5), math.ceil(end - 0.5)
        if first >= last:  # the box lies between two centres
            first = min(math.floor((start + end) / 2), length - 1)
            last = first + 1
        slices.append(slice(max(0, first), min(length, max(0, last))))
    return slices[0], slices[1]
