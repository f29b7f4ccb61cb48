"""What would give other numbers on encoder-decoders than on other models is refused there, and nothing else is."""

import numpy as np
import pytest

from normxlogit import InputError, MethodError, UnsupportedModelError
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


@pytest.mark.parametrize("name", ["decoder_start_token_id", "forced_bos_token_id"])
@pytest.mark.parametrize("value", ["</s>", True, -1, 10**6, 2.5, [3, 4]], ids=str)
def test_the_first_token_of_a_decoder_is_a_token_id(explainer, name, value):
    refused(InputError, "token", lambda: explainer.explain_completion(PROMPT, COMPLETION, **{name: value}))
    alone, listed = (explainer.explain_completion(PROMPT, COMPLETION, **{name: i}).token_ids for i in (9, [9]))
    assert alone == listed
