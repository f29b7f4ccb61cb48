"""Functions that make probabilities of logits, and how the logits are found behind them."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Outputs = Literal["logits", "probabilities", "log-probabilities", "values"]
"""What the numbers that a module returns are."""

SHAPE_ONLY = frozenset([
    "__getitem__", "clone", "contiguous", "double", "flatten", "float", "reshape", "squeeze", "to", "type", "unsqueeze",
    "view",
])  # fmt: skip
"""Functions that leave the values of a tensor as they are."""


class _LogitsOfProbabilities(torch.autograd.Function):
    """The logits of probabilities; a node of its own, so that the frozen network refuses it by name.

    Exclusive outcomes have the logits log p; independent ones log p - log(1 - p), with the slope 1 / (p (1 - p)).
    """

    @staticmethod
    def forward(ctx: Any, probabilities: Tensor, independent: bool) -> Tensor:
        tiny = torch.finfo(probabilities.dtype).tiny  # in the place of 0, whose logarithm is infinite
        positive = probabilities.clamp(min=tiny)
        complements = (1 - probabilities).clamp(min=tiny)
        ctx.save_for_backward(positive * complements if independent else positive)
        return positive.log() - complements.log() if independent else positive.log()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (inverse_slope,) = ctx.saved_tensors
        return grad_outputs[0] / inverse_slope, None


class Normaliser(NamedTuple):
    """A function that makes probabilities or their logarithms of logits."""

    apply: Callable[[Tensor], Tensor]  # the function
    outputs: Outputs  # what it returns
    outcomes: Literal["exclusive", "independent"]  # whether one of these outcomes is true, or each by itself

    def logits(self, answer: Tensor) -> Tensor:
        """Return logits of which this function makes an answer."""
        is_independent = self.outcomes == "independent"
        if self.outputs == "log-probabilities":
            return answer - torch.log(-torch.expm1(answer)) if is_independent else answer
        return _LogitsOfProbabilities.apply(answer, is_independent)  # type: ignore[no-untyped-call]


NORMALISERS = {
    "softmax": Normaliser(partial(torch.softmax, dim=-1), "probabilities", "exclusive"),
    "log_softmax": Normaliser(partial(torch.log_softmax, dim=-1), "log-probabilities", "exclusive"),
    "sigmoid": Normaliser(torch.sigmoid, "probabilities", "independent"),
    "log_sigmoid": Normaliser(torch.nn.functional.logsigmoid, "log-probabilities", "independent"),
}
"""Functions that a forward pass may end in, by their names in torch."""


class RecordedResult(NamedTuple):
    """A result of a normaliser, which is kept alive, so that its id is its own."""

    result: Tensor
    logits: Tensor  # what the normaliser was given, reshaped as the result
    normaliser: str


class RecordedLogits(TorchFunctionMode):
    """Records the inputs of normalisers in a forward pass: torch calls it instead of each of its functions.

    What a module does with a normaliser's result before it returns it may only reshape it: the same is done to the
    logits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recorded: dict[int, RecordedResult] = {}  # by the id of the result

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        result = func(*args, **options)
        name = getattr(func, "__name__", "")
        source = args[0] if args else options.get("input")
        # Attention's softmax has four axes: it makes no answer, and is called often.
        if not isinstance(result, Tensor) or not isinstance(source, Tensor) or result.ndim > 3:
            return result
        recorded = self.of(source)
        if name in NORMALISERS:
            self._recorded[id(result)] = RecordedResult(result, source, name)
        elif name in SHAPE_ONLY and args and recorded is not None:
            logits = func(recorded.logits, *args[1:], **options)
            self._recorded[id(result)] = RecordedResult(result, logits, recorded.normaliser)
        return result

    def of(self, answer: Tensor) -> RecordedResult | None:
        """Return how an answer was made by a normaliser; None if it was not."""
        return self._recorded.get(id(answer))
