"""The same seed gives the same numbers: in a new explainer, and in another process (test_unchanged_process.py)."""

import random

import numpy as np
import pytest
import torch

from tests import tiny
from tests.tiny import explainer

from .compare import every_method, present

SEEDED = present("random", "lime:samples=20,alpha=0.0001", "kernel-shap:samples=20")


@every_method
def test_the_same_call_gives_the_same_numbers_whatever_the_caller_seeded(method):
    first, second = explainer("bert"), explainer("bert")
    for seed, text in enumerate(tiny.TEXTS):
        expected = first(text, method=method).scores
        np.testing.assert_array_equal(first(text, method=method).scores, expected)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        np.testing.assert_array_equal(second(text, method=method).scores, expected)


@pytest.mark.parametrize("method", SEEDED)
def test_another_seed_gives_other_numbers(method):
    e = explainer("bert")
    joint = "," if ":" in method else ":"
    scores = [e(tiny.TEXTS[2], method=f"{method}{joint}seed={seed}").scores for seed in (1, 2, 1)]
    np.testing.assert_array_equal(scores[0], scores[2])
    assert not np.array_equal(scores[0], scores[1])


def test_sampled_text_is_that_of_torchs_seed():
    e = explainer("llama", "CausalLM")
    texts = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        texts.append(e.generate("the cat", do_sample=True, temperature=5.0, max_new_tokens=8).token_ids)
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
