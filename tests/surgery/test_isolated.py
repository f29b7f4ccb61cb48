"""Passes that write on the model they run leave nothing behind."""

import threading

import pytest
import torch
from torch import nn

from normxlogit.surgery.clone import clone
from normxlogit.surgery.isolated import SMALL, Isolated, private_clone, without_autocast

CALLED = []


class Growing(nn.Module):
    """Writes on itself from four tokens on: an attribute, a buffer replaced, a buffer in place."""

    def __init__(self, how):
        super().__init__()
        self.how, self.longest = how, 4
        self.register_buffer("scale", torch.ones(1))
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, ids):
        CALLED.append(self)
        length = ids.shape[1]
        if length > self.longest:
            if self.how == "attribute":
                self.longest = length
            elif self.how == "buffer":
                self.register_buffer("scale", torch.full((1,), float(length)))
            else:
                self.scale.fill_(length)
        return ids.shape[1] / (self.longest if self.how == "attribute" else self.scale) * self.weight


def ids(length, rows=1):
    return torch.ones(rows, length, dtype=torch.long)


def test_a_pass_does_not_see_what_another_wrote():
    for how in ("attribute", "buffer", "in place"):
        model = clone(Growing(how))
        isolated = Isolated(model)
        with torch.inference_mode():
            first = [isolated(ids=ids(n)) for n in (3, 9, 3, 12, 9)]
            again = [Isolated(clone(Growing(how)))(ids=ids(n)) for n in (3, 9, 3, 12, 9)]
        assert first == again, how
        assert model.longest == 4
        assert model.scale == 1


def test_only_shapes_that_write_pay_for_a_copy():
    model = clone(Growing("attribute"))
    isolated = Isolated(model)
    CALLED.clear()
    for rows in (1, 2, 3):
        isolated(ids=ids(3, rows))
        isolated(ids=ids(9, rows))
    shared = [copy is model for copy in CALLED]
    assert shared == [False, False, True, False, True, False]


def test_threads_do_not_meet():
    isolated = Isolated(clone(Growing("in place")))
    found = {}

    def work(length):
        found[length] = [isolated(ids=ids(length)).item() for _ in range(50)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [float(n if n <= 4 else 1)] * 50 for n in range(2, 10)}


def test_a_private_clone_shares_weights_and_large_buffers():
    model = nn.Linear(2, 2)
    model.register_buffer("small", torch.zeros(3))
    model.register_buffer("large", torch.zeros(SMALL + 1, dtype=torch.int8))
    model.register_buffer("none", None)
    found = private_clone(model)
    assert found.weight is model.weight
    assert found.large is model.large
    found.small.fill_(1)
    assert not model.small.any()


def test_a_failing_pass_is_not_taken_for_a_clean_one():
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = 0

        def forward(self, ids):
            self.seen += 1
            raise ValueError(self.seen)

    isolated = Isolated(Failing())
    for _ in range(2):
        with pytest.raises(ValueError, match="1"):
            isolated(ids=ids(2))


def test_autocast_is_off_inside_and_on_again():
    with torch.autocast("cpu", torch.bfloat16):
        with without_autocast({"x": torch.ones(1)}):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
