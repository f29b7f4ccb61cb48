"""Limits of a model's inputs: length, token ids, those for padding, and the names of further inputs."""

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto import modeling_auto as auto

from ..inputs.encoder import UNLIMITED

_TABLE = re.compile(r"(?<!rel_)(?<!relative_)(pos|wpe)", re.IGNORECASE)
"""How tables with a row for each position are called; those of distances between tokens do not bound a text."""
_RELATIVE = re.compile(r"rel(ative)?_|bias|distance|linear|proj", re.IGNORECASE)

SPARE = 4
"""Rows that a table may have before its first position: for padding, or for nothing."""


def position_limit(tokenizer: PreTrainedTokenizerBase | None, model: nn.Module) -> int | None:
    """Return how many tokens the model reads, None if nothing bounds it.

    A table with a row for each position is a bound, and a number that the model's own forward reads. The number in a
    configuration alone is none: rotary models read on beyond it.
    """
    limits = list(_table_limits(model))
    declared = getattr(tokenizer, "model_max_length", None)
    if declared is not None and declared < UNLIMITED:
        limits.append(int(declared))
    return min(limits, default=None)


def _table_limits(model: nn.Module) -> Iterator[int]:
    """Yield the number of positions of each position table that is used for text."""
    top = getattr(model, "config", None)
    if not isinstance(top, PretrainedConfig):
        return
    text = top.get_text_config()
    declared, kinds = _declared(text), (type(top), type(text))
    owners = {"": top}  # whose part of the model a module is: the tables of a vision tower do not bound a text
    for name, module in model.named_modules():
        parent = owners[name.rpartition(".")[0]] if name else top
        owners[name] = module.config if isinstance(module, PreTrainedModel) else parent
        if not isinstance(owners[name], kinds):
            continue
        if isinstance(module, PreTrainedModel):  # it makes as many distances as the number says
            read = inspect.unwrap(type(module).forward).__code__.co_names
            yield from (n for key, n in text.to_dict().items() if key == "max_seq_len" and key in read)
        for rows, learned in _rows(name.split(".")[-2:], module):
            # Rows that the configuration does not count stand before the first position.
            counted = next((n for n in declared if rows - SPARE <= n <= rows), None)
            if counted is not None:
                yield counted
            elif learned:
                yield min([rows, *declared[:1]])


def _declared(config: PretrainedConfig) -> list[int]:
    """Return the numbers of positions that a configuration names, the largest first."""
    lengths = {
        value
        for name, value in config.to_dict().items()
        if isinstance(value, int) and value > 1 and re.search(r"position|n_ctx", name)
    }
    return sorted(lengths, reverse=True)


def _rows(path: list[str], module: nn.Module) -> Iterator[tuple[int, bool]]:
    """Yield the number of positions of each table that a module itself holds, and whether it certainly is one."""
    if hasattr(module, "make_weights") or hasattr(module, "make_weight"):
        return  # a table of sines that grows with the text
    if isinstance(module, nn.ParameterList) and any(map(_is_table, path)):  # one table for each of several axes
        yield math.prod(max(part.shape[:-1]) for part in module), True
    for name, tensor in _tensors(module):
        if tensor.ndim not in (2, 3):
            continue
        if name == "weight" and _is_table(path[-1]):
            yield tensor.shape[-2] - _first_row(module), True
        elif _is_table(name) and tensor.shape[-2] > 1:  # or it holds numbers of positions, one for each token
            yield tensor.shape[-2], False


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for table in (module._parameters, module._buffers, vars(module)):  # some tables are neither parameters nor buffers
        yield from ((name, value) for name, value in table.items() if isinstance(value, Tensor))


def _is_table(name: str) -> bool:
    return _TABLE.search(name) is not None and _RELATIVE.search(name) is None


def _first_row(module: Any) -> int:
    """Return the row of the first position: after the padding's where the model counts as RoBERTa does."""
    code = getattr(type(module).forward, "__code__", None)
    if code is not None and "padding_idx" not in code.co_names:  # it finds the rows itself, and not by the padding
        return int(getattr(module, "offset", 0))
    padding = getattr(module, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def autoregressive(config: PretrainedConfig) -> bool:
    """Return whether a configuration's family is known to transformers as causal and not as masked language models."""
    kind = config.model_type
    causal = kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return causal or bool(getattr(config, "is_decoder", False))


def vocabulary_limit(model: nn.Module) -> int | None:
    """Return how many token ids the model has embeddings for, None if it looks them up in another way."""
    try:
        table = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return None
    count = getattr(table, "num_embeddings", None)
    return count if isinstance(count, int) else None


def padding_id(
    module: PreTrainedModel, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase
) -> tuple[int, bool]:
    """Choose the token id to pad with: the model's own, or any that it can look up.

    Returns:
        The id, and whether it is the padding id of the model's configuration, which some heads pool by; if not, the
        texts of a batch must be of one length.
    """
    if not isinstance(module, PreTrainedModel):
        return _first((tokenizer.pad_token_id, 0), None), True
    configured = getattr(config.get_text_config(), "pad_token_id", None)
    chosen = _first((configured, tokenizer.pad_token_id, tokenizer.eos_token_id, 0), vocabulary_limit(module))
    return chosen, chosen == configured


def filler_id(config: PretrainedConfig, pad: int) -> int:
    """Return a token id for one-token sequences: the end-of-sequence token unless that is also the padding."""
    eos = getattr(config.get_text_config(), "eos_token_id", None)
    eos = eos[0] if isinstance(eos, list) else eos
    if eos is not None and eos != pad:
        return int(eos)
    return 1 if pad == 0 else 0


def _first(candidates: tuple[Any, ...], rows: int | None) -> int:
    return next(int(i) for i in candidates if i is not None and i >= 0 and (rows is None or i < rows))


def input_names(tokenizer: PreTrainedTokenizerBase | None, model: nn.Module) -> frozenset[str] | None:
    """Return the names of the inputs that a model reads, None if it does not say.

    A model that takes any others too passes them on to its parts, or ignores them: only names that a part has, or
    that the tokenizer gives to every model, are read.
    """
    names, others = _arguments(model)
    if not others:
        return frozenset((*names, "input_ids"))
    if not isinstance(model, PreTrainedModel):
        return None
    parts = [name for part in model.modules() if isinstance(part, PreTrainedModel) for name in _arguments(part)[0]]
    return frozenset((*parts, *getattr(tokenizer, "model_input_names", ())))


def _arguments(model: nn.Module) -> tuple[list[str], bool]:
    """Return the names of a forward's arguments, and whether it takes any others."""
    parameters = inspect.signature(model.forward).parameters.values()
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return named, any(p.kind is p.VAR_KEYWORD for p in parameters)
