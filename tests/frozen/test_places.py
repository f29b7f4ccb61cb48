"""Which layers are read, and what each token contributes there, compared with plain loops."""

import itertools

import pytest
import torch

from normxlogit import MethodError
from normxlogit.frozen.model_places import layers_read
from normxlogit.frozen.places import MEDIA, SOURCE, WORDS, Place, Side, lowest_of_sides
from normxlogit.frozen.readouts import Readout
from normxlogit.frozen.sinks import detached_sinks, hold_sinks, only_token

STATES = torch.arange(24.0).reshape(2, 3, 4) - 7  # (B, T, H)
GRADIENTS = (torch.arange(24.0).reshape(2, 3, 4) * 5 % 7) - 3


@pytest.mark.parametrize(
    ("read_at", "count", "first", "expected"),
    [
        ("first-half", 6, 0, (0, 1, 2, 3)),
        ("first-half", 7, 0, (0, 1, 2, 3)),
        ("first-half", 6, 1, (1, 2, 3)),
        ("first-half", 3, 0, (0, 1)),
        ("first-half", 2, 0, (0, 1)),
        ("first-half", 2, 1, (1,)),
        ("first-half", 1, 0, (0,)),
        ("first-half", 1, 1, (0,)),
        ("all", 4, 0, (0, 1, 2, 3)),
        ("all", 4, 1, (1, 2, 3)),
        ("all", 1, 1, (0,)),
        ("middle", 4, 0, (2,)),
        ("middle", 5, 1, (2,)),
        ("middle", 1, 0, (0,)),
        (0, 4, 1, (0,)),
        (4, 4, 0, (4,)),
        (-1, 4, 0, (3,)),
        (-4, 4, 0, (0,)),
    ],
)
def test_the_layers_that_are_read(read_at, count, first, expected):
    assert layers_read(read_at, count, first) == expected


@pytest.mark.parametrize("read_at", [5, -5, 99])
def test_a_layer_that_is_not_there_is_refused(read_at):
    with pytest.raises(MethodError, match=f"read_at={read_at}: there are layers 1 to 4"):
        layers_read(read_at, 4)


def test_the_lowest_place_of_each_side_in_the_order_in_which_they_are_read():
    layers = {side: [Place(side, layer) for layer in (2, 0, 5)] for side in (Side.TEXT, Side.SOURCE)}
    assert lowest_of_sides([*layers[Side.TEXT], *layers[Side.SOURCE]]) == [Place(Side.SOURCE, 0), Place(Side.TEXT, 0)]
    assert lowest_of_sides([Place(Side.TEXT, 3), WORDS, MEDIA, SOURCE]) == [MEDIA, SOURCE, WORDS]
    assert lowest_of_sides([]) == []


def read(axes=(0, 1, 2), stacked=False, **options):
    """Return contributions of the states and gradients, held in an order of axes."""
    readout = Readout(axes, **options)
    inverse = [axes.index(axis) for axis in range(3)]
    readout.read(STATES.permute(inverse))
    gradient = GRADIENTS.permute(inverse)
    return readout.contributions([torch.stack((gradient, 2 * gradient)) if stacked else gradient])


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("length", [None, 2, 3])
def test_a_token_contributes_its_states_times_their_gradients(axes, length):
    expected = [
        [sum(float(STATES[b, t, h] * GRADIENTS[b, t, h]) for h in range(4)) for t in range(length or 3)]
        for b in range(2)
    ]
    assert read(axes, length=length).tolist() == expected
    assert read(axes, stacked=True, length=length).tolist() == [expected, (2 * torch.tensor(expected)).tolist()]


def test_positions_of_two_axes_and_streams_are_read_as_tokens():
    states, gradients = (torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(i)) for i in (0, 1))
    patches, streams = Readout((0, 1, 2, 3), positions=2), Readout((0, 1, 2, 3))
    patches.read(states)
    streams.read(states)
    torch.testing.assert_close(patches.contributions([gradients]), (states * gradients).sum(-1).flatten(1))
    torch.testing.assert_close(streams.contributions([gradients]), (states * gradients).sum((-2, -1)))
    assert patches.tokens.shape == (2, 12, 5)


def test_tables_of_one_place_add_up_and_what_gets_no_gradient_adds_nothing():
    readout = Readout()
    readout.read(STATES)
    readout.read(STATES, 3 * STATES)
    once = (STATES * GRADIENTS).sum(-1)
    torch.testing.assert_close(readout.contributions([GRADIENTS, GRADIENTS]), 4 * once)
    torch.testing.assert_close(readout.contributions([None, GRADIENTS]), 3 * once)
    torch.testing.assert_close(readout.contributions([None, None]), torch.zeros(2, 3))
    half = Readout()
    half.read(STATES.half() / 3)
    assert half.contributions([GRADIENTS.half()]).dtype == half.contributions([None]).dtype == torch.float32


