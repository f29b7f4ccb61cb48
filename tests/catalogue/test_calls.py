import pytest
import torch

from normxlogit import errors

from .calls import CALLS
from .shop import KINDS, LONGEST, STEERING, explainer, listing, state_of


@pytest.fixture(scope="module")
def before():
    with torch.no_grad():  # transformers hangs up recorders of its own when it is first asked for states
        explainer("bert").model(torch.tensor([[2, 5, 3]]), output_hidden_states=True)
    return {name: state_of(explainer(name)) for name in KINDS}


@pytest.mark.parametrize("row", CALLS, ids=lambda row: row.name)
def test_a_bad_call(row, there):
    files = listing(there)
    with pytest.raises(Exception) as caught:  # any type is looked at below
        row.do()
    said = str(caught.value)
    public = next((kind for kind in caught.type.__mro__ if kind.__module__ == errors.__name__), caught.type)
    assert (public, row.says in said) == (row.error, True), f"{caught.type.__name__}: {said}"
    assert not STEERING.search(said)
    assert len(said) <= LONGEST
    assert listing(there) == files


def test_no_model_and_no_tokenizer_is_changed_by_all_of_them(before, there):
    """All rows once more, in a row: what a failed call leaves behind would reach the next."""
    scores = {name: explainer(name)(INPUTS.get(name, "the cat"), **OPTIONS.get(name, {})) for name in KINDS}
    for row in CALLS:
        with pytest.raises(row.error):
            row.do()
    assert {name: state_of(explainer(name)) for name in KINDS} == before
    for name, result in scores.items():
        assert explainer(name)(INPUTS.get(name, "the cat"), **OPTIONS.get(name, {})) == result


INPUTS = {"masked": "the [MASK]", "reader": ("a", "the cat"), "choice": ("a", ["cat", "key"])}
OPTIONS = {"many": {"target": 7}}
