import pytest
from transformers import BatchEncoding

from normxlogit import InputError
from normxlogit.inputs.token_ids import read_token_ids
from tests import tiny


def read(encoded, vocabulary=tiny.SIZE):
    return read_token_ids(encoded, tiny.tokenizer_for("bert"), vocabulary)


def test_a_mask_is_no_special_token_without_the_tokenizers_own_encodings_either():
    (found,) = read({"input_ids": [2, 5, 4, 3]})
    assert found.tokens[2] == "[MASK]"
    assert found.special == (True, False, False, True)
    assert found.sequence_ids == (None, 0, 0, None)


def test_what_a_fast_tokenizer_says_of_ids_counts_while_it_belongs_to_them():
    encoded = tiny.tokenizer_for("bert")(["the cats sat [MASK]", "bad"], padding=True, return_tensors="pt")
    first, second = read(encoded)
    assert first.offsets == ((0, 0), (0, 3), (4, 7), (7, 8), (9, 12), (13, 19), (0, 0))
    split = read(tiny.tokenizer_for("bert")([["the", "cats"]], is_split_into_words=True))
    assert split[0].offsets is None  # which begin anew in each word
    assert (first.sequence_ids, second.sequence_ids) == ((None, 0, 0, 0, 0, 0, None), (None, 0, None))
    turned = BatchEncoding({name: value.flip(0) for name, value in encoded.items()}, encoded.encodings)
    assert [(e.ids, e.special) for e in read(turned)] == [(e.ids, e.special) for e in (second, first)]


def test_types_tell_the_texts_of_a_pair_apart():
    (found,) = read({"input_ids": [[2, 5, 3, 6, 3]], "token_type_ids": [[0, 0, 0, 1, 1]]})
    assert found.sequence_ids == (None, 0, None, 1, None)
    (single,) = read({"input_ids": [[2, 5, 3]], "token_type_ids": [[1, 1, 1]]})
    assert single.sequence_ids == (None, 0, None)


def test_a_hole_in_the_mask_is_refused():
    explainer = tiny.explainer("bert")
    inputs = explainer.tokenizer(["the cat sat"], return_tensors="pt")
    inputs["attention_mask"][0, 2] = 0
    with pytest.raises(InputError, match="has a hole"):
        explainer(inputs)
