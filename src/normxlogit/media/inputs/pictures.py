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
import numpy.typing as npt

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
    """A picture of a prompt, upright and in RGB, with the name of its file."""

    kind: ClassVar[str] = "picture"

    image: "Image"
    name: str = ""

    def size_and_details(self) -> tuple[tuple[int, int], Fields]:
        """Return its width and height in pixels, and the fields that results store: these, and a small copy."""
        width, height = self.image.size
        return (width, height), {"width": width, "height": height, "preview": _preview(self.image)}

    def without(self, places: Sequence[Sequence[float]]) -> "Picture":
        """Return the picture with some boxes filled with the mean colour of what surrounds each.

        Args:
            places: Left, top, right and bottom of each box, in pixels.
        """
        from PIL import Image

        filled = filled_by_surroundings(np.asarray(self.image, np.float32), places)
        return replace(self, image=Image.fromarray(filled.round().astype(np.uint8)))


def is_picture(item: Any) -> bool:
    """Return whether a value may be one picture: a Pillow picture, an array, a file, a path or any text, its bytes.

    Args:
        item: The value; a mapping is a picture if it has one under one of `PICTURE_KEYS`.
    """
    if isinstance(item, Mapping):
        return any(item.get(key) is not None and is_picture(item[key]) for key in PICTURE_KEYS)
    return is_path_or_bytes(item) or is_file(item) or is_opened_picture(item)


def holds_picture(part: Part) -> bool:
    """Return whether a part of a message holds a picture or its path; without one it is a place for a picture.

    Args:
        part: The part, by its keys.
    """
    return first_key(part, PICTURE_KEYS) is not None


def names_picture(text: str) -> bool:
    """Return whether a text is the path of a picture, or a picture in base64.

    Args:
        text: The text; one of several words that ends as a path does, "what is in a.png", is no path.
    """
    return text.startswith(BASE64_STARTS) or (
        Path(text).suffix.casefold() in PICTURE_SUFFIXES and len(text.split()) == 1
    )


def read_picture(item: Any) -> Picture:
    """Return a picture in RGB.

    Args:
        item: What `opened_picture` takes, or a `Picture`. An array must be of whole numbers from 0 to 255.

    Raises:
        InputError: If it cannot be read as a picture.
    """
    source = item.get("image") if isinstance(item, Mapping) else item
    if isinstance(source, Picture):  # it was read before
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

    A file or a picture of Pillow becomes an upright picture of Pillow, and so does an array or a tensor of levels. An
    array of other numbers is returned with its channels last, and anything else as it is.

    Args:
        item: What `source_of` takes, a Pillow picture, or an array or a tensor, (height, width), with or without
            channels on either side.
    """
    item, name = source_of(item, "picture", PICTURE_KEYS)
    if is_file(item):
        with rewound(item):
            return _opened(item, str(item) if isinstance(item, Path) else name or "the file"), name
    if hasattr(item, "getexif"):  # as pictures of Pillow have it: it may say that they lie on a side
        return _import_pillow().ImageOps.exif_transpose(item), name
    return (_picture_of_array(item) if number_axes(item) in (2, 3) else item), name


def _picture_of_array(values: Any) -> Any:
    """Return an array of levels from 0 to 255 as a Pillow picture; any other array with its channels last."""
    array = np.asarray(detached(values))
    if array.ndim == 3:
        # Where both the first and the last axis could be the channels: torch has them first, NumPy last.
        array = _channels_last(array, preferred_axes=(0, -1) if hasattr(values, "detach") else (-1, 0))
    if array.dtype == bool:  # black and white
        array = array * np.uint8(255)
    has_channels = array.ndim < 3 or array.shape[-1] in CHANNELS
    if not _holds_levels(array) or not array.size or not has_channels:
        return array
    return _import_pillow().Image.fromarray(np.ascontiguousarray(array.astype(np.uint8)))


def _channels_last(array: Any, preferred_axes: tuple[int, int]) -> Any:
    """Return a picture, (H, W, C) or (C, H, W), as (H, W, C), or as (H, W) if it has one channel."""
    # -1 if neither axis has a number of channels: the caller finds that the last has none.
    channel_axis = next((axis for axis in preferred_axes if array.shape[axis] in CHANNELS), -1)
    array = np.moveaxis(array, channel_axis, -1)
    return array[..., 0] if array.shape[-1] == 1 else array


def _holds_levels(array: Any) -> bool:
    """Return whether the numbers of a picture are levels: whole, from 0 to 255. Floats from 0 to 1 are shares of 255.

    Raises:
        InputError: If the array is of integers, and one is below 0 or above 255.
    """
    lowest, highest = (array.min(), array.max()) if array.size else (0, 0)
    is_of_integers = array.dtype.kind in "iu"
    if not is_of_integers:
        return bool(lowest >= 0 and 1 < highest <= 255 and np.array_equal(array, np.rint(array)))
    if not 0 <= lowest <= highest <= 255:
        raise InputError(
            f"an array of {array.dtype} from {lowest} to {highest} has more than 256 levels; bring it to 8 bits first"
        )
    return True


def _opened(file: Any, name: str) -> "Image":
    """Return the picture in a file, turned upright.

    Args:
        file: A path or an open file.
        name: What errors call it.
    """
    pillow = _import_pillow()
    try:
        with warnings.catch_warnings():
            # The warning is of large pictures; of those that are twice as large Pillow raises an error.
            warnings.simplefilter("ignore", pillow.Image.DecompressionBombWarning)
            opened = pillow.Image.open(file)
        with opened:
            picture: Image = pillow.ImageOps.exif_transpose(opened)
            picture.load()
            return picture
    except pillow.UnidentifiedImageError:  # whose text names the file once more
        raise InputError(f"{name} cannot be read as a picture") from None
    except Exception as error:  # decoders raise errors of any class for damaged files
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read as a picture: {reason}") from None


def _import_pillow() -> Any:
    """Return Pillow, which reads pictures."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise InputError("pictures need Pillow: pip install 'normxlogit[vision]'") from None
    return PIL


