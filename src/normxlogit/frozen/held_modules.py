"""Modules whose output is held, such as those of queries, keys and gates: nothing is kept for a backward pass there.

No gradient arrives at what they return, in any pass of one kind, so it is detached: the forward pass gives the same
values, and autograd neither saves what led to them nor computes gradients that the rules would drop.
"""

from collections.abc import Hashable
from functools import partial
from typing import Any

from torch import Tensor, nn

from ..surgery.run import Replace
from .backward import nodes_with_gradient

Nodes = dict[str, set[Any]]
"""By the path of a module, the nodes of the graph that made what it returned."""


class HeldModules:
    """The held modules of a model, by kind of pass: what it begins from, and what the model reads."""

    def __init__(self) -> None:
        self._paths: dict[Hashable, list[str]] = {}

    def detached(self, kind: Hashable) -> dict[str, Replace] | None:
        """Return the `replace=` of `run` that detaches their outputs; None if they are not known."""
        paths = self._paths.get(kind)
        return None if paths is None else dict.fromkeys(paths, _detach)

    def learn(self, kind: Hashable, nodes: Nodes, answer: Tensor, leaves: list[Tensor]) -> None:
        """Find the held modules in the graph of a pass.

        Args:
            kind: The kind of pass.
            nodes: What was noted in it, see `noted`.
            answer: What is backpropagated from.
            leaves: What the input enters the graph by.
        """
        reached = nodes_with_gradient(answer, leaves)
        self._paths[kind] = [path for path, made in nodes.items() if None not in made and made.isdisjoint(reached)]


def noted(model: nn.Module, nodes: Nodes) -> dict[str, Replace]:
    """Return the `replace=` of `run` that notes the nodes of a graph by the modules that they were made in."""

    def note(path: str, output: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nodes.setdefault(path, set()).add(output.grad_fn if isinstance(output, Tensor) else None)

    return {path: partial(note, path) for path, _ in model.named_modules() if path}


def _detach(output: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    return output.detach() if isinstance(output, Tensor) else None
