"""What the published package context-cite is asked, by modules that stand in for it and write it down."""

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.context_cite import published_context_cite
from normxlogit import Explainer
from normxlogit.grounding.evaluation.questions import Asked
from normxlogit.grounding.evaluation.sources import AnsweredPrompt, AnswerProtocol
from tests import tiny

DOCUMENT = "The movie is good. The cat sat on the mat. This was never bad."


@pytest.fixture
def package(monkeypatch):
    """Stand-in modules; `asked` is what they were asked, `masks` what is left in each ablation."""
    stand_in = SimpleNamespace(asked={}, masks=np.array([[True, False, True], [False, False, False], [True] * 3]))

    def get_masks_and_logit_probs(model, tokenizer, samples, sources, prompt_ids, answer_ids, *ablation, **options):
        print("a progress bar")
        print("a warning", file=sys.stderr)
        warnings.warn("noise", UserWarning, stacklevel=1)
        stand_in.asked |= {"model": model, "tokenizer": tokenizer, "samples": samples, "sources": sources}
        stand_in.asked |= {"answer": answer_ids, "ablation": ablation, "options": options}
        stand_in.asked["prompts"] = [prompt_ids(mask) for mask in stand_in.masks]
        with pytest.raises(ValueError, match="shorter"):
            prompt_ids(stand_in.masks[0, :2])
        return stand_in.masks, np.arange(6.0).reshape(3, 2)

    class LassoRegression:
        def fit(self, masks, values, tokens):
            stand_in.asked["fit"] = (masks.tolist(), values.tolist(), tokens)
            return np.array([0.5, -1, 2], np.float32), 7.0

    utils = SimpleNamespace(
        get_masks_and_logit_probs=get_masks_and_logit_probs, aggregate_logit_probs=lambda logits: logits.sum(1)
    )
    monkeypatch.setitem(sys.modules, "context_cite", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "context_cite.utils", utils)
    monkeypatch.setitem(sys.modules, "context_cite.solver", SimpleNamespace(LassoRegression=LassoRegression))
    return stand_in


def room():
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length = 200
    return tokenizer


def test_the_package_gets_the_token_ids_that_are_left_and_its_weights_are_returned(package, capsys):
    inner = Explainer(tiny.model("llama", "CausalLM"), room()).language_model
    prompt = AnsweredPrompt(inner, Asked("is this good?", {"text": DOCUMENT}), AnswerProtocol(5), 4)
    ids = prompt.completed.encoding.ids
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights, passes = published_context_cite(prompt, 9)
    assert (weights.tolist(), weights.dtype, passes) == ([0.5, -1, 2], np.float64, 9)
    parts = [*(f"{sentence}." for sentence in DOCUMENT.split(".")[:3]), "Question: is this good?\nAnswer:"]
    first, second, third, rest = (inner.tokenizer(part)["input_ids"] for part in parts)
    assert package.asked["prompts"] == [first + third + rest, rest, first + second + third + rest]
    answer = ids[-5:]
    assert package.asked["answer"] == answer
    assert ids == first + second + third + rest + answer
    assert package.asked["model"] is inner.copy.unmodified
    assert package.asked["tokenizer"] is inner.tokenizer
    assert (package.asked["samples"], package.asked["sources"]) == (9, 3)
    assert package.asked["ablation"] == (0.5, 1), "each source is there in half of them, and one passes at a time"
    assert package.asked["options"] == {"base_seed": 4}
    assert package.asked["fit"] == (package.masks.tolist(), [1, 5, 9], 5)
    assert capsys.readouterr() == ("", ""), "what the package prints is kept off the terminal"
