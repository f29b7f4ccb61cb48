"""The one way into a forward pass: what is recorded, replaced, called instead, and that nothing is left behind."""

import pytest
import torch
from torch import nn

from normxlogit.copies.clone import clone
from normxlogit.copies.run import Site, run

X = torch.ones(1, 2)


class Twice(nn.Module):
    """Calls one layer twice, by a keyword."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, x):
        return self.head(self.layer(input=self.layer(input=x)))


def model(change=lambda made: None):
    torch.manual_seed(0)
    made = Twice().eval()
    change(made)
    return clone(made)


def state_of(copy):
    return [{name: str(value) for name, value in module.__dict__.items()} for module in copy.modules()]


def test_outputs_and_inputs_of_any_call_are_recorded():
    copy = model()
    first, second = Site("layer"), Site("layer", call=2)
    given, every, never = Site("layer", call=2, is_input=True), Site("layer", call=0), Site("layer", call=3)
    done = run(copy, {"x": X}, record=[first, second, given, every, never, Site("")])
    assert done.recorded[given] is done.recorded[first]
    assert done.recorded[every] == [done.recorded[first], done.recorded[second]]
    assert never not in done.recorded
    assert done.recorded[Site("")] is done.output
    torch.testing.assert_close(done.output, copy.head(copy.layer(copy.layer(X))))


def test_a_pass_ends_where_it_is_stopped():
    copy = model()
    for stop, keys in [
        (Site("layer"), {Site("layer")}),
        (Site("layer", 2, is_input=True), {Site("layer", 2, is_input=True)}),
    ]:
        done = run(copy, {"x": X}, record=[Site("head")], stop=stop)
        assert done.output is None
        assert done.recorded.keys() == keys


def test_an_output_is_replaced_and_recorded_as_replaced():
    copy, seen = model(), []

    def replace(output, args, kwargs):
        seen.append((args, kwargs))
        return output * 0 if len(seen) == 2 else None

    done = run(copy, {"x": X}, replace={"layer": replace}, record=[Site("layer", 0)])
    assert len(seen) == 2
    assert done.recorded[Site("layer", 0)][0].any()
    assert not done.recorded[Site("layer", 0)][1].any()
    torch.testing.assert_close(done.output, copy.head.bias[None])


def test_what_is_called_instead_may_call_the_module_with_its_owners_hooks_or_not_at_all():
    """The output of a module that must not run cannot be replaced; something else has to be called."""
    calls = []

    def hooked(made):
        made.layer.register_forward_hook(lambda _, __, output: calls.append(1) or output + 1)
        made.layer.register_forward_pre_hook(lambda _, args: None)

    copy = model(hooked)
    plain = run(copy, {"x": X}).output
    same = run(copy, {"x": X}, instead={"layer": lambda own, *args, **kwargs: own(*args, **kwargs)}).output
    torch.testing.assert_close(same, plain)
    assert len(calls) == 4
    given = run(copy, {"x": X}, instead={"layer": lambda own, *args, **kwargs: X * 0}, record=[Site("head")])
    torch.testing.assert_close(given.output, copy.head.bias[None])
    assert len(calls) == 4


@pytest.mark.parametrize("fails", [True, False])
def test_nothing_is_left_on_the_copy_also_after_an_error(fails):
    copy = model()
    before = state_of(copy)

    def replace(output, *_):
        torch.set_grad_enabled(False)
        if fails:
            raise ValueError("mine")

    def work():
        run(
            copy,
            {"x": X},
            record=[Site("layer", is_input=True), Site("head")],
            replace={"layer": replace},
            instead={"head": lambda own, x: own(x)},
        )

    if fails:
        with pytest.raises(ValueError, match="mine"):
            work()
    else:
        work()
    assert state_of(copy) == before
    assert torch.is_grad_enabled(), "as it was before the pass"
