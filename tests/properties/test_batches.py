"""A text alone, in a batch, and in a batch of another order: the same scores, or the same error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normxlogit import NormXLogitError

from .cases import CASES, Case
from .texts import batches


def outcome(case: Case, inputs, **options):
    """Return what comes of inputs: results, or an error of the library; any other error is one of the library's own."""
    try:
        return case.explainer(inputs, **options)
    except NormXLogitError as error:
        return error


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(other).max())))


def agree(one, other):
    """Refuse two results of one text that differ in more than rounding."""
    for name in ("text", "text_pair", "tokens", "offsets", "notes", "target"):
        assert getattr(one, name) == getattr(other, name)
    assert one.prediction.value == pytest.approx(other.prediction.value, rel=1e-4, abs=1e-4)
    close(one.scores, other.scores)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(texts=batches, data=st.data())
def test_alone_in_a_batch_and_reordered(case, texts, data):
    inputs = [case.input_of(text) for text in texts]
    options = {} if case.head in ("QuestionAnswering", "MultipleChoice") else {"target": 0}
    alone = [outcome(case, one, **options) for one in inputs]
    wrong = [place for place, found in enumerate(alone) if isinstance(found, Exception)]
    if wrong:
        together = outcome(case, inputs, **options)
        assert type(together) in {type(alone[place]) for place in wrong}
    good = [place for place in range(len(inputs)) if place not in wrong]
    order = data.draw(st.permutations(good))
    for places in (good, order):
        together = case.explainer([inputs[place] for place in places], **options)
        for place, found in zip(places, together, strict=True):
            agree(found, alone[place])
