"""Copies that are lent: what a pass writes on its copy reaches no other pass."""

import pytest
import torch
from torch import nn

from normxlogit.copies.clone import clone
from normxlogit.copies.pool import Pool
from normxlogit.copies.run import run


class Growing(nn.Module):
    """Writes on itself from four tokens on: an attribute, a buffer replaced, a buffer in place."""

    def __init__(self, how):
        super().__init__()
        self.how, self.longest = how, 4
        self.register_buffer("scale", torch.ones(1))
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, ids):
        length = ids.shape[1]
        if length > self.longest:
            if self.how == "attribute":
                self.longest = length
            elif self.how == "buffer":
                self.register_buffer("scale", torch.full((1,), float(length)))
            else:
                self.scale.fill_(length)
        if length == 7:
            raise ValueError("seven")
        return ids.shape[1] / (self.longest if self.how == "attribute" else self.scale) * self.weight


def answer(pool, length):
    with pool.lease() as copy:
        return run(copy, {"ids": torch.ones(1, length, dtype=torch.long)}).output


@pytest.mark.parametrize("how", ["attribute", "buffer", "in place"])
def test_a_pass_does_not_see_what_another_wrote_also_when_that_failed(how):
    model = clone(Growing(how))
    pool = Pool(model)
    with torch.inference_mode():
        expected = [answer(Pool(clone(Growing(how))), length) for length in (3, 9, 3, 12, 9)]
        results = [answer(pool, length) for length in (3, 9, 3, 12, 9)]
        with pytest.raises(ValueError, match="seven"):
            answer(pool, 7)
        assert answer(pool, 3) == expected[0]
    assert results == expected
    assert model.longest == 4
    assert model.scale == 1
