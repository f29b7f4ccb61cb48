"""What costs are measured on: models of random weights, on which time and memory do not depend, and random texts."""

import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    PreTrainedModel,
)

from ...models.loading import default_model_folder

__all__ = [
    "LLAMA2_7B",
    "MINILM",
    "SMOLLM2",
    "device",
    "language_model",
    "random_bert",
    "random_ids",
    "random_texts",
    "reference_tokenizer",
]

SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}
LLAMA2_7B = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "dtype": "bfloat16",
}
MINILM = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12}


def reference_tokenizer() -> Any:
    """Any tokenizer: the token ids are given, it only names them."""
    made = AutoTokenizer.from_pretrained(default_model_folder())
    made.model_max_length = 100_000
    return made


def device() -> torch.device:
    """Where everything is measured."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def random_bert(changes: Mapping[str, Any], kind: type[PreTrainedModel] = BertForSequenceClassification) -> Any:
    """A BERT of random weights."""
    return kind(BertConfig(**{"num_labels": 3} | dict(changes))).eval().to(device())


def language_model(changes: Mapping[str, Any]) -> tuple[PreTrainedModel, Any]:
    """A Llama of random weights, and a tokenizer."""
    with device():  # made there: seven billion weights are slow to make and to move
        model = AutoModelForCausalLM.from_config(LlamaConfig(**changes))
    return model.eval(), reference_tokenizer()


def random_ids(length: int, vocabulary: int, count: int = 1) -> dict[str, Tensor]:
    """Texts of random token ids, none of them special."""
    ids = torch.randint(vocabulary // 8, vocabulary // 2, (count, length), device=device())  # (B, T)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def random_texts(tokenizer: Any, count: int) -> list[str]:
    """Texts of random words with about the lengths of SST-2's validation sentences."""
    draw = random.Random(0)  # noqa: S311
    words = sorted(piece for piece in tokenizer.get_vocab() if piece.isalpha())
    lengths = (max(1, min(60, int(draw.lognormvariate(2.9, 0.55)))) for _ in range(count))
    return [" ".join(draw.choices(words, k=length)) for length in lengths]
