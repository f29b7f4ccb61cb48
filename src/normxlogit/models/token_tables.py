"""Tables beside the word embeddings that a model looks its token ids up in, as Gemma does for each layer."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..surgery.memory import refuse_to_hide
from ..surgery.run import Replace, main_input
from .task_model import TaskModel


def replaced_rows(paths: Iterable[str], ids: Tensor, change: Callable[[Tensor], Tensor]) -> dict[str, Replace]:
    """Return the `replace=` of `run` with which a model reads other rows than it looks up.

    Args:
        paths: Of the tables, see `token_tables`.
        ids: The token ids that the model is called with, (B, T).
        change: Is given the rows of a table, (B, T, H'), and returns what takes their place.
    """

    def replace(output: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
        return change(output) if _same(main_input(args, kwargs), ids) else None

    return dict.fromkeys(paths, replace)


def possible_tables(model: TaskModel) -> list[str]:
    """Return the paths of the tables that a model may look up its token ids in, other than the word embeddings.

    Args:
        model: A model with word embeddings.
    """
    modules, words = dict(model.module.named_modules()), model.embeddings.table
    tables = [path for path, module in modules.items() if _is_table(module) and module is not words]
    tables = [
        path for path in tables if path.rpartition(".")[0] not in tables
    ]  # what an adapter has put its own around
    return [path for path in tables if modules[path.rpartition(".")[0]] is not words]


def watched(paths: Iterable[str], ids: Tensor, looked_up: set[str]) -> dict[str, Replace]:
    """Return the `replace=` of `run` that notes in which tables token ids are looked up.

    Args:
        paths: Of the tables.
        ids: The token ids that the model is called with, (B, T).
        looked_up: The paths of those that were; filled by the pass.
    """

    def watch(path: str, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _same(main_input(args, kwargs), ids):
            looked_up.add(path)

    return {path: partial(watch, path) for path in paths}


@torch.no_grad()
def token_tables(
    model: TaskModel, inputs: Mapping[str, Tensor], paths: Collection[str]
) -> tuple[tuple[str, ...], str | None]:
    """Return the tables that a model looks its token ids up in with a second text, too.

    Positions or segments may be the same numbers as the tokens of one text.

    Args:
        model: The model.
        inputs: A text as the model takes it.
        paths: The tables that its token ids were looked up in; no ordinary model has any.

    Returns:
        Their paths, and what could not be tried, as a note on results.
    """
    looked_up: set[str] = set()
    if paths:
        ids = _another(inputs["input_ids"], model.filler)
        try:
            watching = watched(paths, ids, looked_up)
            model.copy.run({**inputs, "input_ids": ids}, replace=watching, stop=model.parts.trunk_site)
        except Exception as error:  # the same tokens in another order need not be a text
            refuse_to_hide(error)
            return tuple(paths), (
                f"frozen-gradient takes what {', '.join(paths)} holds for the tokens', which was not tried on a second "
                "text: the model does not read this one's tokens in another order"
            )
    return tuple(path for path in paths if path in looked_up), None


def _another(ids: Tensor, filler: int) -> Tensor:
    """Return other token ids of the same shape, (B, T)."""
    turned = ids.flip(1)
    return torch.full_like(ids, filler) if torch.equal(turned, ids) else turned


def _same(indices: Any, ids: Tensor) -> bool:
    return isinstance(indices, Tensor) and indices.shape == ids.shape and torch.equal(indices, ids.to(indices.device))


def _is_table(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) or isinstance(getattr(module, "base_layer", None), nn.Embedding)
