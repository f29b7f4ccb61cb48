"""What would give other numbers on encoder-decoders than on other models is refused there, and nothing else is."""

import numpy as np
import pytest

from normxlogit import MethodError, UnsupportedModelError
from tests import tiny
from tests.contract.compare import refused

PROMPT, COMPLETION = "the movie is never bad", "a good film"


@pytest.fixture(scope="module", params=["t5", "bart"])
def explainer(request):
    return tiny.explainer(request.param, "Seq2SeqLM")


@pytest.mark.parametrize("baseline", ["pad", "mask"])
def test_the_frozen_gradient_takes_no_other_baseline(explainer, baseline):
    method = f"frozen-gradient:read_at=0,baseline={baseline}"
    refused(
        (MethodError, UnsupportedModelError),
        "baseline",
        lambda: explainer.explain_completion(PROMPT, COMPLETION, method=method),
    )
    zero = explainer.explain_completion(PROMPT, COMPLETION, method="frozen-gradient:read_at=0,baseline=zero")
    assert np.abs(zero.scores).max() > 0


def test_layers_are_of_one_side_and_refused(explainer):
    refused(
        (MethodError, UnsupportedModelError),
        "layer",
        lambda: explainer.explain_completion(PROMPT, COMPLETION, layers=[1], method="frozen-gradient"),
    )
