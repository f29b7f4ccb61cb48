"""`position=ALL` explains the label of every word, or the token at every mask; lists of words are to be joined."""

import numpy as np
import pytest

from normxlogit import ALL, InputError, TargetError
from tests import tiny

TEXT = "the movie is greatly new"
LABELS = [f"LABEL_{index}" for index in range(3)]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def tagger(request):
    return tiny.explainer(request.param, "TokenClassification", num_labels=3)


@pytest.fixture(scope="module")
def classifier():
    return tiny.explainer("bert")


def test_every_words_label_is_a_target_of_one_result(tagger):
    every = tagger(TEXT, position=ALL)
    assert len(every) == len(TEXT.split())
    logits = tiny.logits_of(tagger.model, every.token_ids)
    for k, word in enumerate(TEXT.split()):
        one = tagger(TEXT, position=word)
        label = LABELS[int(logits[one.target.position].argmax())]
        assert (every.targets[k].name, every.targets[k].position) == (f"{word}: {label}", one.target.position)
        assert every[k].prediction.label == label == one.prediction.label
        np.testing.assert_allclose(every.scores[k], one.scores, atol=1e-6)
        total = every.scores[k].sum() + every.bias[k] + (0 if every.sink is None else every.sink[k])
        assert total == pytest.approx(float(logits[one.target.position].max()), abs=1e-4)


def test_every_mask_is_a_target(classifier):
    masked = tiny.explainer("bert", "MaskedLM")
    every = masked("the [MASK] is [MASK]", position=ALL)
    assert [target.position for target in every.targets] == [2, 4]
    np.testing.assert_allclose(every[1].scores, masked("the [MASK] is [MASK]", position=4).scores, atol=1e-6)
    with pytest.raises(InputError, match="the text holds none"):
        masked("the cat", position=ALL)
    with pytest.raises(InputError, match="position= chooses a token of token classifiers"):
        classifier("the cat", position=ALL)


def test_one_target_is_explained_at_each_place(tagger):
    several = tagger(["the cat", "bad"], position=ALL, targets=["LABEL_1", "LABEL_2"])
    assert [[target.id for target in result.targets] for result in several] == [[1, 1], [2]]
    with pytest.raises(TargetError, match="one target at each position"):
        tagger("the cat", position=ALL, target=ALL)


@pytest.mark.parametrize("given", [[["the", "cat"], ["bad"]], [["a cat", "the movie"]]])
def test_lists_of_words_are_refused_with_the_line_that_joins_them(classifier, given):
    with pytest.raises(InputError, match=r"' '\.join\(words\)"):
        classifier(given)
