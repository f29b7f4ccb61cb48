"""Batches as large as the memory that is free allows, and gradient checkpointing only where it is needed."""

import pytest

from normxlogit import Explainer
from normxlogit.frozen.frozen_model import FrozenModel
from normxlogit.model import token_budget
from tests import tiny
from tests.contract.compare import close

TEXTS = [tiny.TEXTS[0]] * 12


@pytest.fixture
def memory(monkeypatch):
    """Set the bytes that are free, and record which passes keep their graphs, by their number of texts."""
    passes, own = [], FrozenModel._run_copy

    def run_copy(self, copy, batch, **options):
        passes.append((len(batch.mask), options.get("spare", False)))
        return own(self, copy, batch, **options)

    monkeypatch.setattr(FrozenModel, "_run_copy", run_copy)

    def set_free(count):
        monkeypatch.setattr(token_budget, "free_memory", lambda _: count)
        return passes

    return set_free


def bytes_kept(family="bert"):
    return token_budget._bytes_kept(tiny.model(family), 0)


def test_one_pass_where_there_is_room_and_smaller_ones_where_there_is_not(memory, monkeypatch):
    monkeypatch.setattr(token_budget, "FEWEST_TOKENS", 1)
    results = {}
    for texts in (12, 5, 1):
        passes = memory(2 * bytes_kept() * texts * len(tiny.explainer("bert").encode(TEXTS)[0]))
        explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
        results[texts] = explainer(TEXTS)
        assert {(texts, False), (12 % texts or texts, False)} == set(passes[1:]), "the first proves"
        passes.clear()
    for texts in (5, 1):
        for one, other in zip(results[texts], results[12], strict=True):
            close(one.scores, other.scores)


def test_a_text_too_long_for_memory_is_checkpointed(memory, monkeypatch):
    monkeypatch.setattr(token_budget, "FEWEST_TOKENS", 1)
    expected = tiny.explainer("bert")(tiny.TEXTS[1]).scores
    passes = memory(0)
    close(Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))(tiny.TEXTS[1]).scores, expected)
    assert passes[-1] == (1, True)
