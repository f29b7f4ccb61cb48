"""Ctrl-C at any line of a call, or too little memory: forgotten, as if it had not been."""

import contextlib

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer, InputError
from tests import plain, tiny

from .compare import present, refused, same
from .faults import AtLine, AtOperation, moments
from .untouched import nothing_left_behind, waiting_threads

CALLS = [("normxlogit", ALL), ("frozen-gradient", None), ("occlusion", None)]
CALLS += [(method, None) for method in present("integrated-gradients:steps=2")]


def wait_until_no_progress_is_shown():
    """Let the thread end that waits whether a call takes long: a call that has to start it runs a line more."""
    for thread in waiting_threads():
        thread.join()


def interrupt(family, kind, call, earlier=lambda explainer: None):
    """Press Ctrl-C at five lines of a call, each with a model and an explainer of its own."""
    tokenizer = tiny.tokenizer_for(family)

    def build():
        model = tiny.model(family, kind)
        explainer = Explainer(model, tokenizer)
        earlier(explainer)
        return model, explainer

    expected = call(build()[1])
    counted = build()[1]
    wait_until_no_progress_is_shown()
    with AtLine() as lines:
        call(counted)
    for moment in moments(lines.seen, 5):
        model, explainer = build()
        with nothing_left_behind(model, tokenizer):
            if moment == lines.seen:  # the last line, which a call that runs a line less does not reach
                wait_until_no_progress_is_shown()
            with pytest.raises(KeyboardInterrupt), AtLine(moment):
                call(explainer)
            same(call(explainer), expected)


@pytest.mark.parametrize("used", [False, True], ids=["first call", "later call"])
@pytest.mark.parametrize(("method", "layers"), CALLS, ids=[method for method, _ in CALLS])
def test_an_interrupt_in_the_middle_of_a_batch(method, layers, used):
    def earlier(explainer):
        if used:
            explainer(tiny.TEXTS[:1], method=method, layers=layers)

    interrupt("bert", "SequenceClassification", lambda e: e(tiny.TEXTS, method=method, layers=layers), earlier)


def test_an_interrupt_in_the_middle_of_a_generation():
    interrupt("llama", "CausalLM", lambda explainer: [explainer.generate("the cat", max_new_tokens=3)])


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


def test_after_a_lack_of_memory_batches_grow_again():
    device = Crowded()
    explainer = explainer_of(device)
    expected = explainer(TEXTS)
    device.full = lambda _: True
    refused(InputError, "not enough memory to explain a single input of 3 tokens", lambda: explainer("bad"))
    device.full = lambda _: False
    device.rows.clear()
    explainer(TEXTS)
    assert device.rows == [len(TEXTS)], "no memory for one short text says nothing of other batches"
    device.full = lambda texts: texts > 1
    explainer(TEXTS[:2])
    device.full = lambda _: False
    device.rows.clear()
    for _ in range(20):
        same(explainer(TEXTS), expected)
    assert (device.rows[0], device.rows[-1]) == (1, len(TEXTS))


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
