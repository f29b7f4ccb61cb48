"""The schema of results and settings: values are checked by type hints and converted for JSON.

Pydantic refuses "NaN" for a number or takes "1.5" for one, and msgspec refuses numpy's numbers.
"""

import math
import numbers
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from ...errors import DataError

FORMAT_VERSION = 1
"""Version of the files that are written; it is increased when an older library would misread a new file."""

FloatArray = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

MOST_INDEX = 2**53
"""JSON readers hold whole numbers below it exactly."""

Index = Annotated[int, range(MOST_INDEX)]
"""An index or a count."""

Number = Annotated[float, "NaN and infinities included"]
"""A number that was measured; a plain float is finite."""

Measured = Annotated[Any, Number | tuple[Number, ...]]
"""A diagnostic of a method: a number, or several such as one for each label."""

IndexSpan = tuple[Index, Index]
"""The first character or unit of a part, and one past its last."""

IndexSpans = tuple[IndexSpan, ...]

Indices = tuple[Index, ...]
"""Indices of units, tokens or layers."""

Strings = tuple[str, ...]

State = Mapping[str, Any]
"""The fields of a record as plain values, as a file has them."""

Fields = dict[str, Any]
"""The fields of a record or a row, by name."""

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON lacks, as strings, spelled as in protobuf's JSON."""

JSON_NAMES = {str(number): name for name, number in NOT_FINITE.items()}

WHOLE_NUMBER_LIMIT = 2**63
"""Whole numbers are below this limit of 64-bit arrays."""

DEEPEST_NESTING = 16
"""The deepest nesting of a setting that is read."""

Check = Callable[[Any], Any]
"""A function that returns a value in the type that it is for, or raises ValueError."""


def plain(value: Any) -> Any:
    """Return a value for strict JSON: numpy numbers as Python's, NaN and infinities as strings."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return _plain_float(value)
    if is_dataclass(value) or hasattr(value, "_fields"):
        value = {name: getattr(value, name) for name in field_names(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(map(plain, value))
    return value


def _plain_float(value: float) -> float | str:
    """Return a number for strict JSON, which lacks NaN and infinities."""
    return value if math.isfinite(value) else JSON_NAMES[str(value)]


def same(value: Any, other: Any) -> bool:
    """Return whether two values of a field are equal; NaN equals NaN."""
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(value, other, equal_nan=True)
    return bool(value == other or plain(value) == plain(other))  # the second of NaN, and of media with their arrays


def freeze(record: Any) -> None:
    """Make the arrays of a record read-only."""
    for value in vars(record).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False


def checked_version(state: Any) -> State:
    """Return a document after checking that this library reads its version."""
    if not isinstance(state, Mapping):
        raise DataError(f"not a result of normxlogit: expected fields with values, got {abbreviated(state)}")
    version = state.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise DataError(f"cannot read format version {abbreviated(version)}; this version reads {FORMAT_VERSION}")
    return state


def require(condition: bool, problem: str) -> None:
    """Raise ValueError with a message if a condition does not hold."""
    if not condition:
        raise ValueError(problem)


@cache
def check(hint: Any) -> Check:
    """Return a function that checks values against a type hint, Any for a method's setting, and converts them.

    It returns the value in the hint's own type: lists become tuples, mappings records, numpy's numbers Python's, nested
    lists arrays. It raises ValueError for a value of another type, and names the field of a record.
    """
    if hint in SCALARS:  # first, as some of them are annotated, too
        return partial(_scalar, hint)
    if hint == FloatArray:
        return _array
    if hint is Any:
        return _nested
    origin = get_origin(hint)
    if origin in CONTAINERS:
        return partial(CONTAINERS[origin], hint)
    if origin is Annotated:  # a type for readers of the code, and the one that is checked
        return check(hint.__metadata__[0])
    if hasattr(hint, "of_state"):  # of several classes, of which a field says which
        return hint.of_state
    if origin is None and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return record_check(hint)
    return partial(_member, hint)


def union_members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union; one type alone as a tuple of it."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def described(hint: Any) -> str:
    """Return a description of the values that a type hint allows, for errors."""
    *earlier, last = [text for alternative in union_members(hint) for text in _described_values(alternative)]
    return f"{', '.join(earlier)} or {last}" if earlier else last


def _described_values(hint: Any) -> list[str]:
    """Return descriptions of the values that a type which is not a union allows: of a Literal one for each."""
    if get_origin(hint) is Literal:
        return list(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return [f"several values, each {described(get_args(hint)[0])}"]
    if hint in SCALARS:
        description, _ = SCALARS[hint]
        return [description]
    return ["None" if hint is type(None) else f"a {hint.__name__}"]


def setting_text(value: Any) -> str:
    """Return a setting's value as it is typed."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def abbreviated(value: Any) -> str:
    """Return the beginning of a value for a message; of a container, its type alone."""
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a huge number"
    return text if len(text) <= 40 else text[:37] + "..."


