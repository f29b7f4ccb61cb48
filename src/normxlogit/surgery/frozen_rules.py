"""The type of the rules of the frozen network, and their common helpers."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor


class Frozen(Protocol):
    """The part of the function mode that rules use."""

    def note(self, function: str, held: str) -> None:
        """Count something that was held."""

    def inside(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function with the mode on."""


Rule = Callable[[Frozen, Any, tuple[Any, ...], dict[str, Any]], Any]


def PASS(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: N802
    """Mark a function that returns no values, such as a shape: it needs no rule."""
    return function(*args, **kwargs)


def flows(value: Any) -> bool:
    """Tell whether a value is a tensor that depends on the input."""
    return isinstance(value, Tensor) and value.requires_grad


def still(value: Any) -> Any:
    """Hold a tensor, or those in a list."""
    if isinstance(value, Tensor):
        return value.detach() if value.requires_grad else value
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(map(still, value))
    return value
