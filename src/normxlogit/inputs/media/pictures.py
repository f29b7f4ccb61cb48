"""Pictures among the messages of a prompt: read from wherever they are, and made small for drawings."""

import base64
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ...errors import InputError
from .items import decoded_base64, detached, number_axes, rewound

if TYPE_CHECKING:
    from PIL.Image import Image

PREVIEW_SIDE = 448
"""Pixels of the longer side of the copy of a picture that results keep for drawings."""

LOSSLESS_SIDE = 128
"""Pixels of the longer side up to which that copy has every pixel as it is."""

PICTURE_TYPES = ("image", "image_url")
"""Types of the parts of a message that are pictures, as transformers and OpenAI's clients name them."""

PICTURE_KEYS = ("image", "bytes", "path", "url", "base64", "image_url")
"""Where such a part, a row or a file of a data set says which picture it is."""


SUFFIXES = {".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
"""Suffixes of files of pictures."""


@dataclass(frozen=True)
class Picture:
    """A picture of a prompt.

    Attributes:
        image: The picture in RGB, as it is looked at.
        name: The name of its file; empty for one that has none.
    """

    kind: ClassVar[Literal["picture"]] = "picture"

    image: "Image"
    name: str = ""

    @property
    def details(self) -> dict[str, Any]:
        """What results keep of it: its width, height and a small copy."""
        width, height = self.image.size
        return {"width": width, "height": height, "preview": _preview(self.image)}


def is_picture(item: Any) -> bool:
    """Return whether something is one picture, and not several."""
    if isinstance(item, Mapping):
        return any(item.get(key) is not None and is_picture(item[key]) for key in PICTURE_KEYS)
    if isinstance(item, str | Path | bytes | bytearray | memoryview) or hasattr(item, "read"):
        return True
    return hasattr(item, "getbands") or number_axes(item) in (2, 3)


def names_picture(text: str) -> bool:
    """Return whether a text is the name of a picture's file."""
    return Path(text).suffix.casefold() in SUFFIXES and len(text.split()) == 1


def read_picture(item: Any) -> Picture:
    """Return a picture in RGB, read from wherever it is.

    Args:
        item: What `opened_picture` takes; an array of whole numbers from 0 to 255, (height, width), (height, width, 3)
            or (3, height, width).

    Raises:
        InputError: If there is no picture, or it cannot be read; a URL is not fetched.
    """
    pillow = _import_pillow()
    picture, name = opened_picture(item)
    picture = detached(picture)
    if hasattr(picture, "numpy"):
        picture = picture.numpy()
    if isinstance(picture, np.ndarray):
        if picture.ndim == 3 and picture.shape[0] in (3, 4) and picture.shape[-1] not in (3, 4):
            picture = picture.transpose(1, 2, 0)
        if (
            picture.dtype != np.uint8
            or picture.ndim not in (2, 3)
            or (picture.ndim == 3 and picture.shape[-1] not in (3, 4))
        ):
            raise InputError(
                f"an array of {picture.dtype} of shape {picture.shape} is not a picture: expected (height, width) or "
                "(height, width, 3), of uint8"
            )
        picture = pillow.Image.fromarray(np.ascontiguousarray(picture))
    if not isinstance(picture, pillow.Image.Image):
        raise InputError(f"a picture is a path, a Pillow picture or an array, not {type(picture).__name__}")
    if picture.mode.startswith(("I", "F")):
        raise InputError(f"a picture of mode {picture.mode} has more than 256 levels; bring it to 8 bits first")
    return Picture(picture.convert("RGB"), name)


def opened_picture(item: Any) -> tuple[Any, str]:
    """Return a picture and the name of its file, "" where it has none.

    A file or a picture of Pillow becomes an upright picture of Pillow; an array or anything else is returned as it is.

    Args:
        item: A path, an open file, bytes of one, a data URI, a Pillow picture, or an array; or a mapping with one of
            these under one of `PICTURE_KEYS`, such as a part of a message, or a row or a file of a data set.

    Raises:
        InputError: If it cannot be read, a mapping has none, or it is a URL, which is not fetched.
    """
    key = ""
    while isinstance(item, Mapping):  # {"image_url": {"url": ...}}, {"image": {"bytes": ..., "path": None}}
        key = next((name for name in PICTURE_KEYS if item.get(name) is not None), "")
        if not key:
            raise InputError(
                "a picture as a mapping is {'type': 'image', 'image': ...}: a path, a Pillow picture or an array, or "
                "under another of the keys " + ", ".join(PICTURE_KEYS[1:])
            )
        item = item[key]
    if isinstance(item, str | Path):
        if str(item).startswith(("http:", "https:")):
            raise InputError(
                f"{str(item)[:60]}: pictures are not fetched; give the path of a file, or the picture itself"
            )
        if key == "base64" or str(item).startswith("data:"):
            return open_picture(io.BytesIO(decoded_base64(str(item))), "the picture in base64"), ""
        return open_picture(item, str(item)), Path(item).name
    if isinstance(item, bytes | bytearray | memoryview):
        return open_picture(io.BytesIO(item), "the file"), ""
    if hasattr(item, "read"):
        with rewound(item):
            return open_picture(item, "the file"), ""
    return (upright(item) if hasattr(item, "getexif") else item), ""


def open_picture(file: Any, name: str, max_pixels: int | None = None) -> "Image":
    """Return a picture as it is looked at, in RGB or with the levels that its file has.

    Args:
        file: A path or a file object.
        name: What an error calls it.
        max_pixels: Most pixels; None for as many as Pillow takes.

    Raises:
        InputError: If it is not a picture, damaged or too large.
    """
    pillow = _import_pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.Image.DecompressionBombWarning)
            opened = pillow.Image.open(file)
        with opened:
            if max_pixels is not None and opened.width * opened.height > max_pixels:
                raise InputError(f"{name} has {opened.width} x {opened.height} pixels; at most {max_pixels:,} are read")
            picture = upright(opened)
            picture.load()
            return picture
    except InputError:
        raise
    except Exception as error:  # decoders of damaged files raise whatever they come across
        reason = "" if isinstance(error, pillow.UnidentifiedImageError) else getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read as a picture{reason and f': {reason}'}") from None


def upright(picture: "Image") -> "Image":
    """Return a picture as its orientation tag says it is looked at, as the pipelines of transformers do."""
    transposed: Image = _import_pillow().ImageOps.exif_transpose(picture)
    return transposed


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
    preview.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    file_format = "PNG" if max(image.size) <= LOSSLESS_SIDE else "JPEG"
    file = io.BytesIO()
    preview.save(file, file_format, **({} if file_format == "PNG" else {"quality": 85}))
    return f"data:image/{file_format.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
