"""What is decided of a setting that transformers or a neighbour takes, for tests against their own answers."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Applied:
    """The setting changes the answer, and the explained answer is the changed one."""

    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Settings without which it changes nothing."""
    given: Any = None
    """The input; None for the usual one."""


@dataclass(frozen=True)
class Refused:
    """The setting is an error that names it."""

    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)
    named: str = ""
    """What the error says; by default the setting's name."""


@dataclass(frozen=True)
class Harmless:
    """The setting does not change the answer, for this reason."""

    reason: str
    value: Any = None
    """Of those that can be tried here."""
    beside: Mapping[str, Any] = field(default_factory=dict)


Decision = Applied | Refused | Harmless


def undecided(names: Iterable[str], decisions: Mapping[str, Any]) -> set[str]:
    """Return the settings of which nothing is decided: each needs a line in a table."""
    return set(names) - set(decisions)


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's parameters."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind not in kinds and p.name != "self"]
