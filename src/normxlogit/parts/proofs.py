"""The table of proofs, each what is compared, the tolerance, the reason, and when it runs; and how they compare.

The numbers are right because each step is compared with the model's own answer, on the caller's own input. A proof is
a function with the decorator `proof`, beside what it proves. All run in full float32, except on what the caller ran.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..copies.arithmetic import EXCLUDED
from ..copies.precision import float32_eps

SUM_ERROR = 10
"""Sums in another order, as in a larger batch, may differ by this multiple of the rounding of a single sum."""

STATES_AGREE = 1e-4
"""Tolerance of the effect of padding, or of later tokens, on a state, relative to the largest value."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Proof:
    """A row of the table of proofs."""

    name: str
    compares: str  # the two quantities that are compared
    tolerance: str  # how far apart they may be
    why: str  # the fault that the proof excludes
    when: str  # when it runs, and what it costs


PROOFS: list[Proof] = []


def proof(*, compares: str, tolerance: str, why: str, when: str) -> Callable[[F], F]:
    """Enter a function in the table of proofs.

    Args:
        compares: The two quantities that are compared.
        tolerance: How far apart they may be.
        why: The fault that the proof excludes.
        when: When it runs, and what it costs.
    """

    def register(function: F) -> F:
        PROOFS.append(Proof(function.__name__, compares, tolerance, why, when))
        return function

    return register


# --- how far apart -------------------------------------------------------------------------------------------------


def tolerance_for(logits: Tensor) -> float:
    """Return the largest difference that rounding explains, for logits of this size and precision."""
    return rounding_of(logits.dtype) * _largest_logit(logits)


def batch_tolerance(logits: Tensor) -> float:
    """Return the largest difference of logits alone and in a batch, which in float32 sums in another order."""
    return tolerance_for(logits) * (SUM_ERROR if is_full(logits.dtype) else 1)


def is_full(dtype: torch.dtype) -> bool:
    """Return whether numbers have full precision, and not half, where rounding explains larger differences."""
    return dtype in (torch.float32, torch.float64)


def rounding_of(dtype: torch.dtype) -> float:
    """Return the largest difference that rounding explains, relative to the size of the summands."""
    return 1e-5 if is_full(dtype) else 8 * torch.finfo(dtype).eps


def tolerance_for_given(logits: Tensor) -> float:
    """Return the largest difference that rounding explains for what the caller has computed, maybe with TF32."""
    rounding = 8 * float32_eps() if logits.dtype == torch.float32 else 0.0
    return max(rounding_of(logits.dtype), rounding) * _largest_logit(logits)


def largest_difference(actual: Tensor, expected: Tensor) -> float:
    """Return the largest difference between two tensors, of values beyond EXCLUDED relative to their size.

    Args:
        actual: A tensor of any shape.
        expected: Another one; of another shape the difference is infinite.
    """
    if actual.shape != expected.shape:
        return float("inf")
    difference = (actual - expected).abs()
    size = expected.abs()
    largest = difference.max().item()
    if isfinite(largest) and size.max().item() < EXCLUDED:
        return largest
    difference = difference.masked_fill(actual == expected, 0.0)  # the same infinity does not differ
    # A value that stands for "excluded" may be rounded as its own size is, which is many times that of a logit.
    times_a_logit = torch.where(size < EXCLUDED, 1.0, size / _largest_logit(expected))
    return (difference / times_a_logit).max().item()


def quantises_by_batch(model: nn.Module) -> bool:
    """Return whether activations are quantised by the maximum of a batch (LLM.int8): texts change each other's."""
    for module in model.modules():
        package = type(module).__module__  # "...quantized.dynamic..." of torch's own dynamic quantisation
        is_of_8_bits = package.startswith("bitsandbytes.") and type(module).__name__ == "Linear8bitLt"
        # A threshold keeps columns with outliers out of the quantisation, whichever text of the batch has them.
        if ".quantized.dynamic" in package or (is_of_8_bits and module.state.threshold):  # type: ignore[union-attr]
            return True
    return False


def _largest_logit(logits: Tensor) -> float:
    """Return the magnitude of the largest logit that is not excluded, at least 1."""
    size = logits.abs()
    return max(1.0, torch.where(size < EXCLUDED, size, 0.0).max().item()) if size.numel() else 1.0


def beyond_rounding(actual: Tensor, expected: Tensor) -> float | None:
    """Return the difference if it is larger than rounding or NaN, else None.

    Args:
        actual: A tensor of any shape.
        expected: Another one, whose size and precision say what rounding is.
    """
    difference = largest_difference(actual, expected)
    return None if difference <= tolerance_for(expected) else difference


# --- the head ------------------------------------------------------------------------------------------------------


