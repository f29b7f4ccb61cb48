"""Generated tokens of one text that are backpropagated beside each other, in copies of the text, as on a GPU."""

import numpy as np
import pytest

from normxlogit.methods import FrozenGradient
from normxlogit.pipeline.completions import completion
from tests import tiny

PROMPTS = ["the cat sat on the mat", "a great"]
COMPLETIONS = [" and the movie was good", " film"]


@pytest.mark.parametrize("sink_threshold", [10.0, 1.05])
@pytest.mark.parametrize("copies", [2, 3, 8])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_tokens_have_the_same_scores_in_copies_of_their_text(family, copies, sink_threshold, monkeypatch):
    explainer, method = tiny.explainer(family, "CausalLM"), FrozenGradient(sink_threshold=sink_threshold)
    expected = explainer.explain_completion(PROMPTS, COMPLETIONS, method=method)
    assert any(result.sinks for result in expected) == (sink_threshold < 2)
    monkeypatch.setattr(completion, "_copies_of_text", lambda *_: copies)
    results = explainer.explain_completion(PROMPTS, COMPLETIONS, method=method)
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.scores, other.scores, atol=1e-6)
        np.testing.assert_allclose(result.bias, other.bias, atol=1e-5)
        assert (result.sinks, result.targets, result.notes) == (other.sinks, other.targets, other.notes)
        assert [p.id for p in result.predictions] == [p.id for p in other.predictions]
