"""One text as tokens, and some of them cut out."""

import pytest

from normxlogit.inputs.encoding import Encoding, word_indices


def encoding(**changes):
    fields = {
        "inputs": {
            "input_ids": [2, 7, 8, 9, 3],
            "token_type_ids": [0, 0, 0, 1, 1],
            "position_ids": [2, 3, 4, 5, 6],
        },
        "tokens": ("[CLS]", "the", "cat", "sat", "[SEP]"),
        "offsets": ((0, 0), (0, 3), (4, 7), (0, 3), (0, 0)),
        "word_ids": (None, 0, 1, 0, None),
        "sequence_ids": (None, 0, 0, 1, None),
        "special": (True, False, False, False, True),
        "text": "the cat",
        "text_pair": "sat",
        "notes": ("a note",),
        "position": 3,
        "source": (5, 6, 7, 8, 9, 10),
    }
    return Encoding(**fields | changes)


def test_what_is_taken_stays_consistent():
    found = encoding().take([0, 2, 3])
    assert found == Encoding(
        {"input_ids": [2, 8, 9], "token_type_ids": [0, 0, 1], "position_ids": [2, 3, 4]},
        ("[CLS]", "cat", "sat"),
        ((0, 0), (4, 7), (0, 3)),
        (None, 1, 0),
        (None, 0, 1),
        (True, False, False),
        "the cat",
        "sat",
        ("a note",),
        2,
        (5, 6, 7, 8, 9, 10),
    )
    assert len(found) == 3
    assert encoding().ids == [2, 7, 8, 9, 3], "the original stays"


def test_a_position_that_is_cut_away_is_forgotten():
    assert encoding().take(range(3)).position is None
    assert encoding(position=None).take(range(3)).position is None
    assert encoding().take(range(4)).position == 3


def test_what_the_tokenizer_could_not_tell_stays_unknown():
    found = encoding(offsets=None, word_ids=None, source=None).take([1])
    assert (found.offsets, found.word_ids, found.source) == (None, None, None)


def test_a_token_that_is_not_there():
    with pytest.raises(IndexError):
        encoding().take([5])


def test_a_token_on_two_words_belongs_to_the_first():
    spans = [(0, 5), (5, 8)]
    assert word_indices([0, 0], spans, [0, 0], ("ab cd ef", "")) == (0, 2)
