"""Attention with held weights: torch's own values, and torch's own gradient of the values that flow."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from normxlogit.frozen import attention
from normxlogit.frozen.attention import held_attention


def parts(rows=5, columns=5, kept=4):
    made = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(2, n, t, 6, generator=made) for n, t in ((4, rows), (kept, columns), (kept, columns))
    )
    return query, key, value.requires_grad_()


BOOLEAN = torch.tensor([[True, False, True, True, False]] * 4 + [[False] * 5])  # the last one attends to none
FLOATS = torch.linspace(-2, 2, 2 * 4 * 25).view(2, 4, 5, 5)


@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({}, {}),
        ({"scale": 0.3}, {"columns": 7}),
        ({"is_causal": True}, {}),
        ({"is_causal": True, "enable_gqa": True}, {"kept": 2}),
        ({"attn_mask": BOOLEAN}, {}),
        ({"attn_mask": BOOLEAN[None, None].expand(2, 1, 5, 5)}, {}),
        ({"attn_mask": FLOATS}, {}),
    ],
)
def test_the_gradient_of_the_values_is_torchs_own(settings, sizes, at_once, monkeypatch):
    monkeypatch.setattr(attention, "ELEMENTS", at_once)
    query, key, value = parts(**sizes)
    theirs = scaled_dot_product_attention(query, key, value, **settings)
    ours = held_attention(scaled_dot_product_attention, query, key, value, **settings)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    assert ours.grad_fn.name() == "_ValuesFlowBackward"
    slopes = torch.randn(3, *ours.shape, generator=torch.Generator().manual_seed(1))
    wanted = [torch.autograd.grad(theirs, value, slope, retain_graph=True)[0] for slope in slopes]
    found = [torch.autograd.grad(ours, value, slope, retain_graph=True)[0] for slope in slopes]
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    (together,) = torch.autograd.grad(ours, value, slopes, is_grads_batched=True)
    torch.testing.assert_close(list(together), wanted, rtol=1e-5, atol=1e-6)


def test_no_gradient_goes_to_queries_and_keys():
    query, key, value = (part.detach().requires_grad_() for part in parts())
    result = held_attention(scaled_dot_product_attention, query, key, value)
    gradients = torch.autograd.grad(result.sum(), [query, key, value], allow_unused=True)
    assert [gradient is None for gradient in gradients] == [True, True, False]
