"""How far apart two answers may be, and what each comparison makes of it."""

import pytest
import torch

from normxlogit.parts.proofs import (
    EXCLUDED,
    largest_difference,
    later_tokens_change_nothing,
    padding_changes_nothing,
    prompts_are_continued_as_alone,
    tolerance_for,
)

LOGITS = torch.tensor([[1.0, 4.0, -torch.inf], [2.0, 0.0, 1.0]])


def test_tolerance_grows_with_the_logits_and_the_rounding():
    assert tolerance_for(torch.tensor([0.1])) == pytest.approx(1e-5)
    assert tolerance_for(torch.tensor([50.0, -1e30])) == pytest.approx(50e-5)
    assert tolerance_for(torch.tensor([1.0], dtype=torch.bfloat16)) == pytest.approx(8 * 2**-7)
    assert tolerance_for(torch.tensor([torch.nan, 2.0])) == pytest.approx(2e-5)


def test_the_largest_difference_counts_relative_to_values_that_are_excluded():
    assert largest_difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])) == 0.5
    assert largest_difference(torch.zeros(1), torch.zeros(2)) == float("inf")
    assert largest_difference(torch.tensor([-torch.inf, 1.0]), torch.tensor([-torch.inf, 1.0])) == 0.0
    assert largest_difference(torch.tensor([1e6, 1.0]), torch.tensor([2e6, 1.0])) == pytest.approx(0.5)
    assert not largest_difference(torch.tensor([torch.nan]), torch.tensor([1.0])) <= 1e9


@pytest.mark.parametrize(("change", "same"), [(0.0, True), (9e-4, True), (2e-3, False), (torch.nan, False)])
def test_states_are_the_same_beside_another_text_but_for_rounding(change, same):
    alone = torch.tensor([1.0, -10.0])
    assert padding_changes_nothing(alone, alone + change) is same
    alone = torch.tensor([1.0, -EXCLUDED, EXCLUDED * 2])  # what a head excludes says nothing
    assert padding_changes_nothing(alone, alone + torch.tensor([0.0, 5e30, -5e30]))
    assert not padding_changes_nothing(alone, alone + torch.tensor([0.1, 0.0, 0.0]))
    assert not padding_changes_nothing(alone[1:], -alone[1:]), "values that are all large are a regression model's"
    assert padding_changes_nothing(alone[1:], alone[1:] * (1 + 1e-6))


@pytest.mark.parametrize(
    ("change", "same"),
    [([[0, 3e-4, 0], [-3e-4, 0, 0]], True), ([[0, 0, 0], [0, 1e-2, 0]], False), ([[4, 0, 0], [0, 0, 0]], False)],
)
def test_prompts_are_continued_alike_where_two_steps_choose_alike_and_have_the_same_logits(change, same):
    alone = LOGITS.nan_to_num(neginf=0.0)
    assert prompts_are_continued_as_alone(alone, alone + torch.tensor(change)) is same
    assert prompts_are_continued_as_alone(alone, LOGITS), "what is forbidden on both sides does not count"


def test_the_beginning_of_a_text():
    states = torch.tensor([[3.0, 4.0]])
    assert later_tokens_change_nothing(states, states * (1 + 9e-5))
    assert not later_tokens_change_nothing(states, states * (1 + 2e-4))
    assert later_tokens_change_nothing(states.bfloat16(), (states * 1.04).bfloat16())
