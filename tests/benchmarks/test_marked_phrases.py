"""Phrases that hold a word which stands in no source."""

from benchmarks.marked_phrases import in_phrases


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
