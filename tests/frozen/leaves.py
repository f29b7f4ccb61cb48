"""What every leaf of a model contributes to an answer: the vectors that it looks up, biases, tables and buffers.

Nothing of the library is used but the rules: the caller's own model runs, with what it adds as leaves. The frozen
network is affine, so the contributions of all leaves have the answer as their sum (Ali et al., 2022, section 3).
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from normxlogit.frozen.backward import frozen_backward
from normxlogit.frozen.recording import Recording

LOOKED_UP = "vectors looked up"
HELD = "held values"


class LookedUp(TorchFunctionMode):
    def __init__(self, vectors: list[Tensor]) -> None:
        super().__init__()
        self.vectors = vectors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func not in (torch.embedding, functional.embedding):
            return found
        self.vectors.append(found.detach().requires_grad_())
        return self.vectors[-1].clone()


def contributions_of_leaves(
    model: nn.Module, inputs: Mapping[str, Any], answer_of: Callable[[Any], Tensor]
) -> tuple[float, dict[str, float]]:
    """Return an answer of a model, a scalar of its outputs, and what each of its leaves contributes to it."""
    model = copy.deepcopy(model).requires_grad_(False).eval()
    leaves: dict[str, Tensor] = {}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if value.is_floating_point() and name.rpartition(".")[2] != "weight":  # what multiplies is no leaf
            leaves[name] = value.requires_grad_()
    vectors: list[Tensor] = []  # that are looked up, of words, positions and types

    with torch.enable_grad(), Recording(), LookedUp(vectors):
        answer = answer_of(model(**inputs))
    leaves |= {f"{LOOKED_UP} {number}": found for number, found in enumerate(vectors)}
    held = 0.0

    def count(products: Tensor) -> None:
        nonlocal held
        held += float(products.double().sum())

    with frozen_backward(answer, vectors, count):
        slopes = torch.autograd.grad(answer, list(leaves.values()), allow_unused=True)
    shares = {
        name: float((slope.double() * leaf.detach().double()).sum())
        for (name, leaf), slope in zip(leaves.items(), slopes, strict=True)
        if slope is not None
    }
    return float(answer.detach()), shares | {HELD: held}
