import numpy as np
import pytest

from normxlogit.results.storage.schema import Index, check


@pytest.mark.parametrize("value", [-1, 2**53, True, 1.5, "1", None])
def test_an_index_is_a_whole_number_that_readers_of_json_hold(value):
    assert [check(Index)(index) for index in (0, np.int64(3), 2**53 - 1)] == [0, 3, 2**53 - 1]
    with pytest.raises(ValueError):
        check(Index)(value)
