"""What orders an answer's sentences."""

import pytest

from normxlogit.grounding.facts import ComparedText
from normxlogit.grounding.phrases import in_phrases
from normxlogit.grounding.ranking import share_in_one, share_of_words

SOURCES = [ComparedText("Ada built the pool. It opened in 1994.")]
SENTENCES = ["Ada built the pool.", "It opened in 1994.", "The pool was opened again in May 2016 by Grace."]


def in_one(sentence, sentences=SENTENCES):
    return share_in_one(sentence, map(ComparedText, sentences))


def test_words_and_numbers_count_in_any_of_their_forms():
    assert share_of_words("OPENED in 1994, the pools", SOURCES[0]) == 1.0
    assert share_of_words("Grace opened the pool.", SOURCES[0]) == 0.75


def test_characters_of_scripts_without_spaces_count():
    assert share_of_words("游泳池 1994", ComparedText("游泳池")) == 0.75
    assert share_of_words("游泳馆", ComparedText("游泳池")) == pytest.approx(2 / 3)


def test_a_word_counts_once():
    assert share_of_words("Grace, Grace and Ada and Ada", SOURCES[0]) == share_of_words("Grace and Ada", SOURCES[0])


def test_words_from_several_sentences_are_not_in_one():
    assert in_one("Grace opened the pool in 2016.") == 1.0
    assert in_one("Grace built it in 1994.") < 1


def test_no_words_and_no_sources_share_nothing():
    assert in_one("...") == 0
    assert in_one("Grace built it.", []) == 0


def test_a_phrase_has_the_short_words_before_what_is_missing():
    words = ["It", "was", "built", "in", "the", "century", ",", "by", "Ada"]
    missing = [word == "century" for word in words]
    assert [word for word, is_in in zip(words, in_phrases(words, missing), strict=True) if is_in] == [
        "in",
        "the",
        "century",
    ]


def test_missing_words_close_together_are_one_phrase_and_others_are_not():
    words = ["New", "South", "Wales", ",", "Australia", "has", "many", "pools", "and", "cafes"]
    missing = [word in ("New", "Australia", "cafes") for word in words]
    assert sum(in_phrases(words, missing)[:5]) == 2  # three words lie between
    missing[1] = True
    assert all(in_phrases(words, missing)[:5])
    assert not in_phrases(words, missing)[6]


def test_without_missing_words_there_is_no_phrase():
    assert not any(in_phrases(["It", "is"], [False, False]))
    assert in_phrases([], []) == []
