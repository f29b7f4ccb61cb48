"""What a rule of the frozen network is, and what the rules share."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

__all__ = ["PASS", "Frozen", "Rule", "flows", "still"]


class Frozen(Protocol):
    """What a rule needs of the mode that it runs under."""

    def note(self, function: str, held: str) -> None:
        """Count something that was held."""

    def inside(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function with the mode on."""


Rule = Callable[[Frozen, Any, tuple[Any, ...], dict[str, Any]], Any]


def PASS(frozen: Frozen, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: N802
    """Stand for a function that returns no values, such as a shape: it is not even looked at."""
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
