"""The methods by name; other packages add theirs with the same decorator, in a module that their extension names.

What is registered about the methods in a folder of this package is also in the folder's catalogue.json, which
`scripts/method_table.py` writes: a method can be listed, or be missing, without the seconds that importing torch takes.
Its class is imported when it is first used.
"""

import inspect
import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import MethodError, nearest
from ..extending import named_once, registered
from ..results.storage.schema import plain
from .other_names import letters, other_name
from .settings import Setting, Settings, parse, settings_of

if TYPE_CHECKING:
    from .base import Method

ANY_MODEL = "any model with a head"
"""The `needs` of a method that works on every supported model."""

LOGITS = "the model's logits"
"""The `needs` of a method that works even if no head is found."""

CATALOGUES = sorted(Path(__file__).parents[1].glob("*/catalogue.json"), key=lambda path: path.parent.name != "methods")
"""The catalogues of this package's folders that hold methods, the core's first."""


@dataclass(frozen=True)
class MethodInfo:
    """What a reader should know of a method.

    Attributes:
        name: The name that users type.
        summary: One line.
        title: What it does in a few words, for lists of choices; empty for nothing.
        paper: Its source, such as "Mohebbi et al., 2023".
        needs: Its requirements on a model.
        per_layer: Whether it gives scores for single layers.
        signed: Whether, with its default settings, negative scores mean evidence against the target.
        tokenwise: Whether a token's score follows from that token's own representations, so that with a causal model
            the scores of one pass hold for every shorter text too.
        passes: Its cost in passes of the model, T the number of tokens.
        extra: This package's extra that brings what it imports, empty for none.
        home: The module that its class is in.
        defaults: Its settings by name, with their defaults as plain values.
    """

    name: str
    summary: str
    title: str
    paper: str
    needs: str
    per_layer: bool
    signed: bool
    tokenwise: bool
    passes: str
    extra: str
    home: str
    defaults: Mapping[str, Any] = field(hash=False)

    @property
    def cls(self) -> type["Method"]:
        """The class of the method, whose arguments are its settings."""
        if self.name not in _CLASSES:
            import_module(self.home)
        return _CLASSES[self.name]

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The settings by name, with their defaults and allowed values."""
        return settings_of(self.cls)


_METHODS = {
    row["name"]: MethodInfo(**row) for path in CATALOGUES for row in json.loads(path.read_text(encoding="utf-8"))
}
"""The methods by name: first those of the catalogues, then those that are registered."""

_CLASSES: dict[str, type["Method"]] = {}
"""The classes of methods that are imported, by name."""

MethodClass = TypeVar("MethodClass", bound="type[Method]")


def register(
    name: str,
    *,
    paper: str,
    title: str = "",
    needs: str = ANY_MODEL,
    per_layer: bool = False,
    signed: bool = False,
    tokenwise: bool = False,
    passes: str = "1 forward",
    extra: str = "",
) -> Callable[[MethodClass], MethodClass]:
    """Return a decorator that adds a method's class to the registry.

    Args:
        name: The name that users type, without spaces, colons and commas.
        paper: Its source, such as "Mohebbi et al., 2023".
        title: What it does in a few words, for lists of choices.
        needs: Its requirements on a model.
        per_layer: Whether it gives scores for single layers.
        signed: Whether, with its default settings, negative scores mean evidence against the target.
        tokenwise: Whether a token's score follows from that token's own representations; see `MethodInfo`.
        passes: Its cost in passes of the model, T the number of tokens.
        extra: This package's extra that brings what it imports, empty for none.

    Example:
        @register("my-method", paper="...", signed=True)
        class MyMethod(Method):
            def __init__(self, p: float = 2.0) -> None: ...
            def score(self, request: Request) -> Scores: ...

    Raises:
        MethodError: If it is no name, or the class is not a `Method` with typed settings.
        ExtensionError: If another class has the name.
    """

    def add(cls: MethodClass) -> MethodClass:
        """Check the class, and enter it with what is known of it; the decorator."""
        _check_registrable(name, cls)
        try:
            defaults = {key: plain(setting.default) for key, setting in settings_of(cls).items()}
        except TypeError as error:
            raise MethodError(str(error)) from None
        cls.info = MethodInfo(
            name=name,
            summary=(cls.__doc__ or "").strip().partition("\n")[0],
            title=title,
            paper=paper,
            needs=needs,
            per_layer=per_layer,
            signed=signed,
            tokenwise=tokenwise,
            passes=passes,
            extra=extra,
            home=cls.__module__,
            defaults=defaults,
        )
        _METHODS[name] = cls.info
        _CLASSES[name] = cls
        return cls

    return add


def _check_name(name: str, cls: Any) -> None:
    """Refuse a name for a class that another class has, or that is no name."""
    registered_info = _METHODS.get(name)
    if registered_info is not None:
        # The name of a class of this package is known from the catalogue before the class is registered.
        is_of_this_class = registered_info.home == cls.__module__ and _CLASSES.get(name, cls) is cls
        if not is_of_this_class:  # this raises the error that names both modules
            named_once("methods", [(name, cls, module) for module in (registered_info.home, cls.__module__)])
    if not re.fullmatch(r"[^:,= \t\n]+", name):
        raise MethodError(f"{name!r} is not a name of a method: it is written without spaces, colons and commas")


def _check_registrable(name: str, cls: Any) -> None:
    """Refuse a name that is taken or no name, and a class that is not a method."""
    from .base import Method

    _check_name(name, cls)
    if not (isinstance(cls, type) and issubclass(cls, Method)) or inspect.isabstract(cls):
        raise MethodError(f"{cls!r} is not a subclass of normxlogit.methods.Method with a score()")
    if "info" in vars(cls) and cls.info.name != name:
        raise MethodError(f"{cls.__name__} is registered already, as {cls.info.name}: make a subclass of it")


def list_methods() -> list[MethodInfo]:
    """Return all methods, this package's first, then those that other packages add."""
    return list(_all_methods().values())


