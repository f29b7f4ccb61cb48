"""What orders an answer's sentences."""

import pytest

from normxlogit.grounding.facts import ComparedText
from normxlogit.grounding.ranking import missing_names, share_in_one, share_of_words, support

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


def test_numbers_and_names_that_stand_nowhere_are_counted():
    assert missing_names("In 1994 the pool of Ada was built by Grace for 200 euros.", SOURCES[0]) == 2
    assert missing_names("It was never built again.", SOURCES[0]) == 0


def test_a_missing_number_or_name_makes_a_sentence_more_doubtful_and_a_passage_less():
    assert support(0.8, 1.0, 1) == support(0.8, 1.0, 3) < support(0.8, 0.0, 0) < support(0.8, 1.0, 0)