@proof(
    compares="the head on each token alone, and the model's logits at that token",
    tolerance="rounding",
    why="heads that compare tokens, such as Splinter's, answer only in the text",
    when="first call, of heads that answer at every token; the head alone. Where single rows of a vocabulary are "
    "proved at each token, that proves it too",
)
def head_reads_tokens_alone(alone: Tensor, logits: Tensor) -> bool:
    """Return whether the head has the same logits at each token alone, (T, C), as in the text.

    Args:
        alone: The head's logits at each token alone, (T, C).
        logits: The model's logits at the tokens of the text, (T, C).
    """
    if alone.shape != logits.shape:
        return False
    included = logits.abs() < EXCLUDED
    if not included.any():  # all logits are large: none stands for "excluded"
        included = torch.ones_like(included)
    return largest_difference(alone[included], logits[included]) <= tolerance_for(logits)


# --- lengths and batches -------------------------------------------------------------------------------------------


@proof(
    compares="a text's states and logits alone, and beside a longer text, padded",
    tolerance=f"{STATES_AGREE:g} of the largest",
    why="a text's scores are the same in every batch; where they would not be, texts are read without padding",
    when="first batch of several lengths, and again beyond the lengths that were tried; a pass for each length",
)
def padding_changes_nothing(alone: Tensor, batched: Tensor) -> bool:
    """Return whether a text's states or logits are the same alone and in a batch, (T, H) or (T, C).

    Args:
        alone: States or logits of a text alone, (T, H) or (T, C).
        batched: Those beside a longer text, at its own tokens.
    """
    included = alone.abs() < EXCLUDED
    if not included.any():
        return largest_difference(batched.float(), alone.float()) <= STATES_AGREE
    expected = alone[included].float()
    tolerance = max(tolerance_for(alone), STATES_AGREE * expected.abs().max().item())
    return largest_difference(batched[included].float(), expected) <= tolerance


@proof(
    compares="the states of a text's beginning alone, and in the text",
    tolerance=f"{STATES_AGREE:g} of their norm, 0.05 in half precision",
    why="one pass over a text serves every prefix; where later tokens change earlier states, each prefix gets a pass",
    when="explaining a generation, and again beyond the lengths that were tried; a pass for each length",
)
def later_tokens_change_nothing(alone: Tensor, followed: Tensor) -> bool:
    """Return whether a prefix of a text has the same states by itself as in the text, (C, H).

    Args:
        alone: States of the beginning of a text alone, (C, H).
        followed: Those in the whole text.
    """
    rounding = STATES_AGREE if is_full(followed.dtype) else 0.05
    alone, followed = alone.float(), followed.float()
    return bool((alone - followed).norm() <= rounding * followed.norm())


@proof(
    compares="the logits of the next two tokens after a prompt alone, and beside another prompt, padded",
    tolerance=f"{STATES_AGREE:g} of the largest; the first choice must be the same",
    why="prompts that are continued together get the tokens that they get alone; else they are continued one by one",
    when="generating for several prompts, and again beyond the lengths that were tried; two steps for each length",
)
def prompts_are_continued_as_alone(alone: Tensor, batched: Tensor) -> bool:
    """Return whether two steps of logits are the same, (2, V) each; the second is compared if both chose one token.

    Args:
        alone: The logits of two generated tokens after a prompt alone, (2, V).
        batched: Those beside another prompt.
    """
    if not torch.equal(alone[0].argmax(), batched[0].argmax()):
        return False
    difference = (alone.float() - batched.float()).abs()
    difference = difference[torch.isfinite(difference)]  # a token that is ruled out has -inf in both
    return bool(difference.max() <= max(tolerance_for(alone), STATES_AGREE * float(alone.abs().max())))


@proof(
    compares="the logits of the second token that `generate` gives with its cache, and without",
    tolerance=f"{STATES_AGREE:g} of the largest",
    why="where later tokens change earlier states, each prefix gets a pass; a cache keeps the states as they were, so "
    "that other numbers were generated than a pass gives",
    when="explaining a completion of a model whose later tokens change earlier states; two short generations",
)
def cache_changes_nothing(cached: Tensor, anew: Tensor) -> bool:
    """Return whether two steps of logits are the same with a cache and without, (2, V) each."""
    return prompts_are_continued_as_alone(anew, cached)


# --- what the caller has run or built ------------------------------------------------------------------------------


@proof(
    compares="hidden states in the caller's outputs, and the same ones computed from the inputs; the head on them, and "
    "the logits in the outputs",
    tolerance="rounding, of TF32 if it is on",
    why="outputs of other inputs, or of another order of them, of different passes, or of training mode",
    when="every call of `from_outputs`; the embedding layer and the head alone",
)
def outputs_beyond_rounding(actual: Tensor, expected: Tensor) -> float | None:
    """Return how far what the caller's pass gave is from what is computed, None if that is within rounding.

    Args:
        actual: States or logits in the caller's outputs.
        expected: What is computed from the inputs.
    """
    expected = expected.float()
    difference = largest_difference(actual.to(expected.device).float(), expected)
    return None if difference <= tolerance_for_given(expected) else difference
