"""The frozen form of a model with two sides: where it reads them, and what it refuses."""

import pytest

from normxlogit import MethodError, UnsupportedModelError
from normxlogit.frozen.frozen_model import FrozenModel
from normxlogit.frozen.places import SOURCE, WORDS, Side
from normxlogit.inputs.alignment import append_tokens
from normxlogit.model.task_model import TaskModel
from tests import tiny
from tests.tasks.test_seq2seq import begin, writer


def made(family="t5", source="the cat sat", ids=(7, 8)):
    """A model, its frozen form, and a source with what the decoder wrote."""
    model = TaskModel(writer(family), tiny.tokenizer(), task="seq2seq-lm")
    decoder = append_tokens(model.tokenizer, begin(model, source), list(ids))
    batch = model.batch([decoder], [0], encode_sources=False)
    return model, FrozenModel.of(model), batch


def test_the_layer_of_the_encoder_that_is_meant():
    _, frozen, batch = made()  # three layers

    def layers(read_at):
        *source, words = frozen.places.read(batch, read_at)
        assert words == WORDS
        assert all(place.side is Side.SOURCE for place in source)
        return [place.layer for place in source]

    assert [layers(read_at) for read_at in (0, "middle", 1, 3, -1, -3)] == [[0], [1], [1], [3], [2], [0]]
    assert layers("first-half") == [0, 1]
    assert layers("all") == [0, 1, 2]
    for place in (4, -4):
        with pytest.raises(MethodError, match=f"read_at={place}: there are layers 1 to 3"):
            frozen.places.read(batch, place)


def test_a_model_that_does_not_look_both_sides_up_is_refused():
    _, frozen, batch = made()
    with (
        pytest.raises(UnsupportedModelError, match="looks its token ids up 0 times"),
        frozen.places.reading(batch, (SOURCE, WORDS), {}),
    ):
        pass
