"""Copies of a structure: the same tensors, and nothing else in common."""

import functools

import pytest
import torch
from torch import nn

from normxlogit.surgery.clone import clone, override_forward, unwrapped
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


def test_what_was_compiled_is_plain_in_the_copy():
    class Inner(nn.Module):
        def forward(self, x):
            return x + 1

    model = nn.Sequential(Inner(), Inner(), torch.compile(Inner(), backend="eager"), nn.Linear(2, 2))
    model[0].compile(backend="eager")
    model[1].forward = torch.compile(model[1].forward, backend="eager")
    model[3].forward = torch.compile(model[3].forward, backend="eager")
    found = clone(model)
    assert [type(m) for m in found] == [Inner, Inner, Inner, nn.Linear]
    assert found[0]._compiled_call_impl is None
    assert model[0]._compiled_call_impl is not None
    assert found[1].forward.__self__ is found[1]
    assert found[3].forward.__self__ is found[3]
    torch.testing.assert_close(found(torch.zeros(1, 2)), model(torch.zeros(1, 2)))


def test_methods_kept_on_instances_are_bound_to_the_copy():
    model = nn.Linear(2, 2)
    model.forward = functools.partial(lambda module, x: module.bias + x, model)
    found = clone(model)
    found.bias = nn.Parameter(torch.ones(2))
    torch.testing.assert_close(found(torch.zeros(2)), torch.ones(2))


def test_an_overridden_forward_reaches_the_own_one_in_every_copy():
    model = clone(nn.Linear(2, 2))
    override_forward(model, lambda own, *, x: own(x * 2))
    second = clone(model)
    second.weight, second.bias = nn.Parameter(torch.eye(2)), nn.Parameter(torch.zeros(2))
    torch.testing.assert_close(second(x=torch.ones(2)), torch.full((2,), 2.0))
    assert second.__dict__["forward"].__self__ is second


def test_an_override_keeps_a_forward_that_the_owner_has_put_there():
    model = nn.Linear(2, 2)
    model.forward = type(model).forward.__get__(model)
    found = clone(model)
    override_forward(found, lambda own, *, x: own(x))
    assert found.__dict__["_forward_before"].__self__ is found


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's own
def test_unwrapping():
    model = tiny.model("bert")
    assert unwrapped(torch.compile(model, backend="eager")) is model
    plain = nn.Linear(2, 2)
    assert unwrapped(plain) is plain


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_a_copy_answers_as_the_model_does(family):
    model = tiny.model(family)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        torch.testing.assert_close(clone(model)(input_ids=ids).logits, model(input_ids=ids).logits, rtol=0, atol=0)


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
