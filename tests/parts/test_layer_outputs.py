"""Which calls return the outputs of layers, found in recorded calls that are made by hand."""

import torch

from normxlogit.copies.trace import Call
from normxlogit.parts.layer_outputs import (
    LayerOutput,
    calls_returning,
    chained_outputs,
    embedding_output,
    layer_outputs,
)

STATES = [torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(i)) for i in range(5)]  # (B, T, H)
BATCH_FIRST = (0, 1, 2)


def call(path, returned, end, main_input=None, number=1):
    return Call(path, main_input, returned, end, number)


def of_layers(last, *more):
    """Calls of three layers in a trunk, of which the last one returns `last`; further calls among them."""
    layers = [call(f"trunk.layer.{i}", state, 10 * i) for i, state in enumerate((STATES[1], STATES[2], last))]
    return sorted((*layers, *more), key=lambda each: each.end)


def found(calls, trunk="trunk", states=STATES[:4]):
    outputs = layer_outputs(calls, trunk, states)
    return None if outputs is None else [(output.path, output.call) for output in outputs]


LAYERS = [(f"trunk.layer.{i}", 1) for i in range(3)]


def test_each_layers_output_is_among_the_states_but_the_last_ones():
    assert found(of_layers(STATES[3])) == LAYERS
    assert found(of_layers(STATES[4])) == LAYERS, "a norm follows"
    assert found(of_layers(STATES[3]), trunk=None) == LAYERS
    assert found(of_layers(STATES[3]), trunk="other") is None
    assert found(of_layers(STATES[3])[:1]) is None
    assert layer_outputs(of_layers(STATES[3]), "trunk", STATES[:4])[0] == LayerOutput("trunk.layer.0", 1, BATCH_FIRST)


def test_modules_outside_the_trunk_are_no_layers():
    outside = [call(f"other.{i}", state, 10 * i + 1) for i, state in enumerate(STATES[1:4])]
    model = [call("", STATES[3], 99)]
    assert found([*outside, *of_layers(STATES[3])]) == LAYERS
    assert found([*outside, *model]) is None
    assert found([*outside, *model], trunk=None) == [(f"other.{i}", 1) for i in range(3)]
    assert found([call("trunk", STATES[1], 0), call("trunkless.0", STATES[1], 0)], states=STATES[:2]) is None


def test_the_last_layer_is_the_next_call_that_returns_as_many_states():
    earlier = call("trunk.layer.7", STATES[4], 5)  # before the layer whose output is known
    nothing = call("trunk.layer.8", None, 12)
    shorter = call("trunk.layer.9", STATES[4][:, :2], 13)
    calls = of_layers(STATES[4], nothing, shorter)
    assert found([earlier, *calls]) == LAYERS
    assert found([each for each in calls if each.path != "trunk.layer.2"]) is None


def test_one_module_may_be_called_for_every_layer():
    calls = [call("trunk.layer", state, i, number=i) for i, state in enumerate(STATES[1:4], 1)]
    assert found(calls) == [("trunk.layer", 1), ("trunk.layer", 2), ("trunk.layer", 3)]


def test_a_single_layer_returns_the_last_state():
    assert found([call("trunk.layer.0", STATES[1], 0)], states=STATES[:2]) == LAYERS[:1]
    assert found([call("trunk.layer.0", STATES[2], 0)], states=STATES[:2]) is None


def test_layers_that_return_several_states_are_not_read():
    pairs = [call(f"trunk.layer.{i}", (state, state + 1), i) for i, state in enumerate(STATES[1:4])]
    assert found(pairs) is None
    held = [(call(f"trunk.layer.{i}", (state, state[:, :1]), i)) for i, state in enumerate(STATES[1:4])]
    assert found(held) == LAYERS


def test_the_axes_of_a_layer_are_those_in_which_it_holds_the_state():
    turned = [call(f"trunk.layer.{i}", state.transpose(0, 1), i) for i, state in enumerate(STATES[1:4])]
    assert [output.axes for output in layer_outputs(turned, "trunk", STATES[:4])] == [(1, 0, 2)] * 3
    padded = [call(f"trunk.layer.{i}", torch.cat((state, state), 1), i) for i, state in enumerate(STATES[1:4])]
    assert [output.axes for output in layer_outputs(padded, "trunk", STATES[:4])] == [BATCH_FIRST] * 3


