"""Decompositions of encoders: what their scores sum to, and the models on which they work or are refused."""

import numpy as np
import pytest
from torch import nn

from normxlogit import ALL, Explainer, UnsupportedModelError
from normxlogit.methods import DecompX
from tests import tiny
from tests.contract.compare import total
from tests.contract.test_architectures import CLASSIFIER, explainer_for
from tests.contract.test_interrupt import interrupt
from tests.contract.test_quantised_models import FewBits, with_maps
from tests.contract.test_sum_rules import (
    CLOSE,
    CLOSER,
    LONG,
    TEXT,
    build,
    explained,
    logits_of,
    logits_of_result,
    windowed_logits,
)

ENCODERS = ["bert", "roberta", "distilbert", "electra"]
TASKS = ["SequenceClassification", "TokenClassification", "MaskedLM"]


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("kind", TASKS)
def test_scores_and_bias_of_decompx_are_the_logit_less_the_mean_of_a_vocabulary(family, kind):
    model, explainer = build(family, kind)
    result = explainer(tiny.MASKED, method=DecompX(), target=[0, 1])
    np.testing.assert_allclose(total(result), explained(logits_of_result(model, result), kind)[:2], **CLOSER)


def test_a_contrast_and_windows_add_up():
    model = tiny.model("bert", num_labels=3)
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    logits = logits_of(model, TEXT)
    a = explainer(TEXT, method="decompx", target=1, contrast=0)
    assert a.scores.sum() + a.bias == pytest.approx(logits[1] - logits[0], abs=1e-3)
    every = explainer(LONG, long_text="window", method="decompx", target=ALL)
    np.testing.assert_allclose(every.scores.sum(-1) + every.bias, windowed_logits(model, LONG), **CLOSE)


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize(
    "method", ["alti", "attention-rollout", "value-zeroing", "alti:rollout=false", "value-zeroing:rollout=false"]
)
def test_rows_of_alti_and_other_mixtures_sum_to_one(family, method):
    _, explainer = build(family)
    for result in explainer(tiny.TEXTS, method=method, layers=ALL):
        np.testing.assert_allclose(result.scores.sum(-1), 1, atol=1e-5)
        assert (result.scores >= 0).all()


def test_models_without_values_of_their_own_are_refused_with_what_would_work():
    for task, family, text in ((CLASSIFIER, "flaubert", TEXT), ("masked-lm", "reformer", "the movie is [MASK]")):
        explainer, _ = explainer_for(task, family)
        with pytest.raises(UnsupportedModelError, match=r"value-zeroing needs.*normxlogit"):
            explainer(text, method="value-zeroing")


def test_weights_that_do_not_become_another_dtype_are_read():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    expected = Explainer(model, tokenizer)(TEXT, method="decompx").scores

    def in_few_bits(linear):
        weight = linear.weight.detach().clone().as_subclass(FewBits)
        linear.weight = nn.Parameter(weight, requires_grad=False)
        assert type(linear.weight) is FewBits
        return linear

    changed = with_maps(model, in_few_bits)
    for method in ("decompx", "alti", "globenc"):
        assert Explainer(changed, tokenizer)(TEXT, method=method)
    np.testing.assert_allclose(Explainer(changed, tokenizer)(TEXT, method="decompx").scores, expected, atol=1e-4)


def test_an_interrupt_in_the_middle_of_a_batch():
    interrupt("bert", "SequenceClassification", lambda explainer: explainer(tiny.TEXTS, method="decompx"))
