"""Batches of models that see padding."""

import numpy as np
import pytest

from normxlogit import Explainer
from normxlogit.inputs.batching import batches
from tests import tiny
from tests.architectures.base import build, stir

TEXTS = ["a great film with charm", "the movie is never bad , but the plot was awful !", "the cat sat on the mat"]
TEXTS += ["a great plot with charm", "it is a bad film and a good plot"]


@pytest.mark.parametrize(("family", "ignores"), [("fnet", False), ("funnel", False), ("bert", True)])
def test_scores_are_the_same_alone_and_among_others_even_if_padding_tells(family, ignores):
    model = build("sequence-classification", family)
    stir(model, 2.0)
    explainer = Explainer(model, tiny.tokenizer())
    together = explainer(TEXTS, target=1)
    assert explainer.model.ignores_padding is ignores
    for text, among in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(explainer(text, target=1).scores, among.scores, rtol=1e-4, atol=1e-5)


def test_lengths_do_not_mix_where_they_must_not():
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    encodings = explainer.encode(TEXTS * 3)
    groups = list(batches(encodings, 8192, pad=False))
    assert sorted(i for group in groups for i in group) == list(range(len(encodings)))
    lengths = [{len(encodings[i]) for i in group} for group in groups]
    assert all(len(own) == 1 for own in lengths)
    assert len(groups) == len(set.union(*lengths)), "texts of one length stay together"


def test_what_padding_does_is_tried_once_and_only_where_lengths_differ():
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    explainer([TEXTS[0]] * 3)
    assert explainer.model.ignores_padding is None
    explainer(TEXTS)
    states = explainer.model.states
    explainer.model.states = lambda batch: pytest.fail("tried again")
    explainer(TEXTS)
    explainer.model.states = states
