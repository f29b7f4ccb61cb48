"""Which token stands where there is no text."""

import pytest

from normxlogit.models.padding import filler_id, padding_id
from tests import plain, tiny
from tests.architectures.base import build


@pytest.mark.parametrize(
    ("own", "tokenizers", "expected"),
    [(0, 1, (0, True)), (5, 1, (5, True)), (None, 1, (1, False)), (-1, 1, (1, False)), (999, 1, (1, False)),
     (None, 999, (3, False)), (None, None, (3, False))],
)  # fmt: skip
def test_the_models_own_or_any_that_it_can_look_up(own, tokenizers, expected):
    model, tokenizer = tiny.model("llama"), tiny.tokenizer()
    model.config.pad_token_id = own
    tokenizer = _With(tokenizers, tokenizer.eos_token_id)
    assert padding_id(model, model.config, tokenizer) == expected


class _With:
    def __init__(self, pad, eos):
        self.pad_token_id, self.eos_token_id = pad, eos


def test_plain_modules_are_padded_as_the_tokenizer_says():
    model = plain.Transformer()
    assert padding_id(model, tiny.model("bert").config, _With(7, 3)) == (7, True)
    assert padding_id(model, tiny.model("bert").config, _With(None, 3)) == (0, True)


@pytest.mark.parametrize(("eos", "pad", "filler"), [(3, 0, 3), (3, 3, 0), (None, 0, 1), ([4, 5], 0, 4), ([0], 0, 1)])
def test_the_token_of_one_token_sequences_is_no_padding(eos, pad, filler):
    config = tiny.model("llama").config
    config.eos_token_id = eos
    assert filler_id(config, pad) == filler


def test_a_model_without_a_table_takes_any_id():
    model = build("sequence-classification", "canine")
    model.config.pad_token_id = 60_000
    assert padding_id(model, model.config, _With(1, 3)) == (60_000, True)


def test_the_first_id_is_chosen_that_there_is():
    model = tiny.model("llama")
    for own, pads, eos, found in [(0, 1, 3, 0), (tiny.SIZE - 1, 1, 3, tiny.SIZE - 1), (tiny.SIZE, 1, 3, 1),
                                  (None, tiny.SIZE, 3, 3), (-1, -1, -1, 0), (None, None, None, 0)]:  # fmt: skip
        model.config.pad_token_id = own
        assert padding_id(model, model.config, _With(pads, eos)) == (found, found == own)
