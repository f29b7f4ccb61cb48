"""What a sentence costs: continuations of one text, read by the cache of its keys and values."""

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from transformers import LlamaForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils.generic import ModelOutput

from normxlogit import Explainer
from normxlogit.grounding.citations.reading import Continuation, ContinuedText
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
    """Calls its keys and values `cache`, as transformers 5.24 does; the other class by their older name."""

    def forward(self, input_ids=None, attention_mask=None, cache=None, **kwargs):
        if cache is not None:
            lengths_with_cache.append(input_ids.shape[1])
        output = super().forward(input_ids, attention_mask, **{INSTALLED: cache}, **kwargs)
        return OutputWithCache(output.logits, output.hidden_states, output.get(INSTALLED))


class NamingItKeys(LlamaForCausalLM):
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
    explainer = Explainer(model, tiny.letters())
    text = explainer._model.encoder(["abcd" * 5])[0]
    explainer._model.states(explainer._model.batch([text], [0]))  # the first pass is also compared with the caller's

    def nats(*ids):
        logits = tiny.logits_of(model, [*text.ids, *ids]).log_softmax(-1)[len(text) - 1 : -1]
        return logits, logits[range(len(ids)), ids].numpy()

    lengths_with_cache.clear()
    endings = [Continuation((7, 8), ids) for ids in ((9,), (10, 11), (12, 13, 14))]
    expected = [nats(*prefix, *ids)[1][2:].sum() for prefix, ids in endings]
    found = ContinuedText(explainer._model, text).log_probabilities(endings, float(expected[0]))
    assert found == pytest.approx(expected, abs=1e-4)
    assert 0 < sum(lengths_with_cache) <= 6  # the last token of the text, the prefix, and the longest
    lengths_with_cache.clear()
    continued, endings = ContinuedText(explainer._model, text), [(9, 10), (10, 11), (12, 13, 14)]
    (predictions,) = continued.predictions([(9, 10)], likeliest=3)
    logits, own = nats(9, 10)
    assert predictions.nats == pytest.approx(own, abs=1e-4)
    assert predictions.likeliest_ids.tolist() == logits.topk(3).indices.tolist()
    found = continued.log_probabilities([Continuation((), ids) for ids in endings], float(predictions.nats.sum()))
    assert max(lengths_with_cache[1:]) < len(text), "the text is read once"
    assert found == pytest.approx([nats(*ids)[1].sum() for ids in endings], abs=1e-4)


class RecordingShapes(LlamaForCausalLM):
    """Records how many rows of how many tokens each call is given."""

    shapes: ClassVar[list[tuple[int, int]]] = []

    def forward(self, input_ids=None, *arguments, **options):
        self.shapes.append(tuple(input_ids.shape))
        return super().forward(input_ids, *arguments, **options)


def test_a_sentence_costs_at_most_four_passes_of_the_prompts_length_with_one_source_left_out():
    config = tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=2000).config
    explainer = Explainer(RecordingShapes(config).eval(), tiny.letters())
    documents = {f"{i}": f"The pool number {i} was built in 19{i}4 by Anna Berg." for i in range(8)}
    answer = "It was built in 1974 by Jonas."
    for _ in range(2):  # the first time the model is also proved to be read rightly
        RecordingShapes.shapes.clear()
        cited = explainer.cite("When?", documents, answer=answer, verify=1)
    prompt = len(explainer.tokenizer(cited.text)["input_ids"]) - len(answer)
    long = sum(rows * length for rows, length in RecordingShapes.shapes if length > 2 * len(answer))
    short = sum(rows * length for rows, length in RecordingShapes.shapes if length <= 2 * len(answer))
    assert long <= 4 * prompt
    assert 0 < short <= 100 * len(answer)
