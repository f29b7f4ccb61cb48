import pytest
import torch

from normxlogit.parts.proofs import largest_difference, tolerance_for


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
