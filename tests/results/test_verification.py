import pytest

from normxlogit.results.verification import Removal


@pytest.mark.parametrize(("value", "verb"), [(0.25, "falls"), (0.75, "rises")])
def test_a_similarity_falls_or_rises_without_a_part(value, verb):
    removal = Removal(("cat",), (1,), None, value, False, "cosine", 0.5)
    assert f"the similarity {verb} from 0.50 to {value}" in str(removal)
