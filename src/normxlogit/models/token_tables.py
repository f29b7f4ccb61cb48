"""Tables beside the word embeddings that a model looks its token ids up in, as Gemma does for each layer."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..surgery.memory import refuse_to_hide
from ..surgery.run import Replace, Site, main_input
from .task_model import TaskModel

__all__ = ["find_token_tables", "replaced_rows"]


def replaced_rows(paths: Iterable[str], ids: Tensor, change: Callable[[Tensor], Tensor]) -> dict[str, Replace]:
    """Return the `replace=` of `run` with which a model reads other rows than it looks up.

    Args:
        paths: Of the tables, see `find_token_tables`.
        ids: The token ids that the model is called with, (B, T).
        change: Is given the rows of a table, (B, T, H'), and returns what takes their place.
    """

    def replace(output: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
        return change(output) if _same(main_input(args, kwargs), ids) else None

    return dict.fromkeys(paths, replace)


@torch.no_grad()
def find_token_tables(model: TaskModel, inputs: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Find the tables other than the word embeddings in which a model looks up its token ids.

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
            looked_up = _looked_up_in(model, {**inputs, "input_ids": other}, tables)
            tables = tables if looked_up is None else [path for path in tables if path in looked_up]
    return tuple(tables)


def _looked_up_in(model: TaskModel, inputs: Mapping[str, Tensor], tables: list[str]) -> set[str] | None:
    """Return the tables that token ids are looked up in; None for a text that the model cannot read."""
    sites = {path: Site(path, call=0, is_input=True) for path in tables}
    try:
        recorded = model.copy.run(inputs, record=sites.values(), stop=model.parts.trunk_site).recorded
    except Exception as error:  # the same tokens in another order need not be a text
        refuse_to_hide(error)
        return None
    ids = inputs["input_ids"]
    return {path for path, site in sites.items() if any(_same(indices, ids) for indices in recorded.get(site, ()))}


def _another(ids: Tensor, filler: int) -> Tensor:
    """Return other token ids of the same shape, (B, T)."""
    turned = ids.flip(1)
    return torch.full_like(ids, filler) if torch.equal(turned, ids) else turned


def _same(indices: Any, ids: Tensor) -> bool:
    return isinstance(indices, Tensor) and indices.shape == ids.shape and torch.equal(indices, ids.to(indices.device))


def _is_table(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) or isinstance(getattr(module, "base_layer", None), nn.Embedding)
