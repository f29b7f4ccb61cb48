"""Where layers' outputs pass by, against the hidden states that the model gives."""

import pytest
import torch

from normxlogit.models.task_model import TaskModel
from normxlogit.surgery.layer_outputs import LayerOutput, embedding_output, layer_outputs
from normxlogit.surgery.run import Site
from normxlogit.surgery.trace import Call, tensor_of
from tests import tiny


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "llama", "xlnet", "distilbert"])
def test_each_layer_is_returned_where_it_is_said_to_be(family):
    task = TaskModel(tiny.model(family), tiny.tokenizer_for(family))
    batch = task.batch(task.encoder(tiny.TEXTS[:1]), [0])
    run = task.run(batch, layers=True)
    places = [task.parts.embedding_output, *task.parts.outputs]
    assert len(places) == 4
    sites = [Site(place.path, place.call) for place in places]
    seen = task.copy.run(batch.inputs, record=sites).recorded
    for place, site, state in list(zip(places, sites, run.states, strict=True))[:-1]:  # a norm may follow the last
        torch.testing.assert_close(tensor_of(seen[site]).permute(place.axes), state)
    assert len({(place.path, place.call) for place in places}) == 4


def state(seed):
    return torch.rand(1, 3, 4, generator=torch.Generator().manual_seed(seed))


def test_layers_that_share_a_module_are_told_by_their_calls_and_a_norm_may_follow_the_last():
    states = (state(0), state(1), state(2), normed := state(4))
    trunk = Call("trunk", None, normed)
    shared = [Call("trunk.block", state(k), (state(k + 1), None)) for k in range(3)]
    words, norm = Call("trunk.words", None, states[0]), Call("trunk.norm", None, normed)
    found = layer_outputs([words, *shared, norm], trunk.path, states)
    assert [(one.path, one.call) for one in found] == [("trunk.block", 1), ("trunk.block", 2), ("trunk.block", 3)]
    listed = [Call(f"trunk.layers.{k}", None, state(k + 1).transpose(0, 1)) for k in range(3)]
    found = layer_outputs([*listed, norm], trunk.path, states)
    assert [(one.path, one.call, one.axes) for one in found] == [(f"trunk.layers.{k}", 1, (1, 0, 2)) for k in range(3)]
    assert layer_outputs(listed[:2], trunk.path, states) is None, "one is missing"
    assert layer_outputs([Call(f"other.{c.path}", None, c.returned) for c in listed], trunk.path, states) is None
    smaller = [*listed[:2], Call("trunk.layers.2", None, state(3)[:, :2])]
    assert layer_outputs(smaller, trunk.path, states) is None, "the last one is of another shape"


def test_a_trunk_of_one_layer_returns_what_the_head_reads():
    states, trunk = (state(0), state(1)), Call("trunk", None, state(1))
    (found,) = layer_outputs([Call("trunk.layers.0", state(0), state(1))], trunk.path, states)
    assert found == LayerOutput("trunk.layers.0", 1, (0, 1, 2))
    assert layer_outputs([Call("trunk.layers.0", state(0), state(2))], trunk.path, states) is None


def test_the_embedding_output_is_where_it_is_returned_first():
    calls = [Call("", None, state(0), 9), Call("words", None, state(1), 0), Call("embed", None, state(0), 3)]
    calls += [Call("embed.norm", None, state(0), 2), Call("embed.norm", None, state(0), 4)]
    assert embedding_output(calls, state(0)) == LayerOutput("embed.norm", 1, (0, 1, 2))
    assert embedding_output(calls, state(5)) is None
    assert embedding_output(calls[:1], state(0)) is None, "the model itself is none of its modules"
    assert embedding_output(calls, None) is None