def _whole(value: Any, least: int, limit: int) -> int | None:
    """Return a whole number from `least` to below `limit`; None for any other value."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)  # of Python or numpy
    return int(value) if is_whole and least <= int(value) < limit else None


def _real(value: Any, *, finite: bool) -> float | None:
    """Return a number as a float; None for any other value.

    Args:
        value: A number. Unless `finite`, also NaN or an infinity, or its name in JSON.
        finite: Whether NaN and infinities are refused.
    """
    if isinstance(value, str) and not finite:
        return NOT_FINITE.get(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return None
    with suppress(OverflowError):  # of a whole number that no float holds
        number = float(value)
        return number if math.isfinite(number) or not finite else None
    return None


SCALARS: dict[Any, tuple[str, Check]] = {
    str: ("a string", lambda value: value if isinstance(value, str) else None),
    bool: ("true or false", lambda value: bool(value) if isinstance(value, bool | np.bool_) else None),
    int: ("a whole number", lambda value: _whole(value, 1 - WHOLE_NUMBER_LIMIT, WHOLE_NUMBER_LIMIT)),
    Index: ("a whole number from 0", lambda value: _whole(value, 0, MOST_INDEX)),
    float: ("a number", lambda value: _real(value, finite=True)),
    # Most numbers of a file are floats, which need no further check.
    Number: ("a number", lambda value: value if type(value) is float else _real(value, finite=False)),
}
"""The description of each scalar type, and a function that converts a value to it or returns None."""


def _scalar(hint: Any, value: Any) -> Any:
    """Convert a value to a scalar type."""
    expected, convert = SCALARS[hint]
    if (converted := convert(value)) is None:
        raise _refusal(expected, value)
    return converted


def _member(hint: Any, value: Any) -> Any:
    """Return one of the values of a Literal, an object of a class, or None."""
    allowed = get_args(hint)  # of a Literal; a class and None have no arguments
    if allowed:
        is_member = any(type(value) is type(member) and value == member for member in allowed)  # True is not 1
    else:
        is_member = isinstance(value, hint)
    if not is_member:
        raise _refusal(described(hint), value)
    return value


def _union(hint: Any, value: Any) -> Any:
    """Convert a value by the first alternative that takes it."""
    alternatives = [kind for kind in get_args(hint) if kind is not type(None)]
    allows_none = len(alternatives) < len(get_args(hint))
    if value is None and allows_none:
        return None
    if len(alternatives) == 1:
        return check(alternatives[0])(value)  # whose error says more
    for alternative in alternatives:
        with suppress(ValueError):
            return check(alternative)(value)
    raise _refusal(described(hint), value)


def _entries(hint: Any, value: Any) -> tuple[Any, ...]:
    """Convert the entries of a list, which are of one type, or of one type each in a tuple of fixed length."""
    if not isinstance(value, list | tuple):
        raise _refusal("a list", value)
    entry_types = get_args(hint)
    if get_origin(hint) is Sequence or ... in entry_types:  # of any length
        return tuple(map(check(entry_types[0]), value))
    if len(value) != len(entry_types):
        raise ValueError(f"expected {len(entry_types)} entries, got {len(value)}")
    return tuple(check(type_)(entry) for type_, entry in zip(entry_types, value, strict=True))


def _mapping(hint: Any, value: Any) -> Fields:
    """Convert a mapping from names to values of one type."""
    if not isinstance(value, Mapping):
        raise _refusal("names with values", value)
    check_name, check_entry = map(check, get_args(hint))
    return {check_name(name): check_entry(entry) for name, entry in value.items()}


CONTAINERS: dict[Any, Callable[[Any, Any], Any]] = {
    **dict.fromkeys((Union, types.UnionType), _union),
    **dict.fromkeys((tuple, Sequence), _entries),
    Mapping: _mapping,
}
"""What converts a value to a type that is made of others, by its origin."""


@cache
def record_check(record: Any) -> Check:
    """Return a check that makes a record of a mapping; entries that are not fields are ignored."""
    hints = get_type_hints(record, include_extras=True)
    return partial(_record, record, {name: check(hints[name]) for name in field_names(record)})


def field_names(record: Any) -> Sequence[str]:
    """Return the names of the fields of a dataclass or a named tuple, or of its class."""
    return record._fields if hasattr(record, "_fields") else [field.name for field in fields(record)]


def _record(record: Any, checks: dict[str, Check], state: Any) -> Any:
    """Return a record of a state, each field of which has passed its check.

    Args:
        record: The class, a dataclass or a named tuple.
        checks: The check of each field, by its name.
        state: A value for each field, by its name, as a file has it.
    """
    if not isinstance(state, Mapping):
        raise _refusal("fields with values", state)
    values = {}
    for name, check_field in checks.items():
        if name not in state:
            raise ValueError(f"{name} is missing")
        try:
            values[name] = check_field(state[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return record(**values)


def _array(value: Any) -> FloatArray:
    """Return nested lists of numbers as an array."""
    if isinstance(value, np.ndarray):  # such as one read from Parquet, which holds numbers alone
        return value.astype(np.float32)
    entries = np.array(value, object)  # of rows that differ in length an array of lists, which the check refuses
    numbers_of_entries = list(map(check(Number), entries.ravel().tolist()))
    float64 = np.array(numbers_of_entries, np.float64).reshape(entries.shape)
    with np.errstate(over="ignore"):
        float32 = float64.astype(np.float32)
    if np.any(np.isinf(float32) & np.isfinite(float64)):
        raise ValueError("a number is too large")
    return float32


def _nested(value: Any, depth_left: int = DEEPEST_NESTING) -> Any:
    """Return the value of a setting: numbers, strings, None, and tuples and mappings of them."""
    if not depth_left:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return NOT_FINITE.get(value, value)
    if isinstance(value, list | tuple):
        return tuple(_nested(entry, depth_left - 1) for entry in value)
    if isinstance(value, Mapping):
        return {name: _nested(entry, depth_left - 1) for name, entry in value.items()}
    return value


def _refusal(expected: str, value: Any) -> ValueError:
    return ValueError(f"expected {expected}, got {abbreviated(value)}")
