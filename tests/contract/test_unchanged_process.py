"""The process stays as it was: random state, torch's switches, environment, warnings, logging, files and threads."""

import gc
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from normxlogit import ALL, Explainer, NormXLogitError, list_methods, load
from tests import tiny
from tests.commands import run

from .compare import explainer
from .untouched import random_states, switches

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("method", [info.name for info in list_methods()])
def test_no_method_touches_the_random_state(method):
    """Nor needs one of its own: whatever the caller seeded, the scores are the same."""
    e = explainer("bert")
    results = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        before = random_states()
        results.append([result.scores for result in e(tiny.TEXTS, method=method)])
        assert random_states() == before
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


FIRST = """
import os, signal, sys
from normxlogit import Explainer
from tests import tiny
from tests.contract.untouched import random_states, switches
model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
def state():
    signals = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    environment = {name: value for name, value in os.environ.items() if name[:4] != "KMP_"}  # scikit-learn sets these
    return environment, os.getcwd(), sys.getrecursionlimit(), sys.excepthook, signals, switches(), random_states()
before = state()
explainer = Explainer(model, tokenizer)
for method in ("normxlogit", "lime", "kernel-shap", "guided-lime", "occlusion", "integrated-gradients:steps=2"):
    explainer("the cat", method=method)
    assert state() == before, method
"""

IMPORT = """
import logging, os, random, signal, sys, threading, warnings
before = dict(os.environ), random.getstate(), list(warnings.filters), list(sys.path), os.getcwd()
before += (logging.getLogger().level, list(logging.getLogger().handlers), signal.getsignal(signal.SIGINT))
before += (threading.active_count(), sys.excepthook, sys.getrecursionlimit())
import normxlogit
after = dict(os.environ), random.getstate(), list(warnings.filters), list(sys.path), os.getcwd()
after += (logging.getLogger().level, list(logging.getLogger().handlers), signal.getsignal(signal.SIGINT))
after += (threading.active_count(), sys.excepthook, sys.getrecursionlimit())
assert after == before
assert "torch" not in sys.modules, "importing the package is instant"
"""


@pytest.mark.parametrize("program", [FIRST, IMPORT], ids=["the first call", "the import"])
def test_a_new_process_is_left_as_it_was(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def surroundings():
    """Return what else a library could change in the process that imports it."""
    root, own = logging.getLogger(), logging.getLogger("transformers")
    return {
        "switches": switches(),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "warnings": list(warnings.filters),
        "logging": (root.level, list(root.handlers), own.level, list(own.handlers)),
        "verbosity": transformers.utils.logging.get_verbosity(),
        "bars": transformers.utils.logging.is_progress_bar_enabled(),
        "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)},
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "hooks": (sys.excepthook, sys.gettrace(), sys.getprofile(), gc.isenabled(), gc.get_threshold()),
        "path": list(sys.path),
        "recursion": sys.getrecursionlimit(),
        "threads": threading.active_count(),
        "attention": torch.backends.cuda.flash_sdp_enabled(),
        "functions": (torch.nn.functional.softmax, torch.matmul, torch.nn.Module.__call__, torch.Tensor.__mul__),
    }


def every_kind_of_call(folder):
    classifier, writer = explainer("bert"), explainer("llama", "CausalLM")
    classifier(tiny.TEXTS, layers=ALL)
    for info in list_methods():
        classifier(tiny.TEXTS[0], method=info.name)
    writer.generate("the cat sat", max_new_tokens=2)
    writer.cite("a cat ?", ["the cat sat ."], max_new_tokens=2)
    results = classifier(tiny.TEXTS)
    results.to_html(folder / "all.html")
    for name in ("all.json", "all.parquet", "all.csv"):
        results.save(folder / name)
    load(folder / "all.parquet")
    str(results), results.to_pandas()


def test_calls_leave_the_process_as_it_was(tmp_path, capfd):
    every_kind_of_call(tmp_path / "..")  # what other packages set up when they are imported is theirs
    before = surroundings()
    every_kind_of_call(tmp_path)
    assert surroundings() == before
    assert capfd.readouterr() == ("", ""), "a library prints nothing"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["all.csv", "all.html", "all.json", "all.parquet"]


def test_an_exception_leaves_the_process_as_it_was():
    e = explainer("bert")
    e(tiny.TEXTS, method="frozen-gradient")
    before = surroundings(), random_states()
    for options in ({"target": "nobody knows"}, {"method": "lime:samples=0"}, {"layers": 99}):
        with pytest.raises(NormXLogitError):
            e(tiny.TEXTS, **options)
    assert (surroundings(), random_states()) == before


@pytest.mark.parametrize("around", [torch.no_grad, torch.enable_grad, torch.inference_mode], ids=lambda a: a.__name__)
@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient", "gradient-x-input"])
def test_what_the_caller_has_switched_on_stays_on_and_changes_no_score(around, method):
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    expected = Explainer(model, tokenizer)(tiny.TEXTS[0], method=method).scores
    with around():
        before = switches()
        np.testing.assert_array_equal(Explainer(model, tokenizer)(tiny.TEXTS[0], method=method).scores, expected)
        assert switches() == before


def test_a_default_dtype_of_the_callers_is_kept():
    expected = explainer("bert")(tiny.TEXTS[0]).scores
    e = explainer("bert")
    torch.set_default_dtype(torch.float64)
    try:
        scores = e(tiny.TEXTS[0]).scores
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


def test_the_command_line_leaves_this_process_as_it_was(capsys, tmp_path):
    tiny.save(tmp_path / "model", "bert")
    lines = (["explain", "the cat", "--model", tmp_path / "model"], ["explain", "x", "--target", "nope"], ["methods"])
    for words in lines:
        run(capsys, *words)
    before = surroundings(), random_states()
    for words in lines:
        run(capsys, *words)
    assert (surroundings(), random_states()) == before
