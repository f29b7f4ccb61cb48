"""Pictures among the messages of a prompt: read from wherever they are, and made small for drawings."""

import base64
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 448
"""Pixels of the longer side of the copy of a picture that results keep for drawings."""

SMALL = 128
"""Pixels of the longer side up to which that copy has every pixel as it is."""

TYPES = ("image", "image_url")
"""Types of the parts of a message that are pictures, as transformers and OpenAI's clients name them."""

KEYS = ("image", "path", "url", "base64", "image_url")
"""Where such a part says which picture it is."""


@dataclass(frozen=True)
class Picture:
    """A picture of a prompt.

    Attributes:
        image: The picture in RGB, as it is looked at.
        name: The name of its file; empty for one that has none.
    """

    image: "Image"
    name: str = ""

    @property
    def about(self) -> dict[str, Any]:
        """What results keep of it: its width, height and a small copy."""
        width, height = self.image.size
        return {"width": width, "height": height, "preview": _preview(self.image)}


def picture_parts(content: Any) -> list[Mapping[str, Any]]:
    """Return the parts of a message's content that are pictures."""
    parts = content if isinstance(content, list | tuple) else ()
    return [part for part in parts if isinstance(part, Mapping) and part.get("type") in TYPES]


def read_picture(part: Mapping[str, Any]) -> Picture:
    """Read the picture of a part of a message.

    Args:
        part: `{"type": "image", "image": ...}` with a file's path or open file, a data URI, a Pillow picture, or an
            array of (height, width) or (height, width, 3) of whole numbers from 0 to 255; also under another of `KEYS`.

    Raises:
        InputError: If there is no picture, or it cannot be read; a URL is not fetched.
    """
    key = next((key for key in KEYS if part.get(key) is not None), "")
    picture = part.get(key)
    if isinstance(picture, Mapping):  # {"image_url": {"url": ...}}
        picture = picture.get("url")
    if picture is None:
        raise InputError(
            "a picture in a message is {'type': 'image', 'image': ...}: a path, a Pillow picture or an array"
        )
    pillow = _pillow()
    name = ""
    if isinstance(picture, str | Path):
        if str(picture).startswith(("http:", "https:")):
            raise InputError(
                f"{str(picture)[:60]}: pictures are not fetched; give the path of a file, or the picture itself"
            )
        if key == "base64" or str(picture).startswith("data:"):
            picture = open_picture(io.BytesIO(_decoded(str(picture))), "the picture in base64")
        else:
            name = Path(picture).name
            picture = open_picture(picture, str(picture))
    elif hasattr(picture, "read"):
        picture = open_picture(picture, "the file")
    elif isinstance(picture, np.ndarray):
        if (
            picture.dtype != np.uint8
            or picture.ndim not in (2, 3)
            or (picture.ndim == 3 and picture.shape[-1] not in (3, 4))
        ):
            raise InputError(
                f"an array of {picture.dtype} of shape {picture.shape} is not a picture: expected (height, width) or "
                "(height, width, 3), of uint8"
            )
        picture = pillow.Image.fromarray(picture)
    if not isinstance(picture, pillow.Image.Image):
        raise InputError(f"a picture is a path, a Pillow picture or an array, not {type(picture).__name__}")
    picture = upright(picture)
    if picture.mode.startswith(("I", "F")):
        raise InputError(f"a picture of mode {picture.mode} has more than 256 levels; bring it to 8 bits first")
    return Picture(picture.convert("RGB"), name)


def open_picture(file: Any, name: str, most: int | None = None) -> "Image":
    """Open a picture as it is looked at, in RGB or with the levels that its file has.

    Args:
        file: A path or a file object.
        name: What an error calls it.
        most: Most pixels; None for as many as Pillow takes.

    Raises:
        InputError: If it is not a picture, damaged or too large.
    """
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.Image.DecompressionBombWarning)
            opened = pillow.Image.open(file)
        with opened:
            if most is not None and opened.width * opened.height > most:
                raise InputError(f"{name} has {opened.width} x {opened.height} pixels; at most {most:,} are read")
            turned = upright(opened)
            turned.load()
            return turned
    except InputError:
        raise
    except Exception as error:  # decoders of damaged files raise whatever they come across
        reason = "" if isinstance(error, pillow.UnidentifiedImageError) else getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read as a picture{reason and f': {reason}'}") from None


def upright(picture: "Image") -> "Image":
    """Return a picture as its orientation tag says it is looked at, as the pipelines of transformers do."""
    turned: Image = _pillow().ImageOps.exif_transpose(picture)
    return turned


def _decoded(text: str) -> bytes:
    """Return the bytes of base64 or of a data URI."""
    try:
        return base64.b64decode(text.rpartition(",")[2], validate=True)
    except ValueError:
        raise InputError(f"{text[:60]}: not base64") from None


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise InputError("pictures need Pillow: pip install 'normxlogit[vision]'") from None
    return PIL


def _preview(image: "Image") -> str:
    """Return a picture for drawings, as a data URI of at most 448 pixels on its longer side."""
    small = image.copy()
    small.thumbnail((LARGEST, LARGEST))
    kind = "PNG" if max(image.size) <= SMALL else "JPEG"
    file = io.BytesIO()
    small.save(file, kind, **({} if kind == "PNG" else {"quality": 85}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
