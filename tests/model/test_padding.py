"""Which token stands where there is no text."""

import pytest

from normxlogit.model.input_limits import filler_id, padding_id
from tests import tiny


class _With:
    def __init__(self, pad, eos):
        self.pad_token_id, self.eos_token_id = pad, eos


@pytest.mark.parametrize(("eos", "pad", "filler"), [(3, 0, 3), (3, 3, 0), (None, 0, 1), ([4, 5], 0, 4), ([0], 0, 1)])
def test_the_token_of_one_token_sequences_is_no_padding(eos, pad, filler):
    config = tiny.model("llama").config
    config.eos_token_id = eos
    assert filler_id(config, pad) == filler


def test_the_first_id_is_chosen_that_there_is():
    model = tiny.model("llama")
    for own, pads, eos, found in [(0, 1, 3, 0), (tiny.SIZE - 1, 1, 3, tiny.SIZE - 1), (tiny.SIZE, 1, 3, 1),
                                  (None, tiny.SIZE, 3, 3), (-1, -1, -1, 0), (None, None, None, 0)]:  # fmt: skip
        model.config.pad_token_id = own
        assert padding_id(model, model.config, _With(pads, eos)) == (found, found == own)
