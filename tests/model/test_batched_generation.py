"""Which prompts are continued together, and what of the rows that come back was written."""

import pytest
from transformers import GenerationConfig

from normxlogit.model import batched_generation as room


@pytest.mark.parametrize(
    ("settings", "plain"),
    [
        ({"max_new_tokens": 4, "eos_token_id": 3, "top_k": 5, "temperature": 0.5}, True),
        ({"num_beams": 1, "repetition_penalty": 1.0, "do_sample": False}, True),
        ({"no_repeat_ngram_size": 0}, True),
        ({"do_sample": True}, False),
        ({"num_beams": 2}, False),
        ({"repetition_penalty": 0.5}, False),
        ({"repetition_penalty": 1.5}, False),
        ({"no_repeat_ngram_size": 1}, False),
        ({"forced_bos_token_id": 1}, False),
    ],
)
def test_greedy_settings_are_told_from_those_that_padding_may_matter_to(settings, plain):
    assert room._is_plain_greedy(GenerationConfig(**settings)) is plain
