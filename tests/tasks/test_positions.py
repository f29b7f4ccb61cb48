"""The token whose prediction is explained: an index of any integer type, a piece of the text, characters."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from normxlogit import InputError
from normxlogit.inputs.encoder import Encoder
from normxlogit.tasks.positions import locate
from tests import tiny

TEXT = "the cat sat on a mat"


def encodings(*texts):
    return Encoder(tiny.tokenizer_for("bert"), tiny.model("bert").config, 40)(list(texts))


def located(position, *texts):
    return [e.position for e in locate(encodings(*texts or (TEXT,)), position)]


@pytest.mark.parametrize(
    "position", [3, -5, np.int64(3), np.int32(-5), np.array(3), torch.tensor(3), "sat", (8, 11), (np.int64(8), 9)]
)
def test_a_token_by_index_piece_or_characters(position):
    assert located(position) == [3]
    assert type(located(position)[0]) is int


@pytest.mark.parametrize(
    "positions", [[3, 1, None], [np.int64(3), "cat", None], np.array([3, 1, -1]), torch.tensor([3, 1, -1])]
)
def test_one_for_each_text(positions):
    last = None if isinstance(positions, list) else 4
    assert located(positions, TEXT, "cat sat", "sat on") == [3, 1, last] if last is None else [3, 1, 3]


def test_the_first_of_several_tokens_is_taken():
    assert located((4, 15)) == [2], "characters of cat, sat, on: the first of them"
    assert located("cat sat") == [2]
    assert located((6, 9)) == [2], "the end of cat and the beginning of sat"
    assert located("cats", "the cats sat") == [2], "cat, ##s: the first piece carries the label"
    assert located((7, 9)) == [3], "a space is no piece of a word"


def test_a_piece_that_stands_there_twice_or_never():
    with pytest.raises(InputError, match="'t' once; it stands there 4 times"):
        located("t")
    with pytest.raises(InputError, match="'dog' once; it stands there nowhere"):
        located("dog")
    with pytest.raises(InputError, match="'' once; it stands there nowhere"):
        located("")


def test_only_the_first_text_of_a_pair_is_searched():
    (pair,) = locate(encodings(("a mat", TEXT)), "mat")
    assert pair.position == 2


def test_a_tokenizer_without_offsets_has_no_characters():
    (encoding,) = encodings(TEXT)
    with pytest.raises(InputError, match="needs the original text and a tokenizer that reports offsets"):
        locate([replace(encoding, offsets=None)], "sat")
