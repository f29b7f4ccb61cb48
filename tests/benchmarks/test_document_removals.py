"""Removed documents: prompts that are read as a tree have the answers of prompts that are read one by one."""

import itertools

import numpy as np
import pytest
import torch

from benchmarks import document_removals
from tests import tiny

PIECES = document_removals.PromptPieces([2, 5], [[6, 7, 8], [9, 10], [11, 12, 13, 14]], [15, 16, 17, 18], 2)
ALL_SUBSETS = np.array(list(itertools.product((True, False), repeat=3)))


def plain_distributions(model, present):
    """Read the prompt with some of its documents at once: probabilities of the answer's tokens, (G, V)."""
    documents = [token for ids, kept in zip(PIECES.documents, present, strict=True) if kept for token in ids]
    ids = torch.tensor([[*PIECES.start, *documents, *PIECES.end]])
    with torch.no_grad():
        logits = model(ids).logits[0, -PIECES.answer_tokens - 1 : -1]
    return logits.softmax(-1)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_answers_after_subsets_are_those_of_whole_passes(family):
    model = tiny.model(family, "CausalLM").eval()
    losses = document_removals.measured_losses(model, PIECES, ALL_SUBSETS)
    reference = plain_distributions(model, (True, True, True))
    for present, loss in zip(ALL_SUBSETS, losses, strict=True):
        probabilities = plain_distributions(model, present)
        nats, divergence = 0.0, 0.0
        for token, row, whole in zip(PIECES.end[-2:], probabilities, reference, strict=True):
            nats += float(row[token].log())
            for p, q in zip(row.tolist(), whole.tolist(), strict=True):
                middle = (p + q) / 2
                divergence += 0.5 * (p * np.log(p / middle) + q * np.log(q / middle))
        assert loss.nats == pytest.approx(nats, abs=1e-4)
        assert loss.divergence == pytest.approx(divergence, abs=1e-5)


def test_subsets_are_answered_in_their_own_order():
    model = tiny.model("llama", "CausalLM").eval()
    order = np.random.default_rng(0).permutation(len(ALL_SUBSETS))
    losses = [loss.nats for loss in document_removals.measured_losses(model, PIECES, ALL_SUBSETS)]
    shuffled = [loss.nats for loss in document_removals.measured_losses(model, PIECES, ALL_SUBSETS[order])]
    assert shuffled == pytest.approx([losses[i] for i in order], abs=1e-5)
