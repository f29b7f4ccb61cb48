"""Limits of a model's inputs: length, vocabulary, padding ids, and the names of further inputs."""

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..copies.answer_form import ForwardSettings, forward_arguments
from ..parts.embeddings import table_of

_POSITION_TABLE = re.compile(r"(?<!rel_)(?<!relative_)(pos|wpe)", re.IGNORECASE)
"""Names of tables with a row for each position; tables of distances between tokens do not limit a text."""
_RELATIVE = re.compile(r"rel(ative)?_|bias|distance|linear|proj", re.IGNORECASE)


def position_limit(model: nn.Module) -> int | None:
    """Return the maximal number of tokens of the model, by its tables of positions; None if it has no limit.

    A number in a configuration alone is none: rotary models read on beyond it. Of several models the smallest counts.
    """
    parts = [model]
    if not isinstance(model, PreTrainedModel):
        parts = [part for part in model.modules() if vocabulary_limit(part) is not None]
    return min((limit for part in parts for limit in _table_limits(part)), default=None)


def _table_limits(model: nn.Module) -> Iterator[int]:
    """Yield the number of positions of each table of position embeddings for text."""
    config = getattr(model, "config", None)
    if not isinstance(config, PretrainedConfig):
        return
    text_config = config.get_text_config()
    declared_counts = _declared_positions(text_config)
    for name, module in _text_modules(model, (type(config), type(text_config))):
        if isinstance(module, PreTrainedModel):
            yield from _distance_limit(module, text_config)
        for rows, is_certain in _position_counts(name.split(".")[-2:], module):
            # Up to four rows beyond the configuration's count precede the first position, for padding or unused.
            declared_count = next((count for count in declared_counts if rows - 4 <= count <= rows), None)
            if declared_count is not None:
                yield declared_count
            elif is_certain:
                yield min([rows, *declared_counts[:1]])


def _text_modules(model: nn.Module, config_classes: tuple[type, ...]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules, with their paths, of parts that have such a configuration; a vision tower has another one."""
    config_of: dict[str, Any] = {"": None}
    for path, module in model.named_modules():
        config_of[path] = module.config if isinstance(module, PreTrainedModel) else config_of[path.rpartition(".")[0]]
        if isinstance(config_of[path], config_classes):
            yield path, module


def _distance_limit(model: PreTrainedModel, config: PretrainedConfig) -> Iterator[int]:
    """Yield the number of distances between tokens that a forward makes, where a configuration says it."""
    limit = config.to_dict().get("max_seq_len")
    if limit is not None and "max_seq_len" in inspect.unwrap(type(model).forward).__code__.co_names:
        yield limit


def _declared_positions(config: PretrainedConfig) -> list[int]:
    """Return the numbers of positions in a configuration, the largest first."""
    counts = (value for name, value in config.to_dict().items() if re.search(r"position|n_ctx", name))
    return sorted({count for count in counts if isinstance(count, int) and count > 1}, reverse=True)


def _position_counts(path: list[str], module: nn.Module) -> Iterator[tuple[int, bool]]:
    """Yield the row count of each possible position table of a module, and whether it certainly is one."""
    if hasattr(module, "make_weights") or hasattr(module, "make_weight"):
        return  # a table of sines that grows with the text
    if isinstance(module, nn.ParameterList) and any(map(_is_position_table, path)):
        yield _rows_of_axes(module), True
    for name, row_count in _row_counts(module):
        if name == "weight" and _is_position_table(path[-1]):
            yield row_count - _first_position_row(module), True
        elif _is_position_table(name) and row_count > 1:  # one row holds numbers of positions, one for each token
            yield row_count, False


def _rows_of_axes(tables: nn.ParameterList) -> int:
    """Return the number of positions of a table for each axis."""
    return math.prod(max(table.shape[:-1]) for table in tables)


def _row_counts(module: nn.Module) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of rows of each table of a module; some are neither parameters nor buffers."""
    for name, tensor in (*module._parameters.items(), *module._buffers.items(), *vars(module).items()):
        if isinstance(tensor, Tensor) and tensor.ndim in (2, 3):
            yield name, tensor.shape[-2]


def _is_position_table(name: str) -> bool:
    """Return whether a name is that of a position table."""
    return _POSITION_TABLE.search(name) is not None and _RELATIVE.search(name) is None


def _first_position_row(module: Any) -> int:
    """Return the row of the first position; in models like RoBERTa it follows the row for padding."""
    code = getattr(type(module).forward, "__code__", None)
    if code is not None and "padding_idx" not in code.co_names:  # the module does not count positions from the padding
        return int(getattr(module, "offset", 0))
    padding = getattr(module, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def vocabulary_limit(model: nn.Module) -> int | None:
    """Return the number of token embeddings, None if the model has no ordinary table of them."""
    count = getattr(table_of(model), "num_embeddings", None)
    return count if isinstance(count, int) else None


def padding_id(
    module: PreTrainedModel, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase
) -> tuple[int, bool]:
    """Return the token id to pad with, and whether it is the configured one, by which some heads pool.

    Args:
        module: The model; a plain module is padded as its tokenizer says.
        config: Its configuration.
        tokenizer: Its tokenizer.

    Returns:
        The id, the first within the vocabulary of those that are declared, and whether the configuration declares it.
    """
    if not hasattr(tokenizer, "pad_token_id"):  # what reads pictures and sounds, or nothing
        return 0, True
    if not isinstance(module, PreTrainedModel):
        return tokenizer.pad_token_id or 0, True
    configured = getattr(config.get_text_config(), "pad_token_id", None)
    candidates: tuple[Any, ...] = (configured, tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    limit = vocabulary_limit(module) or math.inf
    pad_id = next(int(token_id) for token_id in candidates if token_id is not None and 0 <= token_id < limit)
    return pad_id, pad_id == configured


def filler_id(config: PretrainedConfig, pad: int) -> int:
    """Return a token id for one-token sequences: the end-of-sequence token unless that is also the padding."""
    eos = getattr(config.get_text_config(), "eos_token_id", None)
    eos = eos[0] if isinstance(eos, list) else eos
    if eos is not None and eos != pad:
        return int(eos)
    return 1 if pad == 0 else 0


def input_names(
    tokenizer: PreTrainedTokenizerBase | None, model: nn.Module, settings: ForwardSettings
) -> frozenset[str] | None:
    """Return the names of a model's inputs, of its parts or the tokenizer if it takes any; None if they are unknown.

    Args:
        tokenizer: What reads its texts; None for none.
        model: The model.
        settings: How its owner says that it is called.
    """
    names, takes_any = forward_arguments(model)
    if not takes_any:
        return frozenset((*names, *settings.input_names, "input_ids"))
    if not isinstance(model, PreTrainedModel):
        return None
    parts = (forward_arguments(part)[0] for part in model.modules() if isinstance(part, PreTrainedModel))
    return frozenset().union(*parts, getattr(tokenizer, "model_input_names", ()))
