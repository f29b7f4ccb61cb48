"""The errors of the library: every message says what was wrong, where, and what to do.

A message may quote what a user or a file said, so it is made safe to print and bounded in length here.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

__all__ = [
    "DataError",
    "ExtensionError",
    "HeadMismatchError",
    "InputError",
    "MethodError",
    "NormXLogitError",
    "TargetError",
    "UnsupportedModelError",
]


LONGEST = 1000
"""Most characters of a message; the middle of a longer one, which quotes something, is left out."""

CLOSE = 0.75
"""Least similarity of a misspelt name and a suggestion, as `difflib` measures it."""

PREFIX = 3
"""Least letters of a prefix that matches a name."""

JOINERS = "\u200c\u200d\xa0\u3000"
"""Characters of words and emojis, and wide spaces, that are printed as they are."""


class NormXLogitError(Exception):
    """Base class of all errors that the library raises on purpose."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(_safe(arg) if isinstance(arg, str) else arg for arg in args))


class UnsupportedModelError(NormXLogitError):
    """The model lacks what the call needs: a head, hidden states, parts that a method works on."""


class HeadMismatchError(UnsupportedModelError):
    """No way was found to apply the model's head that reproduces the model's own logits."""


class TargetError(NormXLogitError):
    """The target does not exist: an unknown label, a token of several pieces, no mask in the text."""


class InputError(NormXLogitError):
    """The input cannot be explained: empty, not text, too long, a pair for a model of single texts."""


class DataError(NormXLogitError):
    """A data set or corpus does not hold what is needed; the message names file, row and column."""


class MethodError(NormXLogitError):
    """An unknown method name, or an option that the method does not have."""


class ExtensionError(NormXLogitError):
    """Two packages that are installed register the same name, or one registers a name of this package."""


def _safe(message: str) -> str:
    """Escape control characters, changes of writing direction and lone surrogates, and leave out the middle."""
    message = "".join(c if c in "\n\t" or c.isprintable() or c in JOINERS else repr(c)[1:-1] for c in message)
    tail = LONGEST // 4  # characters that are kept of the end; the omission marks take five
    return message if len(message) <= LONGEST else f"{message[: LONGEST - tail - 5]} ... {message[-tail:]}"


def reason_of(error: BaseException) -> str:
    """Return in one line what the system says of an error, or the first line of its message, or its kind."""
    return getattr(error, "strerror", None) or (str(error).strip().splitlines() or [type(error).__name__])[0]


def optional_module(name: str, otherwise: str, error: type[NormXLogitError] = DataError) -> Any:
    """Import a module of an extra.

    Args:
        name: The module.
        otherwise: What to say where it is not installed: what needs it, and the command that installs it.
        error: The class of the error that says it.

    Raises:
        NormXLogitError: If it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise error(otherwise) from None


def check_choice(name: str, value: object, choices: Sequence[Any], *, optional: bool = True) -> None:
    """Refuse a setting that is not among its choices.

    Args:
        name: The setting.
        value: Its value.
        choices: The values that it can have.
        optional: Whether it can be None, too.

    Raises:
        InputError: If it is another value.
    """
    allowed = [*choices, None] if optional else choices
    if value not in allowed:
        raise InputError(f"{name} must be {' or '.join(map(repr, allowed))}, not {value!r}")


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names as text, with the number of further ones."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def nearest(name: str, names: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the names most similar to a misspelt one, then those that share its prefix, short ones first.

    Args:
        name: The misspelt name.
        names: The names that there are.
        most: How many are returned at most.
    """
    from difflib import get_close_matches  # here, as only a misspelt name needs it

    typed = _spelled(name)
    spelled = {_spelled(candidate): candidate for candidate in names}  # each name by its spelling here
    near = get_close_matches(typed, spelled, most, CLOSE)
    long_enough = [candidate for candidate in spelled if min(len(candidate), len(typed)) >= PREFIX]
    sharing = [candidate for candidate in long_enough if candidate.startswith(typed) or typed.startswith(candidate)]
    return [spelled[candidate] for candidate in dict.fromkeys([*near, *sorted(sharing, key=len)])][:most]


def _spelled(name: str) -> str:
    return name.casefold().replace("_", "-")
