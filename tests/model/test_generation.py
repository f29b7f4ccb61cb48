import pytest

from normxlogit.model.generation import until_end


@pytest.mark.parametrize(
    ("ids", "kept"),
    [([5, 6, 3, 0, 0], [5, 6, 3]), ([3, 3, 5], [3]), ([5, 4, 3], [5, 4]), ([5, 6], [5, 6]), ([], [])],
)
def test_an_answer_ends_with_the_first_of_its_ends(ids, kept):
    assert until_end(ids, {3, 4}) == kept
    assert until_end(ids, set()) == ids
