"""The proof of a frozen pass: what its input and all that the model adds contribute sums to its answer.

The frozen network is affine: f(x) = <g, x> + sum over constants c of <g_c, c>, for every bias, every table of
positions, every vector that the model adds. In a pass that is proved these are leaves (`forward.Constants`), and their
gradients come with the input's, from the backward pass of what is explained. A rule that is wrong, or an operation that
hides what is not linear, shows as a difference.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..errors import UnsupportedModelError
from ..parts.proofs import proof, rounding_of
from .forward import Constants


class Conservation:
    """The proof of a recorded pass over one text, in a backward pass through it.

    Args:
        dtype: The model's precision.
        accept: Called when the pass is proved.

    Attributes:
        constants: All that the pass adds, which are leaves of its graph.
        held: What held values contribute in the backward pass.
    """

    def __init__(self, dtype: torch.dtype, accept: Callable[[], object] = lambda: None) -> None:
        self.constants = Constants()
        self._dtype, self._accept = dtype, accept
        self.held: list[Tensor] = []

    def hold(self, contribution: Tensor) -> None:
        """Count the contribution of a held value."""
        self.held.append(contribution.double().sum())

    @proof(
        compares="what the input and all constants of the model contribute, and what is explained; of the head alone, "
        "a random sum of its logits",
        tolerance="rounding, relative to the sum of all contributions without their signs",
        why="each rule gives what its operation passes on; what hides how it depends on the input shows",
        when="first use of frozen-gradient; nothing more for a short text alone, otherwise a backward pass",
    )
    def check(self, vectors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
        """Refuse the pass if the contributions do not add up to what is explained.

        Args:
            vectors: The pass's answer, and what enters it.
            gradients: Those of the vectors and of the constants; None where none arrived.

        Raises:
            UnsupportedModelError: If they do not, or no gradient arrived at an input.
        """
        answer, given = vectors[0], len(vectors)
        if all(gradient is None for gradient in gradients[1:given]):
            raise UnsupportedModelError("the model cannot be frozen: nothing flows from the input to the answer")
        explained, *products = map(_products, [*vectors, *self.constants.leaves], gradients)
        by_token = [each.sum(-1) for each in products[: given - 1]]
        terms = [explained, *self.held, *by_token, *products[given - 1 :]]
        sums = [torch.stack((each.sum(), each.abs().sum())).to(answer.device) for each in terms]
        both = torch.stack((sums[0], torch.stack(sums[1:]).sum(0)))
        (value, value_size), (total, size) = both.tolist()  # one transfer
        dtypes = (torch.float32, self._dtype, answer.dtype)
        floating = [dtype for dtype in dtypes if dtype.is_floating_point and dtype.itemsize > 1]
        coarsest = max(floating, key=lambda dtype: torch.finfo(dtype).eps)
        if not abs(value - total) <= rounding_of(coarsest) * max(1.0, value_size, size):
            raise UnsupportedModelError(
                "the model cannot be frozen: contributions of its input and its biases do not add up to its answer, by "
                f"{abs(value - total):.2g} of {value:.4g}: an operation that is not linear has no rule, or a wrong one"
            )
        self._accept()


def _products(vector: Tensor, gradient: Tensor | None) -> Tensor:
    """Return a gradient times its vector. What excludes an answer may be infinite, and nothing of it arrives."""
    if gradient is None:
        return torch.zeros((), dtype=torch.float64)
    gradient = gradient.double()
    return gradient * vector.detach().double().masked_fill(gradient == 0, 0.0)
