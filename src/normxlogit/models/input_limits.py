"""How long a text and how large a token id a model can read."""

import torch
from transformers import PreTrainedTokenizerBase

__all__ = ["position_limit", "vocabulary_limit"]

_UNLIMITED = 1_000_000
"""Tokenizers without a limit report an astronomically large one."""


def position_limit(tokenizer: PreTrainedTokenizerBase | None, model: torch.nn.Module) -> int | None:
    """How many tokens the model reads, None if it sets no bound."""
    limits = []
    declared = getattr(tokenizer, "model_max_length", None)
    if declared is not None and declared < _UNLIMITED:
        limits.append(int(declared))
    for name, module in model.named_modules():
        # A learned position table ends where it ends; RoBERTa's begins after its padding row.
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - offset)
        elif name.split(".")[-1] == "wpe" and isinstance(module, torch.nn.Embedding):
            limits.append(module.num_embeddings)
    return min(limits) if limits else None


def vocabulary_limit(model: torch.nn.Module) -> int | None:
    """Return how many token ids the model has embeddings for, None if it looks them up in another way."""
    try:
        table = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return None
    return table.num_embeddings if isinstance(table, torch.nn.Embedding) else None
