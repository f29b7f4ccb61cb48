"""Wrong rules: each rule of the frozen network removed, doubled, and with the other factor held."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from normxlogit.errors import UnsupportedModelError
from normxlogit.frozen import backward, rules
from tests.frozen.operations import NOTHING_FLOWS, ONE_ARGUMENT, TWINS, TWO_FACTORS, check

DOUBLED = "doubled"


def mutations() -> list[tuple[str, str]]:
    """Return the name of each operation in the table with each way to make its rule wrong."""
    found = []
    for name, row in rules.RULES.items():
        found.append((name, "removed"))
        if name not in NOTHING_FLOWS:  # twice nothing is nothing
            found.append((name, "doubled"))
        if name in rules.PRODUCTS or (row.held and not row.slope) or name == "Div":
            found.append((name, "swapped"))
    return found


@contextmanager
def mutated(name: str, how: str) -> Iterator[None]:
    """Make one rule wrong inside the block.

    "removed": torch's own gradient in its place, or no rule where that is right; "doubled": twice the gradient;
    "swapped": what moves is held, and what is held moves.
    """
    table, factors, row = dict(rules.RULES), set(rules.PRODUCTS), rules.RULES[name]
    held_factor = backward.held_factor
    if how == "doubled":
        table[name] = row._replace(rule=DOUBLED, slope=row.slope or (lambda _, __, inputs, ___: inputs))
    elif how == "swapped" and name in factors:
        held_factor = partial(the_other, held_factor)
    elif how == "swapped":
        table[name] = row._replace(held=lambda node: swapped(row, node))
    elif name in factors:
        factors.remove(name)
    elif row.held == () and row.slope is None:
        del table[name]
    else:
        table[name] = rules.RULES["Add"]
    with (
        mock.patch.object(rules, "RULES", table),
        mock.patch.object(backward, "RULES", table),
        mock.patch.object(backward, "PRODUCTS", factors),
        mock.patch.object(backward, "held_factor", held_factor),
        mock.patch.object(backward, "_apply", partial(doubled, backward._apply)),
    ):
        yield


def the_other(held_factor: Any, *args: Any) -> int:
    return 1 - int(held_factor(*args))


def swapped(row: rules.Row, node: Any) -> list[int]:
    """Return inputs to hold in the place of those that a row holds: the first of the others."""
    held = row.held(node) if callable(row.held) else row.held
    return [next(index for index in range(len(node.next_functions)) if index not in held)]


def doubled(apply: Any, node: Any, rule: backward.NodeRule, *args: Any) -> Any:
    """Return what a node passes back, twice if its row says so."""
    found = apply(node, rule, *args)
    return tuple(None if each is None else 2 * each for each in found) if rule.row.rule == DOUBLED else found


def check_rule(name: str) -> None:
    if name in ONE_ARGUMENT or name in TWO_FACTORS:
        check(name)
        return
    kind = next(kind for kind, names in TWINS.items() if name in names.split())
    for found, wanted in zip(_on_a_stub(kind, name), _WANTED[kind](), strict=True):
        torch.testing.assert_close(found, wanted)


def noticed(name: str, how: str) -> str:
    with mutated(name, how):
        try:
            check_rule(name)
        except (AssertionError, KeyError, UnsupportedModelError) as error:
            return type(error).__name__
    return ""


GRADIENTS = tuple(torch.full((2, 3), float(value)) for value in (1, 2, 3, 4))
CHANNELS = torch.tensor([1.0, 2.0, 3.0])
STUB = SimpleNamespace(
    _saved_weight=CHANNELS,
    _saved_result1=torch.tensor([[0.5], [0.25]]),
    _saved_running_mean=CHANNELS * 0.1,
    _saved_running_var=CHANNELS,
    _saved_training=False,
    _saved_epsilon=0.5,
    next_functions=((None, 0),) * 4,
    metadata={},
)
"""What the nodes of fused norms on other devices save."""

_WANTED: dict[str, Any] = {
    "linear": lambda: GRADIENTS,
    "kernel": lambda: (GRADIENTS[0], None, *GRADIENTS[2:]),
    "attention": lambda: (None, None, GRADIENTS[2], None),
    "rms norm": lambda: (GRADIENTS[0] * CHANNELS * STUB._saved_result1, None, *GRADIENTS[2:]),
    "batch norm": lambda: (GRADIENTS[0] * CHANNELS / (CHANNELS + 0.5).sqrt(), None, GRADIENTS[0].sum(0), GRADIENTS[3]),
}
"""What the rule of each kind of twin gives."""


def _on_a_stub(kind: str, name: str) -> tuple[Any, ...]:
    row = rules.RULES[name]
    held = row.held(STUB) if callable(row.held) else row.held
    return tuple(backward._apply(STUB, backward.NodeRule(row, held), None, GRADIENTS, GRADIENTS[:1]))
