"""What all results share: scores that do not change, equality, JSON files and pages."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .files import read_json, write_json, write_text

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FORMAT_VERSION", "FloatArray", "Result", "tuples"]

FORMAT_VERSION = 1
"""Version of the JSON format; raised when a reader of the old one would misread the new."""

FloatArray = npt.NDArray[np.float32]


class Result:
    """The base of a result; a frozen dataclass with `scores` and `format_version` derives from it."""

    kind: ClassVar[str]
    """What an error calls it."""

    scores: FloatArray

    def __post_init__(self) -> None:
        """Freeze the scores: a result does not change under its reader."""
        self.scores.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        """Equal when every field is, scores bit by bit."""
        if type(other) is not type(self):
            return NotImplemented
        return np.array_equal(self.scores, other.scores) and all(
            getattr(self, name) == getattr(other, name) for name in _names(self) if name != "scores"
        )

    __hash__ = None  # type: ignore[assignment]  # an array inside: compare, do not hash

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, ready for `json.dumps`; `from_dict` reads it back."""
        return {name: _plain(getattr(self, name)) for name in _names(self)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "Self":
        """Rebuild a result from `to_dict`'s output.

        Raises:
            DataError: If the format is newer than this library or a field is missing.
        """
        if state.get("format_version") != FORMAT_VERSION:
            raise DataError(
                f"cannot read format version {state.get('format_version')!r}; this version reads {FORMAT_VERSION}"
            )
        try:
            scores = np.asarray(state["scores"], dtype=np.float32)
            values = {name: tuples(state[name]) for name in _names(cls) if name != "scores"}
            return cls(**values | cls._parts(state) | {"scores": scores})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"not {cls.kind}: {error}") from None

    @classmethod
    def _parts(cls, state: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that are more than lists and numbers."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the result as a JSON file."""
        write_json(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | Path) -> "Self":
        """Read a file written by `save`.

        Raises:
            DataError: If the file is not such a file.
        """
        state = read_json(path)
        if not isinstance(state, dict):
            raise DataError(f"{path}: not {cls.kind}")
        return cls.from_dict(state)

    def to_html(self, path: str | Path | None = None) -> str:
        """The result as a self-contained HTML page, which needs no scripts; also written to `path` if given."""
        content = self._page()
        if path is not None:
            write_text(content, path)
        return content

    def _page(self) -> str:
        raise NotImplementedError


def _names(result: Any) -> list[str]:
    return [f.name for f in fields(result)]


def _plain(value: Any) -> Any:
    """What JSON knows: numbers and strings in lists and dicts."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _names(value)}
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(v) for v in value]
    return value


def tuples(value: Any) -> Any:
    """The lists of JSON as the tuples that results hold."""
    return tuple(tuples(v) for v in value) if isinstance(value, list) else value
