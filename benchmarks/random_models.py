"""Shapes of published models with random weights, on which time does not depend, and texts of random words."""

import random
from collections.abc import Mapping
from typing import Any

from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel

from normxlogit.loading.load import AUTO, device_named
from paper.costs.random_models import reference_tokenizer

__all__ = ["LLAMA2_7B", "MINILM", "SMOLLM2", "language_model", "random_texts"]

SMOLLM2: dict[str, Any] = {
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


def language_model(changes: Mapping[str, Any]) -> tuple[PreTrainedModel, Any]:
    """Make a Llama of random weights, and load a tokenizer."""
    with device_named(AUTO):  # made there: seven billion weights are slow to make and to move
        model = AutoModelForCausalLM.from_config(LlamaConfig(**changes))
    return model.eval(), reference_tokenizer()


def random_texts(tokenizer: Any, count: int) -> list[str]:
    """Draw texts of random words with about the lengths of SST-2's validation sentences."""
    draw = random.Random(0)  # noqa: S311
    words = sorted(piece for piece in tokenizer.get_vocab() if piece.isalpha())
    lengths = (max(1, min(60, int(draw.lognormvariate(2.9, 0.55)))) for _ in range(count))
    return [" ".join(draw.choices(words, k=length)) for length in lengths]
