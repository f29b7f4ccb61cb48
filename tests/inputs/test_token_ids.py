"""Inputs that the user has tokenised."""

import pytest
import torch

from normxlogit import InputError
from normxlogit.inputs.token_ids import read_token_ids
from tests import tiny

MASK = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]


def read(encoded, vocabulary=tiny.SIZE):
    return read_token_ids(encoded, tiny.tokenizer_for("bert"), vocabulary)


def test_a_mask_is_no_special_token_without_the_tokenizers_own_encodings_either():
    (found,) = read({"input_ids": [2, 5, 4, 3]})
    assert found.tokens[2] == "[MASK]"
    assert found.special == (True, False, False, True)
    assert found.sequence_ids == (None, 0, 0, None)


def test_a_hole_is_refused_by_the_explainer_and_by_from_outputs():
    explainer = tiny.explainer("bert")
    inputs = explainer.tokenizer(["the cat sat"], return_tensors="pt")
    inputs["attention_mask"][0, 2] = 0
    with torch.no_grad():
        outputs = explainer.model(**inputs, output_hidden_states=True)
    for call in (lambda: explainer(inputs), lambda: explainer.from_outputs(inputs, outputs)):
        with pytest.raises(InputError, match="has a hole at token 2"):
            call()
