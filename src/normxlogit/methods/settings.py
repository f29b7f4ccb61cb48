"""Settings of methods: declared by constructors, checked at construction, formatted and parsed as text."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from ..errors import nearest
from ..results.storage import schema


@dataclass(frozen=True)
class Setting:
    """One setting of a method."""

    name: str
    default: Any
    kind: Any

    @property
    def allowed(self) -> str:
        """A description of the allowed values."""
        return schema.described(self.kind)


@cache
def settings_of(constructor: Callable[..., Any]) -> Mapping[str, Setting]:
    """Return the settings that a constructor declares, in its order."""
    try:
        hints = get_type_hints(constructor.__init__ if isinstance(constructor, type) else constructor)  # type: ignore[misc]
    except NameError as error:
        raise TypeError(f"{constructor.__qualname__}: a setting's type is not known here: {error}") from None
    settings = {}
    for name, parameter in inspect.signature(constructor).parameters.items():
        if name == "self":
            continue
        if name not in hints or parameter.default is parameter.empty:
            raise TypeError(f"{constructor.__qualname__}: the setting {name} needs a type and a default")
        settings[name] = Setting(name, parameter.default, hints[name])
    return settings


def check(setting: Setting, value: Any) -> Any:
    """Return a value as the setting's plain Python type."""
    for kind in schema.union_members(setting.kind):
        with suppress(ValueError):
            return schema.check(kind)(value)
    raise _refusal(setting, value)


def parse(setting: Setting, text: str) -> Any:
    """Return a setting's value, read from text."""
    for kind in sorted(schema.union_members(setting.kind), key=lambda kind: kind is str):  # a string could be anything
        with suppress(ValueError):
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
    """Parse a text as a value of one type."""
    if kind in (int, float, str):
        return schema.check(kind)(kind(text))
    values = {bool: (True, False), type(None): (None,)}.get(kind, get_args(kind))  # or of a Literal
    for value in values:
        if schema.setting_text(value) == text:
            return value
    raise ValueError(f"{text} is not one of {', '.join(map(schema.setting_text, values))}")
