"""In a corpus: tokenizers that report no offsets: their tokens are found in the text, or words of it are refused."""
# ruff: noqa: F811  # fixtures

from normxlogit import Predictions, attribute, load

from ..test_slow_tokenizers import TEXT, WORDS, bert, folder  # noqa: F401  # fixtures


def test_a_corpus_has_words(bert, tmp_path):
    attribute(bert, [{"text": TEXT}, {"text": "the cat"}], tmp_path / "out", Predictions(words=True), keep_text=True)
    (file,) = (tmp_path / "out").rglob("*.parquet")
    first, second = load(file)
    assert [word.text for word in first.words()] == WORDS
    assert [word.text for word in second.words()] == ["the", "cat"]
