"""Copies of a structure: the same tensors, and nothing else in common."""

import torch
from torch import nn

from normxlogit.copies.clone import clone, override_forward
from tests import tiny


def test_tensors_are_shared_and_modules_tables_and_settings_are_not():
    model = tiny.model("bert").train()
    found = clone(model)
    assert all(a is b for a, b in zip(model.parameters(), found.parameters(), strict=True))
    assert not {id(m) for m in model.modules()} & {id(m) for m in found.modules()}
    assert not found.training
    assert model.training
    found.classifier.register_forward_hook(lambda *_: None)
    found.config.hidden_act = "relu"
    assert not model.classifier._forward_hooks
    assert model.config.hidden_act == "gelu"
    assert found.config is found.bert.config, "one configuration stays one"


def test_an_overridden_forward_reaches_the_own_one_in_every_copy():
    model = clone(nn.Linear(2, 2))
    override_forward(model, lambda own, *, x: own(x * 2))
    second = clone(model)
    second.weight, second.bias = nn.Parameter(torch.eye(2)), nn.Parameter(torch.zeros(2))
    torch.testing.assert_close(second(x=torch.ones(2)), torch.full((2,), 2.0))
    assert second.__dict__["forward"].__self__ is second


class Keeping(nn.Module):
    """Keeps what it sees in containers of its own, and finds its parts in them."""

    def __init__(self):
        super().__init__()
        self.part = nn.Linear(2, 2)
        self.parts, self.seen, self.by_name = [self.part], [], {"part": self.part, "more": ([self.part],)}
        self.part.register_forward_hook(self.keep)
        seen = self.seen
        self.part.register_forward_hook(lambda _, __, output: seen.append(output))
        self.read = {"first": self.first}

    def keep(self, _, __, output):
        self.kept = output

    def first(self):
        return self.parts[0]


def test_what_a_model_keeps_on_itself_is_kept_on_the_copy():
    model = Keeping().train()
    copied = clone(model)
    assert copied.parts[0] is copied.by_name["part"] is copied.by_name["more"][0][0] is copied.part
    assert copied.read["first"]() is copied.part
    assert model.parts[0] is model.part
    found = copied.part(torch.ones(1, 2))
    assert copied.kept is copied.seen[0] is found
    assert not hasattr(model, "kept")
    assert model.seen == []
