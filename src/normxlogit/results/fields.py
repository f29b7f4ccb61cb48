"""The fields of results as plain values and back: what may stand in them is checked in one place."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError

__all__ = [
    "FORMAT_VERSION",
    "Check",
    "FloatArray",
    "array",
    "choice",
    "current_bias",
    "each",
    "flag",
    "integer",
    "mapping",
    "number",
    "optional",
    "plain",
    "record",
    "same",
    "scores",
    "setting",
    "setting_text",
    "string",
]

FORMAT_VERSION = 2
"""Version of the JSON format; raised when a reader of the old one would misread the new."""

FloatArray = npt.NDArray[np.float32]

Check = Callable[[Any], Any]
"""Return the value of a field from its value in JSON; `ValueError` if it cannot stand there."""

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON lacks, as strings, spelled as in protobuf's JSON."""

DEEPEST = 16
"""Nesting of a setting beyond which nobody wrote it by hand."""


def plain(value: Any) -> Any:
    """Return a value as strict JSON knows it: numpy's numbers as Python's, numbers that are not finite as strings."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(v) for v in value]
    return value


def same(one: Any, other: Any) -> bool:
    """Return whether two values of a field are equal; NaN equals NaN, and a list a tuple."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(v, other[k]) for k, v in one.items())
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def string(value: Any) -> str:
    """Return a string."""
    text: str = _of_type(value, str, "a string")
    return text


def flag(value: Any) -> bool:
    """Return a truth value."""
    truth: bool = _of_type(value, bool, "true or false")
    return truth


def integer(value: Any) -> int:
    """Return an index or a count: a whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"expected a whole number from 0, got {_shown(value)}")
    return value


def number(value: Any) -> float:
    """Return a number, which may be one of the strings for those that are not finite."""
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, got {_shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number is too large") from None


def scores(value: Any) -> FloatArray:
    """Return nested lists of numbers as an array."""
    try:
        wide = np.array(_numbers(value, DEEPEST), dtype=np.float64)
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith("expected") else "rows differ in length") from None
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    if np.any(np.isinf(narrow) & np.isfinite(wide)):
        raise ValueError("a number is too large")
    return narrow


def setting(value: Any, depth: int = DEEPEST) -> Any:
    """Return what a method's setting holds: numbers, strings, None, and tuples and dicts of them."""
    if not depth:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return NOT_FINITE.get(value, value)
    if isinstance(value, list | tuple):
        return tuple(setting(v, depth - 1) for v in value)
    if isinstance(value, dict):
        return {k: setting(v, depth - 1) for k, v in value.items()}
    return value


def setting_text(value: Any) -> str:
    """Return a setting's value as it is typed."""
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    return format(value, "g") if isinstance(value, float) else str(value)


def mapping(check: Check) -> Check:
    """Check every value of a dict."""

    def checked(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = _of_type(value, dict, "names with values")
        return {string(name): check(v) for name, v in found.items()}

    return checked


def optional(check: Check) -> Check:
    """Allow None, and check what is not."""
    return lambda value: None if value is None else check(value)


def each(check: Check, length: int | None = None) -> Check:
    """Check every entry of a list, which becomes a tuple."""

    def checked(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError(f"expected a list, got {_shown(value)}")
        if length is not None and len(value) != length:
            raise ValueError(f"expected {length} entries, got {len(value)}")
        return tuple(map(check, value))

    return checked


def array(check: Check) -> Check:
    """Allow a single value or a list of them, such as one for each label."""
    several = each(check)
    return lambda value: several(value) if isinstance(value, list | tuple) else check(value)


def choice(*values: str) -> Check:
    """Allow some words only."""

    def checked(value: Any) -> str:
        if value not in values:
            raise ValueError(f"expected one of {', '.join(values)}, got {_shown(value)}")
        return str(value)

    return checked


def record(kind: Callable[..., Any], checks: Mapping[str, Check]) -> Check:
    """Check a dict field by field, and make a value of it."""

    def checked(value: Any) -> Any:
        return kind(**read(_of_type(value, dict, "fields with values"), checks))

    return checked


def read(state: Mapping[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """Check the fields of a dict; others in it are left out.

    Raises:
        ValueError: If one is missing or cannot be what it is; the message names it.
    """
    found = {}
    for name, check in checks.items():
        if name not in state:
            raise ValueError(f"{name} is missing")
        try:
            found[name] = check(state[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def agree(condition: bool, problem: str) -> None:
    """Refuse fields that do not go together.

    Raises:
        ValueError: If the condition does not hold.
    """
    if not condition:
        raise ValueError(problem)


WITHOUT_SINKS: Mapping[str, Any] = {"sink": None, "sinks": ()}
"""What a file says that was written before attention sinks were told."""


def check_besides(bias: FloatArray | None, sink: FloatArray | None, sinks: Sequence[int], shape: Sequence[int]) -> None:
    """Refuse a bias or a sink that does not go with scores.

    Args:
        bias: What belongs to no token.
        sink: What attention sinks contribute.
        sinks: Which tokens they are.
        shape: That of the scores, (..., T).

    Raises:
        ValueError: If they are of another shape, or there is no such token.
    """
    for name, values in (("bias", bias), ("sink", sink)):
        agree(values is None or values.shape == tuple(shape[:-1]), f"{name}: of another shape than the scores")
    agree((sink is None) == (not sinks), "sink: without its tokens, or the other way round")
    agree(all(0 <= token < shape[-1] for token in sinks), "sinks: no such token")


def current_bias(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a result with its `bias`, which older files have among the diagnostics, and without sinks.

    There it is that of the last layer. Scores and bias add up to the same at every layer, which gives the others. Of
    texts that were read in several windows it was that of one of them, and is left out.

    Raises:
        ValueError: If scores or bias are not numbers.
    """
    state = {**WITHOUT_SINKS, **state}
    diagnostics = state.get("diagnostics", {})
    if "bias" in state or not isinstance(diagnostics, Mapping):
        return state
    kept = dict(diagnostics)
    bias = kept.pop("bias", None)
    if any("windows; scores are the mean" in str(note) for note in state.get("notes") or ()):
        bias = None
    if bias is not None:
        bias = scores(bias)
        if state.get("layers") is not None:
            sums = scores(state.get("scores")).sum(-1)  # (..., L)
            bias = (sums[..., -1] + bias)[..., None] - sums
        bias = plain(bias)
    return {**state, "diagnostics": kept, "bias": bias}


def document(state: Any, version: int) -> Mapping[str, Any]:
    """Return a JSON document of the format that this library reads.

    Raises:
        DataError: If it is something else, or of another version.
    """
    if not isinstance(state, Mapping):
        raise DataError(f"no result of normxlogit: expected fields with values, got {_shown(state)}")
    found = state.get("format_version")
    if found != version or isinstance(found, bool):
        raise DataError(f"cannot read format version {_shown(found)}; this version reads {version}")
    return state


def _numbers(value: Any, depth: int) -> Any:
    if isinstance(value, list | tuple) and depth:
        return [_numbers(v, depth - 1) for v in value]
    return number(value)


def _of_type(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected {name}, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """Return the beginning of a value, for a message; a container by its type, for it may be deep."""
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a huge number"
    return text if len(text) <= 40 else text[:37] + "..."
