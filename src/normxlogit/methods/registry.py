"""The methods by name; other packages add theirs with the same decorator or an entry point."""

import difflib
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, TypeVar

from torch import Tensor

from ..errors import MethodError
from ..models.targets import Target
from ..models.task_model import ForwardPass, TaskModel

__all__ = ["ANY_MODEL", "Method", "MethodInfo", "alternatives", "create", "describe", "list_methods", "register"]

ANY_MODEL = "any model with a head"
"""What a method `needs` that works wherever this library does."""

GROUP = "normxlogit.methods"
"""Entry-point group: each entry names a module (or class) whose import registers methods."""


class Method(Protocol):
    """What a method is: a callable object; its constructor takes the settings.

    An object with `needs_grad = True` is called with gradients allowed; the forward pass that it is given was made
    without, so it runs the model again. An object whose settings decide whether its scores are signed says so in its
    own `signed`, which then counts instead of the registered one.
    """

    def __call__(self, model: TaskModel, run: ForwardPass, target: Target, layers: tuple[int, ...]) -> Tensor:
        """Score the tokens of a batch.

        Args:
            model: The model.
            run: Its forward pass over the batch; what the method measures of itself goes into `run.diagnostics`.
            target: What to explain, K targets for each text.
            layers: The layers asked for, L of them; empty for the model's answer as it is.

        Returns:
            Scores, (B, K, max(L, 1), T), any value at padding.
        """
        ...


@dataclass(frozen=True)
class MethodInfo:
    """What a reader should know of a method.

    Attributes:
        name: Its name.
        summary: One line.
        paper: Where it comes from.
        needs: What it needs of a model.
        per_layer: Whether it gives scores for single layers.
        signed: Whether negative scores mean evidence against the target.
        tokenwise: Whether a token's score follows from that token's own representations, so that with a causal model
            the scores of one pass hold for every shorter text too.
        passes: Its cost in passes of the model, T the number of tokens.
        extra: The optional dependencies it needs, empty for none.
        factory: Makes the method from its settings.
    """

    name: str
    summary: str
    paper: str
    needs: str
    per_layer: bool
    signed: bool
    tokenwise: bool
    passes: str
    extra: str
    factory: Callable[..., Method]

    @property
    def settings(self) -> dict[str, Any]:
        """Names and defaults of its settings."""
        return dict(_settings(self.factory))


@cache
def _settings(factory: Callable[..., Method]) -> dict[str, Any]:
    parameters = inspect.signature(factory).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD}


_METHODS: dict[str, MethodInfo] = {}
_loaded = False
_loading = threading.RLock()

F = TypeVar("F", bound=Callable[..., Method])


def register(
    name: str,
    *,
    paper: str,
    needs: str = ANY_MODEL,
    per_layer: bool = False,
    signed: bool = False,
    tokenwise: bool = False,
    passes: str = "1 forward",
    extra: str = "",
) -> Callable[[F], F]:
    """Add a method to the registry.

    Args:
        name: What users type.
        paper: Source, such as "Mohebbi et al., 2023".
        needs: What it needs of a model.
        per_layer: Whether it gives scores for single layers.
        signed: Whether negative scores mean evidence against the target.
        tokenwise: Whether a token's score follows from that token's own representations.
        passes: Cost in passes of the model.
        extra: Name of this package's extra that brings what it imports.

    Returns:
        A decorator for the method's class; may be used several times on one class.

    Raises:
        MethodError: If the name is taken.
    """

    def add(factory: F) -> F:
        if name in _METHODS and _METHODS[name].factory is not factory:
            raise MethodError(f"a method named {name!r} is registered already")
        summary = (inspect.getdoc(factory) or "").partition("\n")[0]
        _METHODS[name] = MethodInfo(name, summary, paper, needs, per_layer, signed, tokenwise, passes, extra, factory)
        return factory

    return add


def list_methods() -> list[MethodInfo]:
    """All methods, this package's first, then those that other packages add."""
    _load()
    return list(_METHODS.values())


def alternatives(*, per_layer: bool = False) -> str:
    """The methods that work on any model with a head, to name in the error of one that does not.

    Args:
        per_layer: Only those that give scores for single layers.

    Returns:
        A phrase such as "normxlogit or logat work on any model with a head".
    """
    names = [m.name for m in list_methods() if m.needs == ANY_MODEL and (m.per_layer or not per_layer)]
    return f"{' or '.join(filter(None, [', '.join(names[:-1]), names[-1]]))} work on any model with a head"


def describe(name: str) -> MethodInfo:
    """Look a method up.

    Raises:
        MethodError: If there is none of this name; names the nearest.
    """
    _load()
    if name not in _METHODS:
        near = difflib.get_close_matches(str(name), _METHODS, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(_METHODS)}"
        raise MethodError(f"no method named {name!r}; {hint}")
    return _METHODS[name]


def title_of(name: str, settings: Mapping[str, Any]) -> str:
    """What a method is called in results: its name, and the settings that differ from the defaults."""
    return name + "".join(f" {key}={value}" for key, value in settings.items())


def create(name: str, settings: dict[str, Any]) -> tuple[MethodInfo, Method, dict[str, Any]]:
    """Make a method.

    Args:
        name: Its name.
        settings: Settings that differ from the defaults.

    Returns:
        What it is, the method, and all its settings.

    Raises:
        MethodError: If there is no such method or setting, or a value that it refuses.
    """
    info = describe(name)
    known = info.settings
    unknown = sorted(settings.keys() - known.keys())
    if unknown:
        raise MethodError(
            f"{name} has no setting {', '.join(map(repr, unknown))}; it has {', '.join(known) or 'no settings'}"
        )
    try:
        method = info.factory(**settings)
    except ImportError as error:
        raise MethodError(
            f"{name} needs the package {error.name}: pip install 'normxlogit[{info.extra or 'all'}]'"
        ) from None
    except ValueError as error:
        raise MethodError(f"{name}: {error}") from None
    return info, method, known | settings


def _load() -> None:
    """Import the methods of other packages, once; a package that fails costs its own methods only."""
    global _loaded
    with _loading:
        if _loaded:
            return
        _loaded = True  # before the loop: a module may look methods up while it is imported
        for entry in entry_points(group=GROUP):
            _import(entry)


def _import(entry: EntryPoint) -> None:
    try:
        entry.load()
    except Exception as error:
        warnings.warn(
            f"the methods of {entry.value} (entry point {entry.name!r}) could not be loaded: {error}", stacklevel=4
        )
