"""One text as tokens, and some of them cut out."""

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


def test_a_token_on_two_words_belongs_to_the_first():
    spans = [(0, 5), (5, 8)]
    assert word_indices([0, 0], spans, [0, 0], ("ab cd ef", "")) == (0, 2)
