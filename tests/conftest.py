"""Shared set-up: no network, few threads, quiet libraries."""

import gc
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["NORMXLOGIT_CACHE"] = ""  # nothing is kept but where a test says where
os.environ["COLORTERM"] = "truecolor"  # rich remembers a style as it was first drawn, for the whole process
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import pytest
import torch
import transformers

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # every worker has a core of its own
gc.set_threshold(700, 10, 100)  # whole collections are slow in a process with torch and transformers
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def pytest_addoption(parser):
    parser.addoption("--complete", action="store_true", help="a test that is skipped for want of a package fails")


def complete(report, config):
    """Return a report, with `--complete` a failed one where `importorskip` without a reason of its own skipped."""
    if config.getoption("--complete") and report.skipped and "could not import" in str(report.longrepr):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    return complete(report, item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    return complete(report, collector.config)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random state."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def explainer():
    """The explainer of a classifier with random weights, which all tests share."""
    from tests import tiny

    return tiny.explainer("bert")


@pytest.fixture(scope="session")
def writer():
    """The explainer of a language model with random weights, which all tests share."""
    from tests import tiny

    return tiny.explainer("llama", "CausalLM")


@pytest.fixture
def few_examples(monkeypatch):
    """Where code of the docs reads some of the texts of a data set, it reads eight of them."""
    from normxlogit.evaluation import datasets

    load = datasets.load_examples

    def few(*given, limit=None, **options):
        return load(*given, limit=limit and min(limit, 8), **options)

    monkeypatch.setattr(datasets, "load_examples", few)
