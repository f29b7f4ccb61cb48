"""Calls: methods of the explainer that extensions add, each imported when it is first asked for."""

from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

from ..errors import InputError
from ..extending import import_reference, named_once, references
from .arguments import checked_arguments

P = ParamSpec("P")
R = TypeVar("R")


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
        except ImportError as error:  # as of a method that is not there, so that `hasattr` and `help` go on
            raise AttributeError(f"the call {self.reference} could not be imported: {error}") from error
        return checked_arguments(unwritten=("explainer",))(function)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return the function, bound to the object as methods are; for the class, without an object, unbound."""
        return self.function.__get__(instance, owner)


def add_calls(kind: type, calls: Mapping[str, str]) -> None:
    """Add calls to a class, each once.

    Args:
        kind: The class.
        calls: References of functions by the names of the methods that they become.

    Raises:
        ExtensionError: If the class has another method of such a name.
    """
    added_before = {name for name, member in vars(kind).items() if isinstance(member, Call)}
    # A reference is what is registered, and holds the module that registers it, which errors name.
    entries = [(name, reference, reference) for name, reference in calls.items() if name not in added_before]
    for name, reference in named_once("calls", entries, dir(kind)).items():
        setattr(kind, name, Call(reference))


def left_to_calls(explain: Callable[P, R]) -> Callable[P, R]:
    """Return a method of the explainer that leaves its inputs to an extension's call if a keyword names this.

    So `explainer(text, pairs=64)` is `explainer.pairs(text, budget=64)`, where an extension says "pairs.budget" of the
    keyword "pairs"; all other arguments are passed on, and checked there.

    Args:
        explain: The method.
    """

    @wraps(explain)
    def explained(*args: P.args, **options: P.kwargs) -> R:
        call_of_keyword = references("keywords")  # such as {"pairs": "pairs.budget"}
        other_options: dict[str, Any] = {name: value for name, value in options.items() if name not in call_of_keyword}
        for keyword, reference in call_of_keyword.items():
            if options.get(keyword) is None:  # as if it was not given
                continue
            call, _, argument = reference.partition(".")
            if argument in other_options:
                raise InputError(f"{keyword}= is {argument}= of {call}: give one of them")
            explainer, *inputs = args  # `self`, and what is written without a name
            return getattr(explainer, call)(*inputs, **{argument: options[keyword]}, **other_options)
        return explain(*args, **other_options)

    return explained
