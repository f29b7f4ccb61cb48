"""A BERT of random weights, on which time and memory do not depend, and random token ids for it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, PreTrainedModel

from normxlogit.loading.load import AUTO, default_model_folder, device_named

__all__ = ["random_bert", "random_ids", "reference_tokenizer"]


def reference_tokenizer() -> Any:
    """Load any tokenizer: the token ids are given, it only names them."""
    made = AutoTokenizer.from_pretrained(default_model_folder())
    made.model_max_length = 100_000
    return made


def random_bert(
    changes: Mapping[str, Any],
    kind: type[PreTrainedModel] = BertForSequenceClassification,
    device: torch.device | str = AUTO,
) -> Any:
    """Make a BERT of random weights."""
    return kind(BertConfig(**{"num_labels": 3} | dict(changes))).eval().to(device_named(device))


def random_ids(length: int, vocabulary: int, count: int = 1, device: torch.device | str = AUTO) -> dict[str, Tensor]:
    """Draw texts of random token ids, none of them special."""
    place = device_named(device)
    ids = torch.randint(vocabulary // 8, vocabulary // 2, (count, length), device=place)  # (B, T)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
