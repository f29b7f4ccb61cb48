from dataclasses import replace

import numpy as np
import pytest
import torch

from normxlogit import InputError
from normxlogit.inputs.encoder import Encoder
from normxlogit.tasks.tagging import AtTaggedToken, outside_labels
from tests import tiny

TEXT = "the cat sat on a mat"
PLACES = AtTaggedToken(list)


def encodings(*texts):
    return Encoder(tiny.tokenizer_for("bert"), tiny.model("bert").config, 40)(list(texts))


def located(position, *texts):
    return [e.position for e in PLACES.locate(encodings(*texts), position)]


@pytest.mark.parametrize(
    ("text", "position", "place"),
    [
        *((TEXT, given, 3) for given in (3, -5, np.int64(3), np.int32(-5), np.array(3), torch.tensor(3), "sat")),
        *((TEXT, given, 3) for given in ((8, 11), (np.int64(8), 9))),
        (TEXT, (4, 15), 2),  # characters of cat, sat, on: the first of them
        (TEXT, "cat sat", 2),
        (TEXT, (6, 9), 2),  # the end of cat and the beginning of sat
        ("the cats sat", "cats", 2),  # cat, ##s: the first piece carries the label
        (TEXT, (7, 9), 3),  # a space is no piece of a word
        (("a mat", TEXT), "mat", 2),  # the first text of a pair
    ],
)
def test_a_token_by_index_piece_or_characters_is_the_first_of_them(text, position, place):
    (found,) = located(position, text)
    assert (found, type(found)) == (place, int)


@pytest.mark.parametrize(
    "positions", [[3, 1, None], [np.int64(3), "cat", None], np.array([3, 1, -1]), torch.tensor([3, 1, -1])]
)
def test_one_for_each_text(positions):
    last = None if isinstance(positions, list) else 4
    assert located(positions, TEXT, "cat sat", "sat on") == [3, 1, last] if last is None else [3, 1, 3]


@pytest.mark.parametrize(("piece", "times"), [("t", "4 times"), ("dog", "0 times"), ("", "0 times")])
def test_a_piece_that_stands_there_twice_or_never(piece, times):
    with pytest.raises(InputError, match=f"'{piece}' once; it stands there {times}"):
        located(piece, TEXT)


def test_tokens_without_offsets_have_no_characters():
    (encoding,) = encodings(TEXT)
    with pytest.raises(InputError, match="needs the text and the character offsets of its tokens"):
        PLACES.locate([replace(encoding, offsets=None)], "sat")


@pytest.mark.parametrize(
    ("labels", "outside"),
    [
        (["O", "B-PER", "I-PER"], [0]),
        (["B-PER", "o", "I-PER"], [1]),
        (["B-PER", "NONE", "I-PER"], [1]),  # the only one that is of no entity
        (["B_PER", "E_PER", "S_PER", "other"], [3]),
        (["NOUN", "VERB", "O"], [2]),
        (["NOUN", "VERB"], []),  # every word has a tag
        (["B-PER", "I-PER"], []),
        (["NONE", "MISC", "B-PER"], []),  # which of the two is not known
    ],
)
def test_the_label_outside_entities_is_called_so_or_is_the_only_one_of_none(labels, outside):
    assert outside_labels(labels) == outside
