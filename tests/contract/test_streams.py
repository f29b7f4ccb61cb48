"""A stream: any number of inputs in constant memory, with the results of a call with a list."""

import itertools

import numpy as np
import pytest

from normxlogit import Explainer, InputError
from normxlogit.results.unexplained import Unexplained
from tests import tiny

TEXTS = [f"the movie is {word} ." for word in ("good", "bad", "great", "never good", "a film", "awful", "here")]


@pytest.fixture(scope="module")
def explainer():
    return Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_results_are_those_of_a_list_in_its_order(explainer, chunk_size):
    expected = explainer(TEXTS, target=1)
    found = list(explainer.stream(iter(TEXTS), chunk_size=chunk_size, target=1))
    assert [a.text for a in found] == TEXTS
    for result, same in zip(found, expected, strict=True):
        np.testing.assert_allclose(result.scores, same.scores, atol=1e-5)


def test_no_more_is_read_than_is_asked_for(explainer):
    numbers = itertools.count()
    results = explainer.stream((f"the cat {next(numbers)}" for _ in itertools.repeat(None)), chunk_size=2)
    assert next(numbers) == 0, "nothing is read before the first result"
    assert [next(results).text for _ in range(3)] == ["the cat 1", "the cat 2", "the cat 3"]
    assert next(numbers) == 5


def test_pairs_and_lists_of_words_are_inputs(explainer):
    (pair,) = explainer.stream([("the cat", "a film")])
    (words,) = explainer.stream([["the", "cat"]], is_split_into_words=True)
    assert (pair.text, pair.text_pair) == ("the cat", "a film")
    np.testing.assert_allclose(words.scores, explainer("the cat").scores, atol=1e-5)


def test_an_error_says_where_in_the_stream(explainer):
    results = explainer.stream([*TEXTS[:5], ""], chunk_size=2)
    assert len(list(itertools.islice(results, 4))) == 4
    with pytest.raises(InputError, match=r"inputs 4 to 5 of the stream.*input 1"):
        next(results)


def test_one_that_cannot_be_explained_can_stand_as_such(explainer):
    found = list(explainer.stream([TEXTS[0], "", TEXTS[1], ""], chunk_size=3, on_error="keep"))
    assert [isinstance(result, Unexplained) for result in found] == [False, True, False, True]
    with pytest.raises(InputError):
        next(explainer.stream(["", ""], on_error="keep"))


@pytest.mark.parametrize("inputs", ["one text", ("a pair", "of texts"), {"text": ["a"]}, 3])
def test_a_single_input_is_refused_at_once(explainer, inputs):
    with pytest.raises(InputError, match="expected an iterable of inputs"):
        explainer.stream(inputs)


@pytest.mark.parametrize("settings", [{"chunk_size": 0}, {"chunk_size": 2.5}, {"targets": [0]}, {"batch_size": 3}])
def test_settings_that_it_does_not_take_are_refused_at_once(explainer, settings):
    with pytest.raises(InputError):
        explainer.stream(TEXTS, **settings)


@pytest.mark.parametrize("items", [[3, 7, 2], [{"role": "user", "content": "the cat"}]])
def test_items_that_are_parts_of_one_input_are_refused(explainer, items):
    with pytest.raises(InputError):
        next(explainer.stream(items))
