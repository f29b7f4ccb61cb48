"""One explainer in many threads and in forked workers, while its model is trained."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from tests import tiny
from tests.commands import run_python

THREADS, TEXTS = 8, 30
WORDS = [word for word in tiny.WORDS if not word.startswith("##")]


def texts(seed):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, size=draw.integers(1, 20))) for _ in range(TEXTS)]


def explained(explainer, given, method="normxlogit"):
    """Half of the texts one by one, some of them at all layers, the others in a list."""
    half = len(given) // 2
    layers = [ALL if i % 5 == 0 else None for i in range(half)]
    found = [explainer(text, method=method, layers=some) for text, some in zip(given[:half], layers, strict=True)]
    return [result.scores for result in (*found, *explainer(given[half:], method=method))]


def training(model, tokenizer, stop):
    """Train the model as its owner would, but for the steps: its weights stay, and gradients come and go."""
    model.train()
    inputs = tokenizer(tiny.TEXTS, return_tensors="pt", padding=True)
    passes = 0
    while not stop.is_set():
        model(**inputs, labels=torch.tensor([0, 1, 0])).loss.backward()
        model.zero_grad()
        passes += 1
    return passes


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient"])
def test_eight_threads_equal_one_while_the_model_is_trained(method):
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    count = THREADS if method == "normxlogit" else 2
    expected = [explained(Explainer(model, tokenizer), texts(seed), method) for seed in range(count)]
    explainer, stop = Explainer(model, tokenizer), threading.Event()
    with ThreadPoolExecutor(count + 1) as pool:
        trained = pool.submit(training, model, tokenizer, stop)
        try:
            found = list(pool.map(lambda seed: explained(explainer, texts(seed), method), range(count)))
        finally:
            stop.set()
        assert trained.result() > 0
    for ours, theirs in zip(found, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters()), "the trainer's own, which it took away"


FORKED = """
import multiprocessing, sys
import numpy as np
import torch
from normxlogit import ALL, Explainer
from tests import tiny

CALLS = [{}, {"layers": ALL}, {"method": "frozen-gradient"}, {"method": "occlusion"}, {"method": "input-norm"}]


def scores(explainer):
    return [result.scores for options in CALLS for result in explainer(tiny.TEXTS, **options)]


def child(explainer, pipe):
    torch.set_num_threads(1)  # as in torch's own workers: OpenMP's threads do not survive a fork
    pipe.send(scores(explainer))


if __name__ == "__main__":
    explainer = tiny.explainer("bert")
    expected = scores(explainer)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    workers = [context.Process(target=child, args=(explainer, theirs)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        assert ours.poll(100), "a worker hangs"
        for a, b in zip(ours.recv(), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for worker in workers:
        worker.join(100)
        assert worker.exitcode == 0
    for a, b in zip(scores(explainer), expected, strict=True):
        np.testing.assert_array_equal(a, b)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_worker_gives_the_scores_of_its_parent():
    run_python(FORKED)
