"""The proof: in one backward pass, the contributions of the input and of every constant add up to the answer.

The frozen network is affine: f(x) = <g, x> + sum over constants c of <g_c, c>, for every bias, every table of
positions, every vector that the model adds. These are leaves of the pass (`forward.Constants`), and their gradients
come with the input's. A rule that is wrong, or an operation that hides what is not linear, shows as a difference.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..copies.non_finite import EXCLUDED
from ..errors import UnsupportedModelError
from ..parts.proofs import proof, rounding_of
from .backward import frozen_backward, operations_without_gradient
from .forward import Constants
from .readouts import Readout


@dataclass(frozen=True)
class Balance:
    """The contributions to an output, and their difference from it.

    Attributes:
        answer: The explained quantity.
        inputs: The sum of the inputs' contributions.
        bias: By module, what the constants that are added in it contribute; "" for held values.
        size: The sum of all contributions without their signs, of which rounding is a part.
    """

    answer: float
    inputs: float
    bias: Mapping[str, float]
    size: float

    def __str__(self) -> str:
        shares = sorted(self.bias.items(), key=lambda pair: -abs(pair[1]))
        lines = [f"{self.answer:+9.4f}  the answer", f"{self.inputs:+9.4f}  its input"]
        return "\n".join(lines + [f"{share:+9.4f}  {path or 'held values'}" for path, share in shares if share])

    @property
    def difference(self) -> float:
        """The difference between the output and the sum of the contributions."""
        return abs(self.answer - self.inputs - sum(self.bias.values()))


def balance(answer: Tensor, entries: Sequence[Readout], constants: Constants) -> Balance:
    """Return the contributions of the inputs and of all constants to an output, from one backward pass.

    Args:
        answer: The explained quantity, a scalar with the graph of a recorded pass; it is kept.
        entries: Where the input enters the graph.
        constants: The constants of the pass.

    Raises:
        UnsupportedModelError: If no gradient arrives at an input.
    """
    edges = [edge for entry in entries for edge in entry.edges]
    vectors = [vector for entry in entries for vector in entry.vectors]
    held = list[Tensor]()
    with frozen_backward(answer, edges, lambda products: held.append(products.double().sum())):
        leaves: Any = [*edges, *(leaf for leaf, _ in constants.leaves)]
        gradients = torch.autograd.grad(answer, leaves, retain_graph=True, allow_unused=True)
    if all(gradient is None for gradient in gradients[: len(edges)]):
        raise UnsupportedModelError("cannot be frozen: nothing flows from the input to the answer")
    paths = [None] * len(edges) + [path for _, path in constants.leaves]
    found, sums = list[str | None](), [torch.zeros(2, dtype=torch.float64), *(torch.stack((x, x.abs())) for x in held)]
    for vector, gradient, path in zip([*vectors, *leaves[len(edges) :]], gradients, paths, strict=True):
        if gradient is not None:
            # A constant that excludes an answer may be infinite, and nothing of it arrives.
            products = gradient.double() * vector.detach().double().masked_fill(gradient == 0, 0.0)
            sizes = products.sum(-1) if path is None else products  # of tokens
            sums.append(torch.stack((products.sum(), sizes.abs().sum())))
            found.append(path)
    totals = torch.stack([each.to(answer.device) for each in sums]).tolist()  # one transfer
    bias: dict[Any, float] = defaultdict(float, {"": 0.0})
    for path, (contribution, _) in zip([""] * (len(held) + 1) + found, totals, strict=True):
        bias[path] += contribution
    inputs = bias.pop(None, 0.0)
    return Balance(float(answer.detach()), inputs, dict(bias), sum(size for _, size in totals))


@proof(
    compares="what the input and all constants of the model contribute, and the model's logits",
    tolerance="rounding, relative to the sum of all contributions without their signs",
    why="each rule gives what its operation passes on; what hides how it depends on the input shows",
    when="first use of frozen-gradient; one backward pass",
)
def prove_conservation(
    name: str, answer: Tensor, entries: Sequence[Readout], constants: Constants, dtype: torch.dtype
) -> Balance:
    """Prove that the contributions of a frozen backward pass add up to the output.

    Args:
        name: The model's class.
        answer: Logits with the graph of a recorded pass; a random sum of them is compared.
        entries: As for `balance`.
        constants: As for `balance`.
        dtype: The precision of the model.

    Raises:
        UnsupportedModelError: If contributions do not add up to the answer, or an operation has no rule.
    """
    blocked = operations_without_gradient(answer) if answer.requires_grad else ["any of its operations"]
    if blocked:
        raise UnsupportedModelError(
            f"{name} cannot be frozen: no gradient flows through {', '.join(blocked[:3])}, as where weights and "
            "activations are quantised; load it in another precision, or use a method without gradients"
        )
    weights = torch.randn(answer.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(answer)
    finite = answer.isfinite() & (answer.abs() < EXCLUDED)
    finite = finite if finite.any() else answer.isfinite()  # the values of a regression model may all be large
    total = (answer.masked_fill(~finite, 0.0) * weights).sum()
    try:
        result = balance(total, entries, constants)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{name} {error}") from error
    if not result.difference <= rounding_of(dtype) * max(1.0, result.size, abs(result.answer)):
        raise UnsupportedModelError(
            f"{name} cannot be frozen: the contributions of its input and its biases do not add up to its answer, by "
            f"{result.difference:.2g} of {result.answer:.4g}: an operation that is not linear has no rule, or a wrong "
            "one"
        )
    return result
