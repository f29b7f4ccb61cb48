import pytest

from normxlogit.results.targets import Prediction
from normxlogit.results.verification import Removal, Verification, answer_text


@pytest.mark.parametrize(("value", "verb"), [(0.25, "falls"), (0.75, "rises")])
def test_a_similarity_falls_or_rises_without_a_part(value, verb):
    removal = Removal(("cat",), (1,), None, value, False, "cosine", 0.5)
    assert f"the similarity {verb} from 0.50 to {value}" in str(removal)


@pytest.mark.parametrize(
    ("label", "expected"),
    [("good", "good, 75.0%"), ("bad", "bad, 75.0% (good: 25.0%)"), ("fair", "fair, 75.0% (good: 25.0%)")],
)
def test_a_probability_is_said_once(label, expected):
    """The explained target is "good", and the model predicts "bad" with all words."""
    value = 0.75 if label == "good" else 0.25
    original = Removal((), (), Prediction("bad", 1, 1.0, 0.6), 0.4, False, "probability", 0.4)
    removal = Removal(("cat",), (1,), Prediction(label, 0, 1.0, 0.75), value, True, "probability", 0.4)
    verified = Verification("good", "probability", "word", "deleted", original, (removal,), removal)
    assert answer_text(removal, verified) == expected
