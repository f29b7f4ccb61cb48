"""Settings of methods: read off a class's constructor, checked when one is made, written and read as text."""

import inspect
import math
import numbers
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["Setting", "check", "format_value", "parse", "settings_of", "split_settings", "unknown"]

LIST_MARK = "+"
"""Between the values of a setting that takes several; commas stand between settings."""

LARGEST = 2**63
"""What a whole number stays below: arrays count no further."""


@dataclass(frozen=True)
class Setting:
    """One setting of a method.

    Attributes:
        name: Its name.
        default: Its default.
        kind: Its type, as the constructor states it.
    """

    name: str
    default: Any
    kind: Any

    @property
    def allowed(self) -> str:
        """The values it takes, in words."""
        return _described(self.kind)


@cache
def settings_of(constructor: Callable[..., Any]) -> Mapping[str, Setting]:
    """Read the settings off a constructor, in its order.

    Raises:
        TypeError: If a setting has no type or no default.
    """
    try:
        hints = get_type_hints(constructor.__init__ if isinstance(constructor, type) else constructor)  # type: ignore[misc]
    except NameError as error:
        raise TypeError(f"{constructor.__qualname__}: a setting's type is not known here: {error}") from None
    found = {}
    for name, parameter in inspect.signature(constructor).parameters.items():
        if name == "self":
            continue
        if name not in hints or parameter.default is parameter.empty:
            raise TypeError(f"{constructor.__qualname__}: the setting {name} needs a type and a default")
        found[name] = Setting(name, parameter.default, hints[name])
    return found


def check(setting: Setting, value: Any) -> Any:
    """Return a value as the setting's plain Python type.

    Args:
        setting: The setting.
        value: What was given; numpy's numbers are taken for Python's.

    Raises:
        ValueError: If the setting does not take the value.
    """
    for kind in _alternatives(setting.kind):
        found, fits = _as_kind(value, kind)
        if fits:
            return found
    raise _refusal(setting, value)


def split_settings(text: str) -> list[str]:
    """Split what stands after a method's name at its commas; those in brackets belong to a value.

    Raises:
        ValueError: If a bracket is not closed or was not opened.
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise ValueError("a bracket has no partner")
    return [part for part in parts if part]


def parse(setting: Setting, text: str) -> Any:
    """Read a setting's value from text.

    Args:
        setting: The setting.
        text: Its value; one with commas in it stands in brackets.

    Raises:
        ValueError: If the setting does not take it.
    """
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    for kind in sorted(_alternatives(setting.kind), key=lambda kind: kind is str):  # a string could be anything
        found, fits = _read(text, kind)
        if fits:
            return found
    raise _refusal(setting, text)


def unknown(method: str, name: str, settings: Mapping[str, Setting]) -> str:
    """Say that a method has no setting of a name, and which it has."""
    return f"{method} has no setting {name!r}; it has {', '.join(settings) or 'no settings'}"


def format_value(value: Any) -> str:
    """Write a value as `parse` reads it."""
    if isinstance(value, tuple):
        return LIST_MARK.join(format_value(v) for v in value)
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    text = str(value)
    return f"({text})" if set(text) & set(",()") else text  # a method with settings of its own


def _refusal(setting: Setting, value: Any) -> ValueError:
    """Return the error of a value that a setting does not take."""
    try:
        too_large = abs(int(value)) >= LARGEST
    except (TypeError, ValueError, OverflowError):
        too_large = False
    larger = ": it has too many digits to fit into 64 bits" if too_large else ""
    return ValueError(f"{setting.name} must be {setting.allowed}, not {value!r}{larger}")


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _described(kind: Any) -> str:
    parts = []
    for one in _alternatives(kind):
        if get_origin(one) is Literal:
            parts += [repr(value) for value in get_args(one)]
        elif get_origin(one) is tuple:
            parts.append(f"several values, each {_described(get_args(one)[0])}")
        else:
            names: dict[Any, str] = {
                bool: "true or false",
                int: "a whole number",
                float: "a number",
                str: "a string",
                type(None): "None",
            }
            parts.append(names.get(one) or f"a {one.__name__}")
    return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _as_kind(value: Any, kind: Any) -> tuple[Any, bool]:
    """Convert a value to one kind; return it and whether it is of that kind."""
    if get_origin(kind) is Literal:
        return value, any(value is v or (type(value) is type(v) and value == v) for v in get_args(kind))
    if get_origin(kind) is tuple:
        several = value if isinstance(value, tuple | list) else (value,)
        each = [_as_kind(v, get_args(kind)[0]) for v in several]
        return tuple(v for v, _ in each), bool(each) and all(fits for _, fits in each)
    if kind in (int, float):
        number = numbers.Integral if kind is int else numbers.Real
        try:
            fits = isinstance(value, number) and not isinstance(value, bool)
            fits = fits and (abs(value) < LARGEST if kind is int else math.isfinite(value))
        except OverflowError:  # a whole number that no float holds
            fits = False
        return (kind(value), True) if fits else (value, False)
    if kind is bool:
        return (bool(value), True) if isinstance(value, bool | np.bool_) else (value, False)
    return value, isinstance(value, kind)


def _read(text: str, kind: Any) -> tuple[Any, bool]:
    """Parse a text as one kind; return the value and whether the text is of that kind."""
    if get_origin(kind) is Literal:
        found = [value for value in get_args(kind) if format_value(value) == text]
        return (found[0], True) if found else (text, False)
    if get_origin(kind) is tuple:
        each = [_read(part, get_args(kind)[0]) for part in text.split(LIST_MARK)]
        return tuple(v for v, _ in each), all(fits for _, fits in each)
    if kind in (int, float):
        try:
            return _as_kind(kind(text), kind)
        except ValueError:
            return text, False
    if kind is bool:
        return text == "true", text in ("true", "false")
    if kind is type(None):
        return None, text == "none"
    return text, kind is str
