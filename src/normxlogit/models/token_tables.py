"""Tables beside the word embeddings that a model looks its token ids up in, as Gemma does for each layer."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..surgery.find_parts import same_ids
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
        return change(output) if same_ids(main_input(args, kwargs), ids) else None

    return dict.fromkeys(paths, replace)


@torch.no_grad()
def token_tables(model: TaskModel, inputs: Mapping[str, Tensor]) -> tuple[tuple[str, ...], str | None]:
    """Return the tables beside the word embeddings that a model looks its token ids up in, with a second text, too.

    Positions or segments may be the same numbers as the tokens of one text.

    Args:
        model: A model with word embeddings.
        inputs: A text as the model takes it.

    Returns:
        Their paths, and what could not be tried, as a note on results.
    """
    words, looked_up = model.embeddings.path, set[str]()
    paths = [path for path in model.parts.tables if words not in (path, path.rpartition(".")[0])]
    if not paths:
        return (), None
    ids = _another(inputs["input_ids"], model.filler)

    def watch(path: str, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if same_ids(main_input(args, kwargs), ids):
            looked_up.add(path)

    try:
        watching = {path: partial(watch, path) for path in paths}
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