def test_several_streams_are_found_by_the_state_that_the_trunk_returns():
    """Streams first, then texts, tokens and width: the order that begins with texts and tokens."""
    streams = [torch.randn(5, 2, 3, 4, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    layers = [call(f"trunk.layer.{i}", state, i) for i, state in enumerate(streams[1:])]
    trunk = call("trunk", STATES[0], 9)
    outputs = layer_outputs([*layers, trunk], "trunk", streams)
    assert [output.axes for output in outputs] == [(1, 2, 0, 3)] * 3
    assert layer_outputs(layers, "trunk", streams) is None, "no state of three axes is known"
    square = [torch.randn(2, 2, 2, 4, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    layers = [call(f"trunk.layer.{i}", state, i) for i, state in enumerate(square[1:])]
    assert layer_outputs([*layers, call("trunk", torch.zeros(2, 2, 4), 9)], "trunk", square) is None, "any axis fits"


def test_calls_that_return_states_are_found_in_their_order():
    calls = [call("a", STATES[1], 0), call("b", STATES[0], 1), call("c", STATES[1], 2)]
    assert [each.path for each, _ in calls_returning(calls, [STATES[0], STATES[1]])] == ["b", "c"]
    assert calls_returning(calls, [STATES[1], STATES[0], STATES[0]]) is None
    assert calls_returning(calls, []) == []


def test_the_embeddings_are_returned_by_the_innermost_module():
    outer, inner = call("embeddings", STATES[0].clone(), 5), call("embeddings.norm", STATES[0], 4)
    model, others = call("", STATES[0], 3), [call("other", STATES[1], 1), call("none", None, 2)]
    calls = [model, outer, inner, *others]
    assert embedding_output(calls, STATES[0]) == LayerOutput("embeddings.norm", 1, BATCH_FIRST)
    assert embedding_output([outer, *others], STATES[0]).path == "embeddings"
    assert embedding_output([model, *others], STATES[0]) is None
    assert embedding_output(calls, None) is None


def test_embeddings_may_be_multiplied_by_a_number_afterwards():
    for scaled in (STATES[0] * 5.5, STATES[0] * -0.25):
        calls = [call("words", STATES[0], 0)]
        assert embedding_output(calls, scaled) == LayerOutput("words", 1, BATCH_FIRST)
        exact = call("later", scaled, 1)
        assert embedding_output([*calls, exact], scaled).path == "later"
    different = STATES[0] * torch.tensor([1.0, 1.0, 1.0, 1.01])
    for other in (different, STATES[0].double() * 2, STATES[0][:1] * 2, torch.zeros(2, 3, 4), STATES[0] + 1):
        assert embedding_output([call("words", STATES[0], 0)], other) is None
    assert embedding_output([call("ids", torch.ones(2, 3, 4, dtype=torch.long), 0)], STATES[0]) is None
    assert embedding_output([call("zeros", torch.zeros(2, 3, 4), 0)], STATES[0]) is None


def test_outputs_of_layers_that_were_found_by_structure():
    layers = [call(f"layers.{i}", state, i, number=i + 1) for i, state in enumerate(STATES[:3])]
    shape = torch.Size((2, 3))
    assert chained_outputs(layers, shape) == tuple(LayerOutput(f"layers.{i}", i + 1, BATCH_FIRST) for i in range(3))
    turned = [call(each.path, each.returned.transpose(0, 1), 0) for each in layers]
    assert [output.axes for output in chained_outputs(turned, shape)] == [(1, 0, 2)] * 3
    for broken in (None, STATES[0][:, :2], STATES[0][:1]):
        assert chained_outputs([*layers, call("layers.3", broken, 3)], shape) == ()
    square = [call("layers.0", torch.zeros(2, 2, 4), 0)]
    assert chained_outputs(square, torch.Size((2, 2)))[0].axes == BATCH_FIRST
