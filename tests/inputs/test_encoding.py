"""One text as tokens, and some of them cut out."""

from normxlogit.inputs.encoding import word_indices


def test_a_token_on_two_words_belongs_to_the_first():
    spans = [(0, 5), (5, 8)]
    assert word_indices([0, 0], spans, [0, 0], ("ab cd ef", "")) == (0, 2)