def _all_methods() -> Mapping[str, MethodInfo]:
    """Return all methods by name; the modules of other packages that register theirs are imported first."""
    registered("methods")
    return _METHODS


def alternatives(*, per_layer: bool = False, head: bool = True) -> str:
    """Return a phrase with the methods that work on any model, for the error of one that does not.

    Args:
        per_layer: Whether only methods that score single layers are meant.
        head: Whether the model has a head.
    """
    needs = (ANY_MODEL, LOGITS) if head else (LOGITS,)
    names = [method.name for method in list_methods() if method.needs in needs and (method.per_layer or not per_layer)]
    return f"{', '.join(names)} work on {ANY_MODEL}" if head else f"{', '.join(names)} need the model's logits only"


def describe(name: str) -> MethodInfo:
    """Return the registered information on a method."""
    name = _spelled_here(str(name))
    if name not in _METHODS:
        raise MethodError(f"no method named {name!r}; {_hint(name)}")
    return _METHODS[name]


def spec_here(spec: str, show_note: Callable[[str], object]) -> str:
    """Return the text that names a method, with its name here where it has that of another package.

    Args:
        spec: A name, or NAME:SETTING=VALUE,...
        show_note: Called with a line that says what the method is called here, if another package's name was given.
    """
    name, _, settings = (part.strip() for part in spec.partition(":"))
    entry = None if _spelled_here(name) in _METHODS else other_name(name)
    # A name of the nearest method only stays as it is: `describe` refuses it, and says what is nearest.
    if entry is None or not entry.is_same:
        return spec
    show_note(f"{name} is called {entry.described}")
    # The method here may have settings already.
    separator = "," if ":" in entry.here else ":"
    return f"{entry.here}{separator}{settings}" if settings else entry.here


def _spelled_here(name: str) -> str:
    """Return the registered name with the letters of a name, or the name itself if there is none."""
    methods = _all_methods()
    same_letters = {letters(registered_name): registered_name for registered_name in methods}
    return name if name in methods else same_letters.get(letters(name), name)


def _hint(name: str) -> str:
    """Return what to write in the place of an unknown name."""
    entry = other_name(name)
    if entry is not None:
        return f"{'it is called' if entry.is_same else 'the nearest is'} {entry.described}"
    similar = nearest(name, _METHODS)
    return f"did you mean {' or '.join(similar)}?" if similar else f"there are {', '.join(_METHODS)}"


def _warn(line: str) -> None:
    """Warn of a line; from one place for all calls, so that Python shows each line once."""
    warnings.warn(line, stacklevel=1)


def method_named(method: "str | Method") -> "Method":
    """Return the method that a text names, such as "integrated-gradients:steps=20,aggregate=l1".

    Args:
        method: A name, with settings that differ from their defaults; or a method, which is returned as it is. A name
            that other packages use, such as "ig", is taken with a warning that says what it is called here.

    Raises:
        MethodError: If there is no such method or setting, or a value that it refuses.
    """
    if not isinstance(method, str):
        return _registered_method(method)
    name, _, settings_text = spec_here(method, _warn).partition(":")
    info = describe(name.strip())
    try:
        settings = _parsed_settings(info, settings_text) if settings_text else {}
    except ValueError as error:
        raise MethodError(f"{info.name}: {error}") from None
    return info.cls(**settings)


def _registered_method(method: Any) -> "Method":
    """Return a method, or that of a class with its default settings; refuse what is not registered."""
    from .base import Method

    if isinstance(method, type) and issubclass(method, Method):
        method = method()
    if not isinstance(method, Method):
        raise MethodError(f"a method is a name or a Method, not {type(method).__name__}")
    if "info" not in vars(type(method)):  # a subclass inherits it, but is another method than its base
        raise MethodError(f"{type(method).__name__} is not registered: put @register(...) before the class")
    return method


def _parsed_settings(info: MethodInfo, text: str) -> Settings:
    """Return the settings in a text such as "steps=20,aggregate=l1".

    An unknown setting stays a text: the method's constructor refuses it by its name.
    """
    settings: Settings = {}
    for part in filter(None, text.split(",")):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            raise ValueError("write settings as name:setting=value,setting=value")
        if key in settings:
            raise ValueError(f"{key} is given twice")
        settings[key] = parse(info.settings[key], value) if key in info.settings else value
    return settings
