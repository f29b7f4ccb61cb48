"""Words that the caller has split are read as their tokenizer reads them, and are the words of the result."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from normxlogit import ALL, InputError, TargetError
from tests import tiny
from tests.contract.compare import refused, same, total

WORDS = ["the", "U.S.", "movie-plot", "is", "greatly", "new york"]
OTHERS = ["a", "don't", "cat"]
LABELS = [f"LABEL_{index}" for index in range(3)]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def tagger(request):
    return tiny.explainer(request.param, "TokenClassification", num_labels=3)


def texts_of(result):
    return [word.text for word in result.words()]


def test_tokens_are_those_of_the_callers_tokenizer_and_words_those_of_the_caller(tagger):
    result = tagger(WORDS, is_split_into_words=True)
    own = tagger.tokenizer(WORDS, is_split_into_words=True)
    assert list(result.token_ids) == own["input_ids"]
    np.testing.assert_allclose(result.scores, tagger(dict(own))[0].scores, atol=1e-6)
    assert result.text == " ".join(WORDS)
    assert texts_of(result) == WORDS
    for word in result.words():
        assert result.text[word.start : word.end] == word.text
        assert [own.word_ids()[token] for token in word.tokens] == [WORDS.index(word.text)] * len(word.tokens)
        assert word.score == pytest.approx(result.scores[list(word.tokens)].sum(), abs=1e-6)
    assert [unit for unit in result.group("word").units.text if unit] == WORDS
    own = tagger.tokenizer(WORDS, is_split_into_words=True, return_offsets_mapping=True)
    for (start, end), within, word in zip(result.offsets, own["offset_mapping"], own.word_ids(), strict=True):
        assert result.text[start:end] == ("" if word is None else WORDS[word][slice(*within)])


ONE_TEXT = [WORDS, tuple(WORDS), np.array(WORDS), pd.Series(WORDS), pa.array(WORDS), iter(WORDS), {"tokens": WORDS}]
ONE_TEXT += [{"id": 3, "words": WORDS, "tags": [0] * 6}, pd.DataFrame({"word": WORDS})]
SEVERAL = [[WORDS, OTHERS], np.array([WORDS, OTHERS], object), pd.Series([WORDS, OTHERS]), pa.array([WORDS, OTHERS])]
SEVERAL += [pd.Series([np.array(WORDS), np.array(OTHERS)]), [{"tokens": WORDS}, {"tokens": OTHERS}]]
SEVERAL += [pd.DataFrame({"id": [1, 2], "words": [WORDS, OTHERS]}), pa.table({"tokens": [WORDS, OTHERS], "id": [1, 2]})]


@pytest.mark.parametrize("given", ONE_TEXT, ids=lambda given: type(given).__name__)
def test_a_list_of_strings_is_one_text(explainer, given):
    assert texts_of(explainer(given, is_split_into_words=True)) == WORDS


@pytest.mark.parametrize("given", SEVERAL, ids=lambda given: type(given).__name__)
def test_a_list_of_lists_is_a_batch(explainer, given):
    assert list(map(texts_of, explainer(given, is_split_into_words=True))) == [WORDS, OTHERS]


def test_a_data_set_for_tagging_needs_no_option(tagger):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"id": ["0", "1"], "tokens": [WORDS, OTHERS], "ner_tags": [[0] * 6, [1] * 3]})
    expected = tagger([WORDS, OTHERS], is_split_into_words=True)
    for given in (table, table.to_pandas(), list(table), {"tokens": [WORDS, OTHERS]}):
        results = tagger(given)
        assert list(map(texts_of, results)) == [WORDS, OTHERS]
        same(results, expected)
    assert texts_of(tagger(table[0])) == WORDS
    whole = ["the cat sat", "bad"]
    assert [result.text for result in tagger(pd.DataFrame({"tokens": whole}))] == whole


def test_a_tuple_of_two_lists_is_a_pair(explainer):
    result = explainer((OTHERS, WORDS), is_split_into_words=True)
    assert list(result.token_ids) == explainer.tokenizer(OTHERS, WORDS, is_split_into_words=True)["input_ids"]
    assert [word.text for word in result.words(sequence=1)] == WORDS
    assert (result.text, result.text_pair) == (" ".join(OTHERS), " ".join(WORDS))


@pytest.mark.parametrize("given", ["the cat", [], [["a"], None], [["a", 3]], [[]], {"text": "a cat"}, ["", " "]])
def test_what_is_not_split_is_refused_and_what_may_be_is_not_guessed(explainer, given):
    message = "a pair is a tuple, and is_split_into_words=True reads lists of words"
    refused(InputError, message, partial(explainer, [WORDS, OTHERS]), partial(explainer, [["a cat", "the movie"]]))
    message = r"is_split_into_words=True reads the words|is empty"
    refused(InputError, message, lambda: explainer(given, is_split_into_words=True))


def test_whole_words_are_removed(explainer):
    result = explainer(WORDS, is_split_into_words=True, verify=len(WORDS))
    removed = {removal.units[0]: removal.tokens for removal in result.verified.single}
    assert removed == {word.text: word.tokens for word in result.words()}
    ids = [i for token, i in enumerate(result.token_ids) if token not in removed["U.S."]]
    (value,) = (removal.value for removal in result.verified.single if removal.units == ("U.S.",))
    assert value == pytest.approx(tiny.logits_of(explainer.model, ids).softmax(-1)[result.target.id].item(), abs=1e-5)


def test_long_texts_keep_the_words(tagger):
    words = WORDS * 6
    cut = tagger(words, is_split_into_words=True, long_text="truncate")
    assert texts_of(cut) == words[: len(cut.words())]
    whole = tagger(words, is_split_into_words=True, long_text="window")
    assert texts_of(whole) == words
    (encoding,) = tagger.encode(words, is_split_into_words=True, max_length=20)
    assert pickle.loads(pickle.dumps(encoding)) == encoding
    assert texts_of(tagger(encoding)) == words[: len(tagger(encoding).words())]


def test_every_words_label_is_a_target_of_one_result(tagger):
    every = tagger(WORDS, is_split_into_words=True, position=ALL)
    assert len(every) == len(WORDS)
    logits = tiny.logits_of(tagger.model, every.token_ids)
    for k, word in enumerate(WORDS):
        one = tagger(WORDS, is_split_into_words=True, position=word)
        assert one.target.position == one.words()[k].position
        label = LABELS[int(logits[one.target.position].argmax())]
        assert (every.targets[k].name, every.targets[k].position) == (f"{word}: {label}", one.target.position)
        assert every[k].prediction.label == label == one.prediction.label
        np.testing.assert_allclose(every.scores[k], one.scores, atol=1e-6)
        assert total(every[k]) == pytest.approx(float(logits[one.target.position].max()), abs=1e-4)


def test_of_token_ids_every_token_of_the_text_is_a_target(tagger):
    """They have no characters, and so no words."""
    ids = tagger.tokenizer(" ".join(WORDS), return_tensors="pt")["input_ids"]
    (every,) = tagger(ids, position=ALL)
    places = [place for place, special in enumerate(every.special_tokens_mask) if not special]
    assert [target.position for target in every.targets] == places
    logits = tiny.logits_of(tagger.model, every.token_ids)
    assert [target.id for target in every.targets] == logits[places].argmax(-1).tolist()


def test_several_positions_have_no_verification(tagger):
    every = tagger(WORDS, is_split_into_words=True, position=ALL, verify=2)
    assert every.verified is None
    assert any(note.startswith("not verified") for note in every.notes)


def test_every_mask_is_a_target(explainer):
    masked = tiny.explainer("bert", "MaskedLM")
    every = masked("the [MASK] is [MASK]", position=ALL)
    assert [target.position for target in every.targets] == [2, 4]
    np.testing.assert_allclose(every[1].scores, masked("the [MASK] is [MASK]", position=4).scores, atol=1e-6)
    refused(InputError, "the text holds none", lambda: masked("the cat", position=ALL))
    refused(InputError, "position= chooses a token of token classifiers", lambda: explainer("the cat", position=ALL))


def test_one_target_is_explained_at_each_place(tagger):
    several = tagger(["the cat", "bad"], position=ALL, targets=["LABEL_1", "LABEL_2"])
    assert [[target.id for target in result.targets] for result in several] == [[1, 1], [2]]
    refused(TargetError, "one target at each position", lambda: tagger("the cat", position=ALL, target=ALL))


@pytest.mark.parametrize(("family", "stays"), [("gpt2", True), ("bert", False)])
def test_the_token_whose_label_is_explained_stays_unless_it_is_masked(family, stays):
    """A model without a mask token loses tokens, and the answer is read at that one."""
    own = tiny.explainer(family, "TokenClassification", num_labels=3)
    a = own("the movie is not good", position=2, method="occlusion")
    assert a.target.position == 2
    assert (a.scores[2] == 0) == stays
    assert a.scores[1] != 0