@pytest.mark.parametrize("enters", [True, False])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_state_that_is_read_goes_on_as_it_was_and_can_be_written_on(enters, requires_grad):
    leaf = torch.ones(1, 2, 3, requires_grad=requires_grad)
    state, readout = leaf * 2, Readout()
    flowing = readout.read(state, enters=enters)
    assert torch.equal(flowing, state)
    flowing.mul_(3.0)
    assert torch.equal(state, torch.full((1, 2, 3), 2.0))
    assert torch.equal(readout.vectors[0], state)
    assert not readout.vectors[0].requires_grad
    edges = [readout.edges[0], *([torch.autograd.graph.get_gradient_edge(leaf)] if requires_grad else [])]
    gradients = torch.autograd.grad(flowing.sum(), edges, allow_unused=True)
    assert torch.equal(gradients[0], torch.full((1, 2, 3), 3.0))
    if requires_grad:
        assert (gradients[1] is None) == enters


def test_the_only_token_that_contributes():
    values = torch.tensor([[0.0, -2.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    assert only_token(values).tolist() == [[False, True, False], [False] * 3, [False] * 3]


def test_a_sink_is_held_unless_the_answer_passes_it_alone():
    sinks, exempt = torch.tensor([[True, True, False]]), torch.tensor([[True, False, False]])
    readout = Readout(is_sink=sinks)
    assert readout.held_sinks(Side.TEXT, None) is sinks
    assert readout.held_sinks(Side.SOURCE, exempt) is sinks
    assert readout.held_sinks(Side.TEXT, exempt[:, :2]) is sinks
    assert readout.held_sinks(Side.TEXT, exempt).tolist() == [[False, True, False]]
    assert Readout().held_sinks(Side.TEXT, exempt) is None


def readouts_of(norms_by_place):
    readouts = {}
    for place, norms in norms_by_place.items():
        readouts[place] = Readout()
        readouts[place].read(torch.tensor(norms)[..., None] * torch.tensor([0.6, -0.8]))  # (B, T, 2)
    return readouts


def test_a_sink_is_larger_than_a_multiple_of_the_median_of_its_text():
    mask = torch.tensor([[True, True, True, True], [True, True, True, False]])
    norms = [[1.0, 1.0, 3.1, 2.9], [5.0, 1.0, 1.0, 99.0]]
    layers = {Place(Side.TEXT, layer): norms for layer in (0, 1)} | {Place(Side.TEXT, 2): [[1.0, 1.1, 1.2, 1.0]] * 2}
    readouts = readouts_of(layers | {WORDS: norms, Place(Side.SOURCE, 1): [[9.0, 1.0]]})
    source_mask = torch.ones(1, 2, dtype=torch.bool)
    hold_sinks(readouts, {Side.TEXT: mask, Side.SOURCE: source_mask}, 3.0)
    expected = [[False, False, True, False], [True, False, False, False]]
    found = {
        place: None if readout.is_sink is None else readout.is_sink.tolist() for place, readout in readouts.items()
    }
    assert found == {
        WORDS: None,
        Place(Side.TEXT, 0): None,
        Place(Side.TEXT, 1): expected,
        Place(Side.TEXT, 2): None,
        Place(Side.SOURCE, 1): [[True, False]],
    }


def test_what_has_no_state_for_each_token_has_no_sinks():
    mask, place = torch.ones(1, 4, dtype=torch.bool), Place(Side.TEXT, 1)
    states = torch.tensor([9.0, 1.0, 1.0, 1.0])[None, :, None]
    readout, patches = Readout(), Readout((0, 1, 2, 3), positions=2)
    readout.read(states[:, :3])
    patches.read(states.reshape(1, 2, 2, 1))
    for each in (readout, patches):
        hold_sinks({place: each}, {Side.TEXT: mask}, 2.0)
        assert each.is_sink is None


def passed_through(sinks_by_layer, read_tokens):
    """Pass the gradients of two layers' sums at some tokens through their sinks; return those at the input, (T,)."""
    leaf = torch.ones(1, 3, 1, requires_grad=True)
    readouts, state = {}, leaf
    for layer, sinks in enumerate(sinks_by_layer, 1):
        readout = Readout(is_sink=None if sinks is None else torch.tensor([sinks]))
        state = readout.read(state * 2)
        readouts[Place(Side.TEXT, layer)] = readout
    answer = state[:, read_tokens].sum()
    with detached_sinks(readouts):
        return torch.autograd.grad(answer, leaf)[0].flatten().tolist()


def test_no_gradient_passes_a_sink_but_one_through_which_all_of_the_answer_passes():
    first = [True, False, False]
    assert passed_through([None, None], [0, 1, 2]) == [4, 4, 4]
    assert passed_through([first, None], [0, 1, 2]) == [0, 4, 4]
    assert passed_through([None, first], [0, 1, 2]) == [0, 4, 4]
    assert passed_through([first, first], [0, 1]) == [0, 4, 0]
    assert passed_through([first, first], [0]) == [4, 0, 0]
    assert passed_through([first, None], [0]) == [4, 0, 0]
    assert passed_through([[True, True, False], first], [1]) == [0, 4, 0]
