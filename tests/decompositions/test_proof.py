"""The proof of Value Zeroing: a layer called again by itself."""

import torch

from normxlogit.decompositions.value_zeroing import layer_gives_the_same_again


def test_a_layer_called_again_gives_the_same_but_for_rounding():
    states = torch.tensor([[3.0, 4.0]])
    assert layer_gives_the_same_again(states, states + 1e-5)
    assert not layer_gives_the_same_again(states, states + 1e-3)
