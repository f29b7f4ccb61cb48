"""Tables beside the word embeddings that a model looks its token ids up in, as Gemma does for each layer."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..surgery.memory import refuse_to_hide
from ..surgery.pool import private_clone
from .task_model import TaskModel

__all__ = ["TokenTables", "find_token_tables"]


class _Lookup(threading.local):
    """What the current thread does with what is looked up."""

    ids: Tensor | None = None
    change: Callable[[Tensor], Tensor]


class TokenTables:
    """Changes what a model looks its token ids up in, beside the word embeddings.

    Args:
        model: A structural clone, which is given hooks.
        paths: Of the tables, see `find_token_tables`.
    """

    def __init__(self, model: nn.Module, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self._lookup = _Lookup()
        for path in paths:
            model.get_submodule(path).register_forward_hook(self._looked_up, with_kwargs=True)

    @contextmanager
    def changed(self, ids: Tensor, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Change what is looked up in this thread and block.

        Args:
            ids: The token ids that the model is called with, (B, T).
            change: Is given the rows of a table, (B, T, H'), and returns what flows on in their place.
        """
        self._lookup.ids, self._lookup.change = ids, change
        try:
            yield
        finally:
            self._lookup.ids = None

    def _looked_up(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor | None:
        ids = self._lookup.ids
        return None if ids is None or not _same(args, kwargs, ids) else self._lookup.change(output)


@torch.no_grad()
def find_token_tables(model: TaskModel, inputs: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Find the tables that a model looks its token ids up in, but for the word embeddings.

    They are tried with two texts, for positions or segments may be the same numbers as the tokens of one.

    Args:
        model: A model with word embeddings.
        inputs: A text as the model takes it.

    Returns:
        Their paths; no ordinary model has any.
    """
    modules = dict(model.module.named_modules())
    tables = [path for path, module in modules.items() if _is_table(module) and module is not model.embeddings.table]
    tables = [
        path for path in tables if path.rpartition(".")[0] not in tables
    ]  # what an adapter has put its own around
    tables = [path for path in tables if modules[path.rpartition(".")[0]] is not model.embeddings.table]
    ids = inputs["input_ids"]
    for other in (ids, _another(ids, model.filler)):
        if tables:
            seen = _looked_up_in(model, {**inputs, "input_ids": other}, tables)
            tables = tables if seen is None else [path for path in tables if path in seen]
    return tuple(tables)


def _looked_up_in(model: TaskModel, inputs: Mapping[str, Tensor], tables: list[str]) -> set[str] | None:
    """Return the tables that token ids are looked up in; None for a text that the model cannot read."""
    seen: set[str] = set()
    private = private_clone(model.module)
    for path in tables:

        def look(_: nn.Module, args: Any, kwargs: Any, path: str = path) -> None:
            if _same(args, kwargs, inputs["input_ids"]):
                seen.add(path)

        private.get_submodule(path).register_forward_pre_hook(look, with_kwargs=True)
    try:
        model.run_trunk(private, inputs)
    except Exception as error:  # the same tokens in another order need not be a text
        refuse_to_hide(error)
        return None
    return seen


def _another(ids: Tensor, filler: int) -> Tensor:
    """Return other token ids of the same shape, (B, T)."""
    turned = ids.flip(1)
    return torch.full_like(ids, filler) if torch.equal(turned, ids) else turned


def _same(args: tuple[Any, ...], kwargs: Mapping[str, Any], ids: Tensor) -> bool:
    asked = args[0] if args else next(iter(kwargs.values()), None)
    return isinstance(asked, Tensor) and asked.shape == ids.shape and torch.equal(asked, ids.to(asked.device))


def _is_table(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) or isinstance(getattr(module, "base_layer", None), nn.Embedding)
