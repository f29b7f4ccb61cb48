import math

import pytest
import torch

from normxlogit.copies.arithmetic import finite_or_excluded, l2_norms, log_normaliser, mean_logit
from normxlogit.copies.memory import free_memory

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], True),
        ([1.0, -2.0], True),
        ([1.0, -INF], True),
        ([3e38, 3e38], True),  # whose sum is not finite
        ([-INF, -INF], False),
        ([1.0, INF], False),
        ([1.0, NAN], False),
        ([NAN], False),
        ([INF, -INF], False),
    ],
)
def test_outputs_may_be_excluded_but_not_all_of_them(values, expected):
    assert finite_or_excluded(torch.tensor(values)) is expected


def test_a_norm_is_computed_in_float32():
    vectors = torch.tensor([[3.0, -4.0], [300.0, 400.0]])
    assert l2_norms(vectors).tolist() == [5.0, 500.0]
    assert l2_norms(vectors.half()).dtype == l2_norms(vectors.double()).dtype == torch.float32
    assert l2_norms(vectors.half() * 100)[1].item() == 50000.0  # whose square is more than float16 holds


@pytest.mark.parametrize(
    ("logits", "mean"),
    [
        ([1.0, 2.0, 6.0], 3.0),
        ([1.0, -INF, 6.0], 3.5),
        ([1.0, -1e30, 6.0], 3.5),
        ([-9000.0, -1.0, 1.0], -3000.0),
        ([-2e4, -4e4], -3e4),
    ],
)
def test_the_mean_of_logits_is_without_those_that_are_excluded(logits, mean):
    assert mean_logit(torch.tensor([logits, logits])).tolist() == [[mean], [mean]]


def test_the_normaliser_has_the_value_and_the_gradient_of_a_logarithm_of_a_sum():
    logits = torch.tensor([[1.0, -2.0, 0.5], [3.0, -INF, 1.0]], requires_grad=True)
    expected = [[math.log(sum(math.exp(value) for value in row))] for row in logits.tolist()]
    for given in (logits, logits.detach()):
        torch.testing.assert_close(log_normaliser(given).detach(), torch.tensor(expected))
    log_normaliser(logits).sum().backward()
    torch.testing.assert_close(logits.grad, logits.detach().softmax(-1))


def test_the_free_memory_of_a_device_is_known_of_hosts_and_cuda(monkeypatch):
    assert free_memory(torch.device("cpu")) > 0
    assert free_memory(torch.device("meta")) is free_memory(torch.device("mps")) is None
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 120)
    assert free_memory(torch.device("cuda")) == 1180
