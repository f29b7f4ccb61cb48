"""Every rule is right where it applies, and every wrong one is noticed."""

import pytest
import torch
from torch.nn import functional as F

from normxlogit.frozen import products, rules
from tests.frozen.mutations import check_rule, mutations, noticed
from tests.frozen.operations import GATED, KERNEL, ONE_ARGUMENT, TWINS, TWO_FACTORS, X, flat, nodes_of
from tests.frozen.slopes import slope_of


@pytest.mark.filterwarnings("ignore::UserWarning")  # of sparse tensors and triangular_solve
def test_every_rule_has_a_function_or_a_twin_and_every_function_the_node_that_it_is_for():
    twins = {name for names in TWINS.values() for name in names.split()}
    assert set(rules.RULES) == {*ONE_ARGUMENT, *TWO_FACTORS, *twins}
    x = X.clone().requires_grad_()
    for name, function in ONE_ARGUMENT.items():
        assert name in nodes_of(function(x.clone()))
    for name, product in TWO_FACTORS.items():
        flowing = x.clone()
        assert name in nodes_of(product(flowing, flowing))


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in mutations()))
def test_what_contributes_to_an_operation_adds_up(name):
    check_rule(name)


@pytest.mark.parametrize(("name", "how"), mutations())
def test_a_wrong_rule_is_noticed(name, how):
    assert noticed(name, how)


CONVENTIONS = {
    "computed_from_the_other": lambda x, y: x * (y @ KERNEL),
    "transposed_kernel": lambda x, y: F.linear(flat(x) @ KERNEL, flat(y).mT @ flat(y) @ GATED),
    "activated": lambda x, y: (x @ KERNEL) * F.silu(y @ GATED),
    "stretched": lambda x, y: (x @ KERNEL) * (y @ GATED).mean(-1, keepdim=True),
    "left": lambda x, y: (y @ GATED) * (x @ KERNEL),
}
"""Products of what moves and what is held, by the criterion that decides."""


def _is_followed(name):
    function = CONVENTIONS[name]
    slope = slope_of(lambda x: function(x, x), X)
    wanted = torch.autograd.functional.jacobian(lambda x: function(x, X), X).reshape(slope.shape)
    return torch.allclose(slope, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_each_criterion_decides_which_factor_is_held(name, monkeypatch):
    assert _is_followed(name)
    others = tuple(criterion for criterion in products.CRITERIA if criterion.__name__ != name)
    if name == "left":
        monkeypatch.setattr(products, "CRITERIA", (*others, lambda *_: 1))
    else:
        monkeypatch.setattr(products, "CRITERIA", others)
    assert not _is_followed(name), "nothing depends on it"
