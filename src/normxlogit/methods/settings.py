"""The settings of a method, as the arguments of its constructor declare them: their types, checks and spelling."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from ..errors import nearest
from ..results.storage import schema

Settings = dict[str, Any]
"""The settings of a method, by name."""


@dataclass(frozen=True)
class Setting:
    """One setting of a method.

    Attributes:
        name: Its name, as the constructor has it.
        default: Its default value.
        kind: The type hint of its values.
    """

    name: str
    default: Any
    kind: Any

    @property
    def allowed(self) -> str:
        """A description of the allowed values."""
        return schema.described(self.kind)


@cache
def settings_of(constructor: Callable[..., Any]) -> Mapping[str, Setting]:
    """Return the settings that a constructor declares, by name, in its order.

    Args:
        constructor: A method's class, or its `__init__`.

    Raises:
        TypeError: If a setting has no type or no default.
    """
    hints = get_type_hints(constructor.__init__ if isinstance(constructor, type) else constructor)  # type: ignore[misc]
    settings = {}
    for name, parameter in inspect.signature(constructor).parameters.items():
        if name == "self":  # of an `__init__`; the signature of a class has none
            continue
        if name not in hints or parameter.default is parameter.empty:
            raise TypeError(f"{constructor.__qualname__}: the setting {name} needs a type and a default")
        settings[name] = Setting(name, parameter.default, hints[name])
    return settings


def check(setting: Setting, value: Any) -> Any:
    """Return a value as the setting's plain Python type.

    Args:
        setting: The setting.
        value: A value of Python, also of numpy.

    Raises:
        ValueError: If the setting does not allow it.
    """
    try:
        return schema.check(setting.kind)(value)
    except ValueError:
        raise _refusal(setting, value) from None


def parse(setting: Setting, text: str) -> Any:
    """Return a setting's value, read from text.

    Args:
        setting: The setting.
        text: The value as `schema.setting_text` writes it.

    Raises:
        ValueError: If the setting does not allow it.
    """
    for kind in sorted(schema.union_members(setting.kind), key=lambda kind: kind is str):  # a string could be anything
        with suppress(KeyError, ValueError):
            return _parse_as(text, kind)
    raise _refusal(setting, text)


def unknown_setting(method: str, name: str, settings: Mapping[str, Setting]) -> str:
    """Return the message for an unknown setting, which lists the settings of the method."""
    similar = nearest(name, settings, most=1)
    hint = f"did you mean {similar[0]}? " if similar else ""
    return f"{method} has no setting {name!r}; {hint}it has {', '.join(settings) or 'no settings'}"


def _refusal(setting: Setting, value: Any) -> ValueError:
    """Return the error for a value that a setting does not allow."""
    return ValueError(f"{setting.name} must be {setting.allowed}, not {value!r}")


def _parse_as(text: str, kind: Any) -> Any:
    """Parse a text as a value of one type.

    Raises:
        ValueError: If it is not a number, where one is expected.
        KeyError: If it is not one of the values of a Literal, of bool, or None.
    """
    if kind in (int, float, str):
        return schema.check(kind)(kind(text))
    values: tuple[Any, ...] = get_args(kind)
    if kind is bool:
        values = (True, False)
    elif kind is type(None):
        values = (None,)
    value_of_text = {schema.setting_text(value): value for value in values}
    return value_of_text[text]
