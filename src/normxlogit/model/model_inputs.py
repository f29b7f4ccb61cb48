"""What a model is given: the token ids that pad and fill its texts, and the names of its inputs."""

import math
from typing import Any

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..copies.forward_arguments import ForwardSettings, forward_arguments
from .input_limits import vocabulary_limit


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
        return 0, True  # nothing is padded
    if not isinstance(module, PreTrainedModel):  # nothing is known of a padding id that its head would look for
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
    return 1 if pad == 0 else 0  # any token but the padding, which heads may look for


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
