import pytest

from normxlogit import errors

from .calls import CALLS
from .shop import LONGEST, STEERING, listing


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
