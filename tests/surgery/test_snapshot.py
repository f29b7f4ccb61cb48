"""What counts as a change of a module tree, and what does not."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from normxlogit.surgery.snapshot import Snapshot
from tests import tiny


def tree():
    made = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    made[1].register_parameter("weight", None)
    made.scaling = {"a": 1.0}
    made.names = ["a"]
    made.table = np.zeros(3)
    return made


def replace_equal_scalar(model):
    model[2].bias = nn.Parameter(model[2].bias.detach().clone())


def replace_equal_matrix(model):
    model[0].weight = nn.Parameter(model[0].weight.detach().clone())


CHANGES = {
    "module": lambda m: m.__setitem__(0, nn.Linear(2, 2)),
    "module added": lambda m: m.append(nn.ReLU()),
    "module removed": lambda m: m.__delitem__(2),
    "weight": replace_equal_matrix,
    "weight of one element": replace_equal_scalar,
    "weight removed": lambda m: m[0].register_parameter("bias", None),
    "weight given": lambda m: m[1].register_parameter("weight", nn.Parameter(torch.ones(2))),
    "buffer": lambda m: m[1].register_buffer("running_mean", torch.zeros(2)),
    "attribute": lambda m: setattr(m[1], "eps", 0.1),
    "new attribute": lambda m: setattr(m[1], "other", None),
    "dictionary in place": lambda m: m.scaling.update(a=2.0),
    "list in place": lambda m: m.names.append("b"),
    "array": lambda m: setattr(m, "table", np.ones(3)),
    "hook": lambda m: m[0].register_forward_hook(lambda *_: None),
    "pre-hook": lambda m: m[0].register_forward_pre_hook(lambda *_: None),
    "forward": lambda m: setattr(m[0], "forward", lambda x: x),
    "class": lambda m: setattr(m[0], "__class__", type("Other", (nn.Linear,), {})),
    "parametrisation": lambda m: nn.utils.parametrizations.weight_norm(m[0]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name):
    model = tree()
    snapshot = Snapshot(model)
    assert snapshot.unchanged()
    CHANGES[name](model)
    assert not snapshot.unchanged()
    assert not snapshot.unchanged(), "it does not get used to it"


def in_place(model):
    with torch.no_grad():
        model[0].weight.mul_(2)


SAME = {
    "mode": lambda m: m.eval(),
    "values": in_place,
    "data": lambda m: setattr(m[0].weight, "data", torch.zeros(2, 2)),
    "gradients": lambda m: m(torch.ones(2, 2)).sum().backward(),
    "requires grad": lambda m: m.requires_grad_(False),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_no_change(name):
    model = tree().train()
    model[1].momentum = 0.0
    snapshot = Snapshot(model)
    SAME[name](model)
    assert snapshot.unchanged()


def test_settings_changed_in_place():
    model = tiny.model("bert")
    snapshot, without = Snapshot(model), Snapshot(model, configs=False)
    model.config.hidden_act = "relu"
    assert not snapshot.unchanged()
    assert without.unchanged()


def test_transformers_own_recorders_are_no_change_and_other_hooks_beside_them_are():
    model = tiny.model("bert")
    snapshot = Snapshot(model)
    with torch.no_grad():
        model(input_ids=torch.ones(1, 3, dtype=torch.long), output_hidden_states=True)
    assert any(module._forward_hooks for module in model.modules()), "else there is nothing to overlook"
    assert snapshot.unchanged()
    assert snapshot.unchanged()
    model.classifier.register_forward_hook(lambda *_: None)
    assert not snapshot.unchanged()


def test_weights_that_wait_elsewhere_may_be_put_back():
    model = nn.Linear(2, 2, device="meta")
    snapshot = Snapshot(model)
    model.weight = nn.Parameter(torch.empty(2, 2, device="meta"))
    assert snapshot.unchanged()
    model.weight = nn.Parameter(torch.empty(3, 2, device="meta"))
    assert not snapshot.unchanged()


def test_an_ordered_table_is_kept_as_it_was():
    model = nn.Module()
    model.table = OrderedDict(a=1)
    snapshot = Snapshot(model)
    model.table["a"] = 2
    assert not snapshot.unchanged()
