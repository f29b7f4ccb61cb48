"""Calls: methods of the explainer that extensions add, each imported when it is first asked for."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from ..extending import import_reference, named_once
from .arguments import checked_arguments


class Call:
    """A method that an extension adds to a class: a function whose first argument is the object.

    Args:
        reference: The function, whose first argument is called `explainer`, as "module:name".
    """

    def __init__(self, reference: str) -> None:
        self.reference = reference

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function, whose arguments are checked as those of the class's own methods."""
        try:
            function = import_reference(self.reference)
        except ImportError as error:
            raise AttributeError(f"the call {self.reference} could not be imported: {error}") from error
        return checked_arguments(unwritten=("explainer",))(function)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return the function, bound to the object where there is one."""
        return self.function.__get__(instance, owner)


def add_calls(kind: type, calls: Mapping[str, str]) -> None:
    """Add calls to a class, each once.

    Args:
        kind: The class.
        calls: References of functions by the names of the methods that they become.

    Raises:
        ExtensionError: If the class has another method of such a name.
    """
    is_added = {name: isinstance(value, Call) for name, value in vars(kind).items()}
    entries = [(name, reference, reference) for name, reference in calls.items() if not is_added.get(name)]
    for name, reference in named_once("calls", entries, dir(kind)).items():
        setattr(kind, name, Call(reference))
