"""The registry: what is there, how others add to it, and what it says when something is not there."""

from normxlogit import list_methods
from normxlogit.methods import registry


def test_alternatives_name_the_methods_that_need_nothing_special():
    said = registry.alternatives()
    assert said.startswith("normxlogit")
    assert said.endswith("work on any model with a head")
    universal = {m.name for m in list_methods() if m.needs == registry.ANY_MODEL}
    assert all(name in said for name in universal)
    assert "input-norm" not in said


def test_alternatives_can_be_asked_for_layers():
    assert registry.alternatives(per_layer=True) == "normxlogit or logat work on any model with a head"
