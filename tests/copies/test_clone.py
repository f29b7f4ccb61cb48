"""Copies of a structure: the same tensors, and nothing else in common."""

import torch
from torch import nn

from normxlogit.copies.clone import clone


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
