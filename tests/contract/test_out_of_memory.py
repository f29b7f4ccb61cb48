"""Too little memory, once or for a while: said as such, and forgotten when there is enough again."""

import contextlib

import numpy as np
import pytest
import torch

from normxlogit import Explainer, InputError
from tests import plain, tiny
from tests.contract.faults import AtOperation


class Crowded:
    """A device whose memory another process has, while `full` says so of a batch of so many texts."""

    def __init__(self):
        self.rows, self.full = [], lambda _: False

    def __call__(self, _, args):
        texts = len(args[0])
        self.rows.append(texts)
        if self.full(texts):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def explainer_of(device):
    model = tiny.model("bert")
    model.bert.embeddings.word_embeddings.register_forward_pre_hook(device)
    return Explainer(model, tiny.tokenizer_for("bert"))


TEXTS = [f"a {word} film" for word in ("good", "bad", "great", "awful", "mediocre", "very", "never", "here")]


def test_no_memory_for_one_short_text_says_nothing_of_other_batches():
    device = Crowded()
    explainer = explainer_of(device)
    explainer(TEXTS)
    device.full = lambda _: True
    with pytest.raises(InputError, match="not enough memory to explain a single text of 3 tokens"):
        explainer("bad")
    device.full = lambda _: False
    device.rows.clear()
    explainer(TEXTS)
    assert device.rows == [len(TEXTS)]


def test_after_a_lack_of_memory_batches_grow_again():
    device = Crowded()
    explainer = explainer_of(device)
    expected = explainer(TEXTS)
    device.full = lambda texts: texts > 1
    explainer(TEXTS[:2])
    device.full = lambda _: False
    device.rows.clear()
    for _ in range(20):
        found = explainer(TEXTS)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-6)
    assert device.rows[0] == 1
    assert device.rows[-1] == len(TEXTS)


def test_batches_that_do_not_fit_are_rarely_tried():
    device = Crowded()
    explainer = explainer_of(device)
    device.full = lambda texts: texts > 2
    for _ in range(20):
        explainer(TEXTS)
    failed = sum(texts > 2 for texts in device.rows)
    assert failed < len(device.rows) / 5


def test_memory_that_runs_out_in_any_proof_is_not_taken_for_an_unsupported_model():
    def explain():
        explainer = Explainer(plain.grown(plain.Transformer()), tiny.tokenizer(), task="sequence-classification")
        return explainer(TEXTS[0], target=1, method="frozen-gradient")

    expected = explain()
    with AtOperation() as operations:
        explain()
    for moment in range(operations.seen // 2, operations.seen, operations.seen // 24):
        with contextlib.suppress(InputError), AtOperation(moment):
            np.testing.assert_allclose(explain().scores, expected.scores, rtol=1e-4, atol=1e-5)
