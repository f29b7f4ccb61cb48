"""Limits of a model's inputs: how many tokens it reads, and how many token ids it knows."""

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..parts.embeddings import table_of

_POSITION_TABLE = re.compile(r"(?<!rel_)(?<!relative_)(pos|wpe)", re.IGNORECASE)
"""Names of tables with a row for each position."""

_NO_POSITION_TABLE = re.compile(r"rel(ative)?_|bias|distance|linear|proj", re.IGNORECASE)
"""Names of what is none of them: tables of distances between tokens, which do not limit a text, and projections."""

MOST_UNUSED_ROWS = 4
"""Most rows of a position table before that of the first position, for padding or unused."""


class _PositionTable(NamedTuple):
    """A table that may have a row for each position."""

    positions: int  # how many rows it has from the first position on
    is_certain: bool  # by the name of its module; otherwise it counts only if the configuration declares so many


def position_limit(model: nn.Module) -> int | None:
    """Return the maximal number of tokens of the model, by its tables of positions; None if it has no limit.

    A number in a configuration alone is none: rotary models read on beyond it. Of several models the smallest counts.
    """
    parts = [model]
    if not isinstance(model, PreTrainedModel):  # a module of the caller's, which may hold models of transformers
        # Only models that read token ids have a vocabulary: the positions of a vision model limit no text.
        parts = [part for part in model.modules() if vocabulary_limit(part) is not None]
    return min((limit for part in parts for limit in _table_limits(part)), default=None)


def _table_limits(model: nn.Module) -> Iterator[int]:
    """Yield the number of positions of each table of position embeddings for text."""
    config = getattr(model, "config", None)
    if not isinstance(config, PretrainedConfig):
        return
    text_config = config.get_text_config()
    declared_counts = _declared_positions(text_config)
    for path, module in _text_modules(model, (type(config), type(text_config))):
        if isinstance(module, PreTrainedModel):
            yield from _distance_limit(module, text_config)
        for table in _position_tables(path, module):
            limit = _limit_of_table(table, declared_counts)
            if limit is not None:
                yield limit


def _limit_of_table(table: _PositionTable, declared_counts: list[int]) -> int | None:
    """Return the number of positions of a table; None if it does not seem to be one of positions.

    Args:
        table: The table.
        declared_counts: The numbers of positions in the configuration, the largest first.
    """
    for count in declared_counts:
        if 0 <= table.positions - count <= MOST_UNUSED_ROWS:
            return count
    if not table.is_certain:
        return None
    return min([table.positions, *declared_counts[:1]])  # a larger table is read as far as the configuration says


def _text_modules(model: nn.Module, config_classes: tuple[type, ...]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules, with their paths, whose configuration is of one of these classes; a vision tower's is not.

    A module without a configuration has that of the module around it.
    """
    config_of: dict[str, Any] = {"": None}  # by path
    for path, module in model.named_modules():
        config_of[path] = module.config if isinstance(module, PreTrainedModel) else config_of[path.rpartition(".")[0]]
        if isinstance(config_of[path], config_classes):
            yield path, module


def _distance_limit(model: PreTrainedModel, config: PretrainedConfig) -> Iterator[int]:
    """Yield the number of distances between tokens for which a model's forward makes a table, as MPT's does.

    Other configurations have the setting, too, and their models do not use it: the code of the forward says whether it
    reads an attribute of this name.
    """
    limit = config.to_dict().get("max_seq_len")
    if limit is not None and "max_seq_len" in inspect.unwrap(type(model).forward).__code__.co_names:
        yield limit


def _declared_positions(config: PretrainedConfig) -> list[int]:
    """Return the numbers of positions in a configuration, the largest first."""
    counts = (value for name, value in config.to_dict().items() if re.search(r"position|n_ctx", name))
    return sorted({count for count in counts if isinstance(count, int) and count > 1}, reverse=True)


def _position_tables(path: str, module: nn.Module) -> Iterator[_PositionTable]:
    """Yield the tables of a module that may have a row for each position.

    Args:
        path: Where the module is in the model.
        module: The module, without those in it.
    """
    grows_with_text = hasattr(module, "make_weights") or hasattr(module, "make_weight")
    if grows_with_text:  # a table of sines, as in MusicGen and SpeechT5
        return
    names = path.split(".")
    # A list of tables may be named itself, or the module that holds it.
    if isinstance(module, nn.ParameterList) and any(map(_is_position_table, names[-2:])):
        yield _PositionTable(_rows_of_axes(module), is_certain=True)
    for name, row_count in _row_counts(module):
        if name == "weight" and _is_position_table(names[-1]):
            yield _PositionTable(row_count - _first_position_row(module), is_certain=True)
        elif _is_position_table(name) and row_count > 1:  # one row holds numbers of positions, one for each token
            yield _PositionTable(row_count, is_certain=False)


def _rows_of_axes(tables: nn.ParameterList) -> int:
    """Return the number of positions that tables for several axes have together, as in axial position embeddings.

    Each has the length of its own axis and 1 for the others, as (64, 1, H) and (1, 512, H).
    """
    return math.prod(max(table.shape[:-1]) for table in tables)


def _row_counts(module: nn.Module) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of rows of each table of a module; some are neither parameters nor buffers."""
    for name, tensor in (*module._parameters.items(), *module._buffers.items(), *vars(module).items()):
        if isinstance(tensor, Tensor) and tensor.ndim in (2, 3):
            yield name, tensor.shape[-2]


def _is_position_table(name: str) -> bool:
    """Return whether a name is that of a position table."""
    return _POSITION_TABLE.search(name) is not None and _NO_POSITION_TABLE.search(name) is None


def _first_position_row(module: Any) -> int:
    """Return the row of the first position; in models like RoBERTa it follows the row for padding.

    The code of the table's forward says whether it counts from there: it then reads its attribute `padding_idx`.
    """
    code = getattr(type(module).forward, "__code__", None)
    counts_from_padding = code is None or "padding_idx" in code.co_names  # without code, as in C, it may
    if not counts_from_padding:
        return int(getattr(module, "offset", 0))  # as of BART, whose table adds it to each position
    padding = getattr(module, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def vocabulary_limit(model: nn.Module) -> int | None:
    """Return the number of token embeddings, None if the model has no ordinary table of them."""
    count = getattr(table_of(model), "num_embeddings", None)
    return count if isinstance(count, int) else None