def _preview(image: "Image") -> str:
    """Return a copy for drawings as a data URI, with at most `PREVIEW_SIDE` pixels on its longer side."""
    preview = image.copy()
    file = io.BytesIO()
    preview.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    file_format = "PNG" if max(image.size) <= LOSSLESS_SIDE else "JPEG"  # a small picture is small without loss, too
    preview.save(file, file_format, quality=85)  # of a JPEG; ignored for a PNG
    return f"data:image/{file_format.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def filled_by_surroundings(pixels: FloatArray, boxes: Sequence[Sequence[float]]) -> FloatArray:
    """Return a picture in which each of some boxes has the mean colour of the nearest pixels that stay.

    Args:
        pixels: The picture, (H, W, C).
        boxes: Left, top, right and bottom of what is removed; pixels are removed whose centres lie in a box.

    Returns:
        A new picture, (H, W, C).
    """
    height, width = pixels.shape[:2]
    inside = [_pixels_in(box, height, width) for box in boxes]
    is_removed = np.zeros((height, width), bool)
    for rows, columns in inside:
        is_removed[rows, columns] = True
    filled = pixels.copy()
    for box, pixels_inside in zip(boxes, inside, strict=True):
        surroundings = _surroundings(pixels, is_removed, box)  # (n, C)
        filled[pixels_inside] = surroundings.mean(0, dtype=np.float64)  # float32 would lose the millionth pixel
    return filled


def _surroundings(pixels: FloatArray, is_removed: npt.NDArray[np.bool_], box: Sequence[float]) -> FloatArray:
    """Return the nearest pixels to a box that stay, (n, C); all pixels, (H * W, C), if none stays.

    Nearest are those within a box of the same size on each side. Where all of these are removed too, it is two boxes on
    each side, and so on.

    Args:
        pixels: The picture, (H, W, C).
        is_removed: Whether each pixel is removed, (H, W).
        box: Left, top, right and bottom, in pixels.
    """
    height, width, channels = pixels.shape
    left, top, right, bottom = box
    box_width = right - left
    box_height = bottom - top
    most_boxes = math.ceil(max(width / box_width, height / box_height))  # on each side, to reach every border
    for count in range(1, most_boxes + 1):
        x_margin = count * box_width
        y_margin = count * box_height
        near = _pixels_in((left - x_margin, top - y_margin, right + x_margin, bottom + y_margin), height, width)
        if not is_removed[near].all():
            return pixels[near][~is_removed[near]]
    return pixels.reshape(height * width, channels)


def _pixels_in(box: Sequence[float], height: int, width: int) -> tuple[slice, slice]:
    """Return the rows and the columns of the pixels of a picture whose centres lie in a box."""
    left, top, right, bottom = box
    return _pixels_between(top, bottom, height), _pixels_between(left, right, width)


def _pixels_between(start: float, end: float, length: int) -> slice:
    """Return the pixels along an axis of some length whose centres lie between two places; at least one.

    The centre of pixel 3 is at 3.5.
    """
    first = math.ceil(start - 0.5)
    last = math.ceil(end - 0.5)
    if first >= last:  # no centre lies there: the pixel around the middle
        first = min(math.floor((start + end) / 2), length - 1)
        last = first + 1
    return slice(max(0, first), min(length, max(0, last)))
