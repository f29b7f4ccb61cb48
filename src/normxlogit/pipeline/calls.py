"""Calls: methods of the explainer that extensions add, each imported when it is first asked for."""

import warnings
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from ..extending import Extension, import_reference
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


_added = set[str]()  # references of calls that were added, or left out


def add_calls(kind: type, extensions: Iterable[Extension]) -> None:
    """Add the calls of extensions to a class, each once; a name that the class has already keeps its meaning."""
    for extension in extensions:
        for name, reference in extension.calls.items():
            if reference in _added:
                continue
            _added.add(reference)
            if name in dir(kind):
                warnings.warn(f"the call {reference} is left out: there is a {name!r} already", stacklevel=2)
            else:
                setattr(kind, name, Call(reference))
