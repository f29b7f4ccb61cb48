"""Every rule is right where it applies, and every wrong one is noticed."""

import pytest

from normxlogit.frozen import rules
from tests.frozen.mutations import check_rule, mutations, noticed
from tests.frozen.operations import ONE_ARGUMENT, TWINS, TWO_FACTORS, X, nodes_of


@pytest.mark.filterwarnings("ignore::UserWarning")  # of sparse tensors and triangular_solve
def test_every_rule_has_a_function_or_a_twin_and_every_function_the_node_that_it_is_for():
    twins = {name for names in TWINS.values() for name in names.split()}
    assert {*rules.RULES, *rules.FACTORS} == {*ONE_ARGUMENT, *TWO_FACTORS, *twins}
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
