"""The label of every word is explained by a list of positions; lists of words are to be joined."""

import pytest

from normxlogit import ALL, InputError
from tests import tiny
from tests.contract.compare import total

TEXT = "the movie is greatly new"


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_every_words_label_is_explained_by_a_list_of_positions(family):
    tagger = tiny.explainer(family, "TokenClassification", num_labels=3)
    words = tagger(TEXT).words()
    each = tagger([TEXT] * len(words), position=[(word.start, word.end) for word in words])
    logits = tiny.logits_of(tagger.model, each[0].token_ids)
    for word, a in zip(words, each, strict=True):
        row = logits[word.position]
        assert (a.target.position, a.prediction.id) == (word.position, int(row.argmax()))
        assert total(a) == pytest.approx(float(row.max()), abs=1e-4)
    with pytest.raises(InputError, match="a position is a token's index"):
        tagger(TEXT, position=ALL)


@pytest.mark.parametrize("given", [[["the", "cat"], ["bad"]], [["a cat", "the movie"]]])
def test_lists_of_words_are_refused_with_the_line_that_joins_them(explainer, given):
    with pytest.raises(InputError, match=r"' '\.join\(words\)"):
        explainer(given)
