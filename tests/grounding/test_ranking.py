"""What orders an answer's sentences."""

from normxlogit.grounding.phrases import in_phrases
from normxlogit.grounding.ranking import content_words, most_doubtful_first, share_there, shared_words

SOURCES = ["Ada built the pool. It opened in 1994.", "The pool was opened again in May 2016 by Grace."]


def test_long_words_and_numbers_count_in_any_of_their_forms():
    assert content_words("It opens in 1994, THE pools") == {"opens", "1994", "pools"}
    assert share_there(content_words("Opened in 1994."), SOURCES[0]) == 1.0


def test_characters_of_scripts_without_spaces_and_case_count():
    assert share_there(content_words("游泳池 1994"), "游泳池") == 0.75


def test_without_a_long_word_all_words_count():
    assert shared_words("FBR", ["It was the FBR Open."]).share == 1.0
    assert shared_words("no", ["It was the FBR Open."]).share == 0.0


def test_of_the_sources_the_sentence_with_most_of_the_words_is_named():
    shared = shared_words("Grace opened the pool in 2016.", SOURCES)
    assert (shared.source, shared.share) == (1, 1.0)
    assert SOURCES[1][shared.start : shared.end] == SOURCES[1]


def test_words_from_several_sentences_are_not_in_one():
    assert shared_words("Grace built it in 1994.", SOURCES).share < 1


def test_no_words_and_no_sources_share_nothing():
    assert shared_words("...", SOURCES).share == 0
    assert shared_words("Grace built it.", []) == (-1, 0, 0, 0.0)


def test_the_lowest_support_comes_first_and_equal_ones_in_their_order():
    assert most_doubtful_first([0.5, 0.1, 0.5, -0.2]) == [3, 1, 0, 2]


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
