"""Sizes at which every benchmark takes a moment, and its command in this process."""

import pytest

from benchmarks.commands import main
from benchmarks.speed import Setup

BERT = {"vocab_size": 8000, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT |= {"intermediate_size": 16}
LLAMA = BERT | {"num_key_value_heads": 2, "tie_word_embeddings": True}
TINY = Setup(
    rounds=2,
    warmup=1,
    lengths=(6, 8),
    bert=BERT,
    minilm=BERT,
    llama=LLAMA,
    vocabulary=8000,
    masked_length=8,
    prompt=6,
    generated=3,
    short=6,
    long=6,
    texts=["a good movie", "bad", "the plot was not very good"],
)


def written(capsys, *arguments):
    """Run a command that succeeds; returns what it prints."""
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, arguments)))
    assert not stop.value.code
    return capsys.readouterr().out
