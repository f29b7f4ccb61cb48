"""Wrong rules: each rule of the frozen network removed, doubled, and with the other factor held."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from normxlogit.frozen import backward, rules
from tests.frozen.operations import ONE_ARGUMENT, TWINS, TWO_FACTORS, check

HELD_FACTOR, HELD_IN_PRODUCT = backward.held_factor, backward._FrozenGraph._held_in_product


def mutations() -> list[tuple[str, str]]:
    """Return the name of each operation in the table with each way to make its rule wrong."""
    found = []
    for name in (*rules.RULES, *rules.FACTORS):
        found.append((name, "removed"))
        if name not in rules.HELD:  # twice nothing is nothing
            found.append((name, "doubled"))
        if name in rules.FACTORS or name in rules.HELD_INPUT or name in rules.PASSED_INPUT:
            found.append((name, "swapped"))
    return found


@contextmanager
def mutated(name: str, how: str) -> Iterator[None]:
    """Make one rule wrong inside the block.

    Args:
        name: Of the operation.
        how: "removed" for torch's own gradient in its place, or no rule where that is right; "doubled" for twice the
            gradient; "swapped" to hold what moves and let move what is held.
    """
    table: dict[str, Any] = dict(rules.RULES)
    held, passed, factors = dict(rules.HELD_INPUT), dict(rules.PASSED_INPUT), dict(rules.FACTORS)
    pass_all, held_factor, held_in_product = set(rules._PASS_ALL), HELD_FACTOR, HELD_IN_PRODUCT
    if how == "swapped":
        if name in factors:
            held_factor = lambda *args, **options: 1 - HELD_FACTOR(*args, **options)  # noqa: E731
        elif name in passed:
            passed[name] = 0
            table[name] = rules.hold_others(0)
        else:
            held[name] = 1 if rules.HELD_INPUT[name] == 0 else 0
            table[name] = rules.hold(held[name])
    elif how == "removed":
        if table.get(name, name) is None:
            del table[name]
        else:
            table[name] = None
        for others in (held, passed, factors):
            others.pop(name, None)
        pass_all.add(name)
    else:
        rule = table.get(name)
        if name in factors:

            def twice(self: Any, product: str, edges: Any) -> Any:
                index, found = HELD_IN_PRODUCT(self, product, edges)
                return index, doubled(found) if product == name else found

            held_in_product = twice
        else:
            table[name] = doubled(rule)
    with (
        mock.patch.object(rules, "RULES", table),
        mock.patch.object(backward, "RULES", table),
        mock.patch.object(rules, "HELD_INPUT", held),
        mock.patch.object(rules, "PASSED_INPUT", passed),
        mock.patch.object(rules, "_PASS_ALL", pass_all),
        mock.patch.object(backward, "FACTORS", factors),
        mock.patch.object(backward, "held_factor", held_factor),
        mock.patch.object(backward._FrozenGraph, "_held_in_product", held_in_product),
    ):
        yield


def doubled(rule: Any) -> Any:
    """Return a rule whose gradients are twice as large."""

    def twice(node: Any, constant: Any, inputs: Any, outputs: Any) -> Any:
        found = inputs if rule is None else rule(node, constant, inputs, outputs)
        return tuple(None if gradient is None else 2 * gradient for gradient in found)

    return twice


def check_rule(name: str) -> None:
    """Run what is run for an operation: its functions, or its rule beside that of its twin."""
    if name in ONE_ARGUMENT or name in TWO_FACTORS:
        check(name)
        return
    kind = next(kind for kind, names in TWINS.items() if name in names.split())
    for found, wanted in zip(_on_a_stub(kind, name), _WANTED[kind](), strict=True):
        torch.testing.assert_close(found, wanted)


def noticed(name: str, how: str) -> str:
    """Return the error that a wrong rule ends in, "" if nothing notices it."""
    with mutated(name, how):
        try:
            check_rule(name)
        except (AssertionError, KeyError, rules.UnsupportedModelError) as error:
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
)
"""What the nodes of fused norms on other devices save."""

_WANTED: dict[str, Any] = {
    "linear": lambda: GRADIENTS,
    "kernel": lambda: (GRADIENTS[0], None, *GRADIENTS[2:]),
    "attention": lambda: (None, None, GRADIENTS[2], None),
    "rms norm": lambda: (GRADIENTS[0] * CHANNELS * STUB._saved_result1, None, None, None),
    "batch norm": lambda: (
        GRADIENTS[0] * CHANNELS / (CHANNELS + 0.5).sqrt(),
        None,
        GRADIENTS[0].sum(0),
        GRADIENTS[3],
    ),
}
"""What the rule of each kind of twin gives."""


def _on_a_stub(kind: str, name: str) -> tuple[Any, ...]:
    """Return the gradients that a rule gives for a node that cannot be made here."""
    rule = rules.RULES[name]
    if rule is None:
        return GRADIENTS
    found = rule(STUB, lambda constant: None, GRADIENTS, GRADIENTS[:1])
    return GRADIENTS if found is None else found
