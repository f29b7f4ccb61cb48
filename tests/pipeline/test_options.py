import numpy as np
import pytest
import torch

from normxlogit import InputError
from normxlogit.pipeline.extra_inputs import with_extra_inputs
from tests import tiny
from tests.tiny import explainer


@pytest.mark.parametrize("integer", [np.int64, np.array, torch.tensor], ids=["int64", "0-d array", "0-d tensor"])
def test_any_integer_is_an_index_or_a_layer(integer):
    e = explainer(num_labels=3)
    expected = e(tiny.TEXTS[0], target=2, contrast=1, layers=2)
    found = e(tiny.TEXTS[0], target=integer(2), contrast=integer(1), layers=integer(2))
    assert found == expected
    assert [type(i) for i in (found.target.id, found.target.contrast_id, *found.layers)] == [int] * 3
    several = e(tiny.TEXTS[0], target=[integer(2), integer(0)], layers=[integer(3), integer(1)])
    assert several == e(tiny.TEXTS[0], target=[2, 0], layers=[3, 1])
    assert e(tiny.TEXTS[:2], targets=[integer(2), integer(0)]) == e(tiny.TEXTS[:2], targets=[2, 0])


@pytest.mark.parametrize(("declared", "said"), [(("a",), "it was made with a;"), ((), "it was made with none;")])
def test_an_extra_input_that_the_explainer_was_not_made_with_is_refused(declared, said):
    defaults = dict.fromkeys(declared, torch.zeros(1, 2))
    with pytest.raises(InputError, match=f"no extra input 'b': {said}"):
        with_extra_inputs([], {"b": [1.0]}, defaults, single=False)
