"""The same seed gives the same numbers: in a new explainer, in another order, in another process."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from normxlogit import list_methods
from tests import tiny

from .compare import explainer

METHODS = [info.name for info in list_methods()]
SEEDED = ["random", "lime:samples=20,alpha=0.0001", "kernel-shap:samples=20", "guided-lime:samples=20"]


@pytest.mark.parametrize("method", METHODS)
def test_the_same_call_gives_the_same_numbers(method):
    first, second = explainer("bert"), explainer("bert")
    for text in tiny.TEXTS:
        expected = first(text, method=method).scores
        np.testing.assert_array_equal(first(text, method=method).scores, expected)
        torch.rand(3)
        np.testing.assert_array_equal(second(text, method=method).scores, expected)


@pytest.mark.parametrize("method", SEEDED)
def test_another_seed_gives_other_numbers(method):
    e = explainer("bert")
    joint = "," if ":" in method else ":"
    scores = [e(tiny.TEXTS[2], method=f"{method}{joint}seed={seed}").scores for seed in (1, 2, 1)]
    np.testing.assert_array_equal(scores[0], scores[2])
    assert not np.array_equal(scores[0], scores[1])


@pytest.mark.parametrize("method", SEEDED)
def test_the_numbers_of_a_text_do_not_depend_on_its_place(method):
    e = explainer("bert")
    alone = e(tiny.TEXTS[2], method=method).scores
    for texts in (tiny.TEXTS, tiny.TEXTS[::-1], [tiny.TEXTS[2]] * 3):
        for text, result in zip(texts, e(texts, method=method), strict=True):
            if text == tiny.TEXTS[2]:
                np.testing.assert_allclose(result.scores, alone, rtol=1e-4, atol=1e-5)


PROGRAM = """
import sys
from normxlogit import Explainer
from tests import tiny
e = tiny.explainer("bert")
for method in sys.argv[1:]:
    print(*[repr(float(score)) for score in e(tiny.TEXTS[2], method=method).scores])
"""


def test_another_process_gives_the_same_numbers():
    e = tiny.explainer("bert")
    command = [sys.executable, "-c", PROGRAM, *SEEDED]
    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[2], env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for method, line in zip(SEEDED, done.stdout.splitlines(), strict=True):
        expected = e(tiny.TEXTS[2], method=method).scores
        np.testing.assert_allclose([float(score) for score in line.split()], expected, rtol=1e-4, atol=1e-6)


def test_sampled_text_is_that_of_torchs_seed():
    e = explainer("llama", "CausalLM")
    texts = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        texts.append(e.generate("the cat", do_sample=True, temperature=5.0, max_new_tokens=8).token_ids)
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
