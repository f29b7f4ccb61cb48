"""Continuations of one text, read by the cache of its keys and values."""

import inspect
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils.generic import ModelOutput

from normxlogit import Explainer
from normxlogit.grounding.citations.continuations import (
    Continuation,
    continuation_log_probabilities,
    uncached_log_probabilities,
)
from tests import tiny

PARAMETERS = inspect.signature(LlamaForCausalLM.forward).parameters
INSTALLED = "cache" if "cache" in PARAMETERS else "past_key_values"

lengths_with_cache: list[int] = []
"""How many tokens each call with a cache was given."""


@dataclass
class OutputWithCache(ModelOutput):
    logits: Any = None
    hidden_states: Any = None
    cache: Any = None


class NamingItCache(LlamaForCausalLM):
    """Calls its keys and values `cache`, as transformers 5.24 does."""

    def forward(self, input_ids=None, attention_mask=None, cache=None, **kwargs):
        if cache is not None:
            lengths_with_cache.append(input_ids.shape[1])
        output = super().forward(input_ids, attention_mask, **{INSTALLED: cache}, **kwargs)
        return OutputWithCache(output.logits, output.hidden_states, output.get(INSTALLED))


class NamingItKeys(LlamaForCausalLM):
    """Calls its keys and values `past_key_values`, as transformers did before."""

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, **kwargs):
        if past_key_values is not None:
            lengths_with_cache.append(input_ids.shape[1])
        output = super().forward(input_ids, attention_mask, **{INSTALLED: past_key_values}, **kwargs)
        return CausalLMOutputWithPast(
            logits=output.logits, hidden_states=output.hidden_states, past_key_values=output.get(INSTALLED)
        )


@pytest.mark.parametrize("kind", [NamingItCache, NamingItKeys])
def test_continuations_are_read_with_the_cache_of_the_text_whatever_it_is_called(kind):
    model = kind(tiny.model("llama", "CausalLM", vocab_size=100).config).eval()
    lengths_with_cache.clear()
    explainer = Explainer(model, tiny.letters())
    text = explainer._model.encoder(["abcd" * 5])[0]
    continuations = [Continuation((7, 8), ids) for ids in ((9,), (10, 11), (12, 13, 14))]
    found = continuation_log_probabilities(explainer._model, text, continuations)
    assert 0 < sum(lengths_with_cache) <= 6  # the last token of the text, the prefix, and the longest
    expected = []
    for prefix, ids in continuations:
        logits = tiny.logits_of(model, [*text.ids, *prefix, *ids]).log_softmax(-1)
        start = len(text) + len(prefix)
        expected.append(sum(float(logits[start - 1 + place, token]) for place, token in enumerate(ids)))
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), atol=1e-4, rtol=1e-4)
    assert uncached_log_probabilities(explainer._model, text)(continuations) == pytest.approx(found, abs=1e-4)
