"""The README keeps its word."""

import pytest

from normxlogit import Explainer


@pytest.mark.parametrize(
    ("text", "label", "words"),
    [
        ("The movie is mediocre, maybe even bad.", "negative", {"mediocre", "bad"}),
        ("A warm, funny and deeply moving film.", "positive", {"warm", "funny", "moving"}),
    ],
)
def test_the_default_model_points_where_a_reader_would(text, label, words):
    result = Explainer.from_pretrained()(text)
    assert result.prediction.label == label
    ranked = sorted(result.words("max"), key=lambda word: -word.score)
    assert words <= {word.text for word in ranked[: len(words) + 1]}
