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
from functools import partial

import numpy as np
import pytest
import torch
import transformers

from normxlogit import ALL, Explainer, NormXLogitError, load
from tests import tiny
from tests.commands import run_python
from tests.factories import make_attribution
from tests.tiny import explainer

from .compare import METHODS, every_method, present, refused
from .untouched import WAITING, random_states, switches, waiting_threads

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
for method in sys.argv[1:]:
    print(*[repr(float(score)) for score in explainer(tiny.TEXTS[2], method=method).scores])
    assert state() == before, method
"""

IMPORT = """
import logging, os, random, signal, sys, threading, warnings
def state():
    yield from (dict(os.environ), random.getstate(), list(warnings.filters), list(sys.path), os.getcwd())
    yield from (logging.getLogger().level, list(logging.getLogger().handlers), signal.getsignal(signal.SIGINT))
    yield from (threading.active_count(), sys.excepthook, sys.getrecursionlimit())
before, modules = list(state()), set(sys.modules)
import normxlogit
assert list(state()) == before
loaded = {name.partition(".")[0] for name in set(sys.modules) - modules}
assert loaded - sys.stdlib_module_names == {"normxlogit"}, "importing the package imports no other"
"""


def test_a_process_is_left_as_it_was_by_the_import():
    run_python(IMPORT)


def test_a_new_process_is_left_as_it_was_by_the_first_calls_and_gives_the_same_numbers():
    methods = [METHODS[m] for m in present("normxlogit", "random", "lime", "kernel-shap", "occlusion")]
    e, lines = explainer("bert"), run_python(FIRST, *methods, PYTHONHASHSEED="7").splitlines()
    for method, line in zip(methods, lines, strict=True):
        scores = [float(score) for score in line.split()]
        np.testing.assert_allclose(scores, e(tiny.TEXTS[2], method=method).scores, rtol=1e-4, atol=1e-6)


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
        "threads": [thread.name for thread in threading.enumerate() if thread.name != WAITING],
        "attention": torch.backends.cuda.flash_sdp_enabled(),
        "functions": (torch.nn.functional.softmax, torch.matmul, torch.nn.Module.__call__, torch.Tensor.__mul__),
    }


def every_kind_of_call(folder):
    classifier, writer = explainer("bert"), explainer("llama", "CausalLM")
    classifier(tiny.TEXTS, layers=ALL)
    for method in METHODS.values():
        classifier(tiny.TEXTS[0], method=method)
    writer.generate("the cat sat", max_new_tokens=2)
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


def test_a_moment_after_the_last_call_no_thread_waits():
    explainer("bert")(tiny.TEXTS)
    (thread,) = waiting_threads()
    thread.join(10)
    assert not thread.is_alive()


def test_an_exception_leaves_the_process_as_it_was():
    e = explainer("bert")
    e(tiny.TEXTS, method="frozen-gradient")
    before = surroundings(), random_states()
    for options in ({"target": "nobody knows"}, {"method": "occlusion:window=0"}, {"layers": 99}):
        refused(NormXLogitError, ".", partial(e, tiny.TEXTS, **options))
    assert (surroundings(), random_states()) == before


@pytest.mark.parametrize("around", [torch.no_grad, torch.enable_grad, torch.inference_mode], ids=lambda a: a.__name__)
@pytest.mark.parametrize("method", present("normxlogit", "frozen-gradient", "gradient-x-input"))
def test_what_the_caller_has_switched_on_stays_on_and_changes_no_score(around, method):
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    expected = Explainer(model, tokenizer)(tiny.TEXTS[0], method=method).scores
    with around():
        before = switches()
        np.testing.assert_array_equal(Explainer(model, tokenizer)(tiny.TEXTS[0], method=method).scores, expected)
        assert switches() == before


def test_a_default_dtype_of_the_callers_is_kept():
    e = explainer("bert")
    expected = explainer("bert")(tiny.TEXTS[0]).scores
    torch.set_default_dtype(torch.float64)
    try:
        scores = e(tiny.TEXTS[0]).scores
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


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


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def without_torch(code, *arguments):
    """Run a program in a new process, which may not import torch; returns exit code, output and errors."""
    program = (
        f"import sys\ntry:\n    {code}\n"
        "finally:\n    assert not {'torch', 'transformers'} & set(sys.modules), 'torch was imported'\n"
    )
    run = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, env=ENVIRONMENT)
    out, err = run.stdout.decode(), run.stderr.decode()
    assert "torch was imported" not in err, err
    return run.returncode, out, err


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_a_saved_result_is_loaded_and_drawn(suffix, tmp_path):
    make_attribution(method="frozen-gradient", settings={"read_at": "all"}).save(tmp_path / f"a.{suffix}")
    code, out, err = without_torch(
        "import normxlogit; a = normxlogit.load(sys.argv[1]); print(a[0]); a.to_html(sys.argv[2])",
        tmp_path / f"a.{suffix}",
        tmp_path / "page.html",
    )
    assert (code, err) == (0, "")
    assert "frozen-gradient" in out
    assert (tmp_path / "page.html").exists()
