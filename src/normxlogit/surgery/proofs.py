"""Every proof that the library makes of a model: what is compared, how close it must be, why, and when.

The numbers are right because each step is compared with the model's own answer, on the caller's own input. A proof
returns None where it holds and the difference where it does not, or raises the error itself. `PROOFS` is the table that
docs/proofs.md prints.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..errors import HeadMismatchError, UnsupportedModelError
from .headpiece import Head, answer_of
from .memory import refuse_to_hide
from .non_finite import is_number
from .pool import Pool
from .run import Site, run
from .trace import hidden_of

__all__ = [
    "EXCLUDED",
    "PROOFS",
    "STATES_AGREE",
    "Proof",
    "apart",
    "mixes_by_rounding",
    "tolerance_for",
]

REPEATED = 8
"""How often a model that draws random numbers is asked the same."""

SUMS = 10
"""Sums in another order, as of a larger batch, may differ by this many times what rounding explains in a single one."""

EXCLUDED = 1e4
"""Logits beyond this are no answer: some heads push the question's tokens out of a reader's choice like that."""

STATES_AGREE = 1e-4
"""Difference that padding, or a longer text, may make to a state, relative to the largest."""

PROOF_ROWS = 7
"""Vocabulary entries of which the proof reads every token, spread over the vocabulary."""

ROUNDING = "rounding: 1e-5 in float32, 8 eps in half precision, times the largest logit"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Proof:
    """A line of the table.

    Attributes:
        name: Of the function.
        compares: What is compared with what.
        tolerance: How far apart they may be.
        why: What would be wrong without it.
        when: When it runs, and what it costs.
    """

    name: str
    compares: str
    tolerance: str
    why: str
    when: str


PROOFS: list[Proof] = []


def proof(*, compares: str, tolerance: str, why: str, when: str) -> Callable[[F], F]:
    """Enter a function in the table of proofs."""

    def enter(function: F) -> F:
        PROOFS.append(Proof(function.__name__, compares, tolerance, why, when))
        return function

    return enter


# --- how far apart -------------------------------------------------------------------------------------------------


def tolerance_for(logits: Tensor) -> float:
    """Return the difference that rounding explains, for logits of this size and precision."""
    rounding = 1e-5 if logits.dtype in (torch.float32, torch.float64) else 8 * torch.finfo(logits.dtype).eps
    return float(rounding * _size(logits))


def apart(actual: Tensor, expected: Tensor) -> float:
    """Return the largest difference between two answers, infinite where their shapes differ.

    A value beyond EXCLUDED, as a regression model may answer with, counts relative to its own size, so that
    `tolerance_for` holds for it too; the same infinity is no difference.
    """
    if actual.shape != expected.shape:
        return float("inf")
    difference = (actual - expected).abs().masked_fill(actual == expected, 0.0)
    size = expected.abs()
    return (difference / torch.where(size < EXCLUDED, 1.0, size / _size(expected))).max().item()


def mixes_by_rounding(model: nn.Module) -> bool:
    """Return whether activations are quantised by the largest of a batch, so that texts change each other's answers."""
    return any(".quantized.dynamic" in type(module).__module__ for module in model.modules())


def _size(logits: Tensor) -> float:
    """Return the largest logit that is not excluded, 1 or more."""
    size = logits.abs()
    return max(1.0, size[size < EXCLUDED].max().item() if (size < EXCLUDED).any() else 1.0)


def _beyond(actual: Tensor, expected: Tensor, times: float = 1.0) -> float | None:
    """Return the difference where it is more than rounding, NaN included."""
    difference = apart(actual, expected)
    return None if difference <= times * tolerance_for(expected) else difference


def _sums(logits: Tensor) -> int:
    """Return how many times rounding sums in another order may differ; in half precision rounding is wide as it is."""
    return SUMS if logits.dtype in (torch.float32, torch.float64) else 1


# --- the model -----------------------------------------------------------------------------------------------------


@proof(
    compares="the copy that is explained and the model as its owner calls it, on the first text",
    tolerance=ROUNDING,
    why="the copy was given another call or setting (an adapter, a choice, a decoder, a padding id)",
    when="first call, where something was changed; two passes",
)
def copy_answers_as_the_model(actual: Tensor, expected: Tensor) -> float | None:
    """Compare the logits of the copy with the model's own."""
    return _beyond(actual, expected)


@proof(
    compares="two answers to the same input",
    tolerance=ROUNDING,
    why="dropout or noise that evaluation mode leaves on: scores would be of neither answer",
    when="first call; one pass, eight where random numbers are drawn",
)
def answers_again(pool: Pool[PreTrainedModel], inputs: Mapping[str, Any], logits: Tensor) -> None:
    """Ask a model the same again.

    Raises:
        UnsupportedModelError: If it answers otherwise.
    """
    state, difference = torch.get_rng_state(), 0.0
    for count in range(REPEATED):
        with torch.inference_mode(), pool.lease() as copy:
            answer = answer_of(run(copy, inputs).output)
        difference = max(difference, torch.inf if answer is None else apart(answer, logits))
        if not count and torch.equal(torch.get_rng_state(), state):
            break  # no numbers were drawn, which need not tell each time
    if not difference <= tolerance_for(logits):
        raise UnsupportedModelError(
            f"{type(pool.model).__name__} answers the same input differently each time, by {difference:.2g}: dropout "
            "or noise that evaluation mode does not switch off, or something that it remembers; take that out, or fix "
            "its seed"
        )


# --- the head ------------------------------------------------------------------------------------------------------


@proof(
    compares="the head on the trunk's states of whole texts, and the model's logits",
    tolerance=ROUNDING,
    why="the trunk is where it was guessed, and the head reads nothing else",
    when="first call, for each candidate; the head alone",
)
def head_gives_the_logits(logits: Tensor, expected: Tensor) -> float | None:
    """Compare the head's logits with the model's."""
    return _beyond(logits, expected)


@proof(
    compares="the head on each token alone, and the model's logits at that token",
    tolerance=ROUNDING,
    why="heads that compare tokens, such as Splinter's, answer only in the text",
    when="first call, of heads that answer at every token; the head alone",
)
def head_reads_tokens_alone(each: Tensor, logits: Tensor) -> bool:
    """Return whether the head says of each token alone, (T, C), what it says in the text, if anything."""
    if each.shape != logits.shape:
        return False
    kept, tolerance = logits.abs() < EXCLUDED, tolerance_for(logits)
    return apart(each[kept], logits[kept]) <= tolerance if kept.any() else apart(each, logits) <= tolerance


@proof(
    compares="the logits at one token with the output embedding's entries shifted around the vocabulary, and the "
    "model's logits shifted alike; at every token seven rows computed alone, and the model's logits",
    tolerance=ROUNDING,
    why="chosen rows of the output embedding are computed alone; a shift coprime to the vocabulary's size shows what "
    "is done to entries by their index (if it changes nothing, no shift does), the rows what depends on the width",
    when="first call of language models; the head at one token",
)
def rows_are_the_vocabularys(head: Head, path: str, hidden: Tensor, logits: Tensor) -> bool:
    """Return whether rows of the output embedding, computed alone, are the vocabulary's logits.

    Args:
        head: A head that is to compute rows alone.
        path: Of the output embedding.
        hidden: (N, H).
        logits: The model's own logits for them, (N, V).
    """
    size, tolerance = logits.shape[-1], tolerance_for(logits)
    shift = next(step for step in range(max(1, round(size * 0.382)), 2 * size) if gcd(step, size) == 1)

    def shifted(embedding: Any, states: Tensor) -> Tensor:
        module = embedding.__self__
        return nn.functional.linear(states, module.weight, getattr(module, "bias", None)).roll(shift, -1)  # (..., V)

    rows = torch.linspace(0, size - 1, PROOF_ROWS, dtype=torch.float64, device=hidden.device).long()  # (R,)
    try:
        several = apart(head.tokens(hidden, rows), logits[:, rows])
        around = apart(head.each(hidden[-1:], {path: shifted}), logits[-1:].roll(shift, -1))
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        refuse_to_hide(error)
        return False
    return several <= tolerance and around <= tolerance


@proof(
    compares="the head with the model on a second text; the model on a text alone and beside another; the head on a "
    "token alone and beside others",
    tolerance=f"{ROUNDING}; {SUMS} times that in float32 beside other texts, for larger batches sum in another order",
    why="a head that reads a state kept from a pass before; batch norms without running statistics; experts of limited "
    "capacity",
    when="first call; a pass of twice the texts, and the head on it",
)
def holds_on_another_text(
    pool: Pool[PreTrainedModel], head: Head | None, inputs: Mapping[str, Any], logits: Tensor | None, tokenwise: bool
) -> str | None:
    """Compare the head with the model on another text, and the model on texts side by side with it on one.

    Args:
        pool: Lends copies of the model.
        head: Its head; None without one, where only the model's answers are compared.
        inputs: A small batch.
        logits: The model's answer to it; None where texts are known to differ side by side, and are read so that they
            do not.
        tokenwise: Whether the head answers at single tokens.

    Returns:
        What could not be tried, None where everything was.

    Raises:
        HeadMismatchError: If the head differs.
        UnsupportedModelError: If texts, or tokens as texts, change each other's answers.
    """
    name = next((n for n in ("input_ids", "pixel_values", "input_features", "input_values") if n in inputs), None)
    if name is None:
        return "the model was not tried on a second text: none of its inputs is known"
    model, count = type(pool.model).__name__, len(inputs[name])
    both = {n: torch.cat((v, v.roll(1, -1) if n == name else v)) for n, v in inputs.items() if isinstance(v, Tensor)}
    site = None if head is None else Site(head.piece.trunk, call=0)
    try:
        with torch.inference_mode(), pool.lease() as copy:
            done = run(copy, {**inputs, **both}, record=[] if site is None else [site])
        answers = answer_of(done.output)
    except Exception as error:  # the same tokens in this order may be no text that the model reads
        refuse_to_hide(error)
        return "the model was not tried on a second text: it does not read this one's tokens in another order"
    if answers is None or not is_number(answers):
        return "the model was not tried on a second text: its answer to this one's tokens in another order is no number"
    mixed = 0.0 if logits is None else apart(answers[:count], logits)
    hidden = None if site is None else hidden_of(done.seen.get(site, [None])[-1])
    if head is not None and hidden is not None:
        hidden = head.piece.by_text(hidden)  # (B, T, H)
        with torch.inference_mode():
            difference = _beyond(head.whole(hidden, {**inputs, **both}), answers)
            tokens = head.tokens(hidden[0]) if tokenwise else hidden[0, :1]  # (T, C)
            alone = head.tokens(hidden[0, :1]) if tokenwise else tokens  # (1, C)
        if difference is not None:
            raise HeadMismatchError(
                f"the head of {model} reproduces the model's logits on one text and not on another, by "
                f"{difference:.2g}: it reads something else than {head.piece.trunk} gives it, such as a state kept "
                "from a pass before"
            )
        mixed = max(mixed, apart(tokens[:1], alone))
    if not mixes_by_rounding(pool.model) and not mixed <= tolerance_for(answers) * _sums(answers):
        raise UnsupportedModelError(
            f"{model} answers a text differently beside another one, by {mixed:.2g}: something in it works on the "
            "whole batch, such as a batch norm without running statistics or experts of limited capacity"
        )
    return None


# --- the layers ----------------------------------------------------------------------------------------------------


@proof(
    compares="the last layer's output after what follows the layers, and what the head read",
    tolerance=ROUNDING,
    why="a layer's state is brought to the head by the way that the last one's takes",
    when="first call; a pass in which the layers are skipped",
)
def tail_gives_what_the_head_read(brought: Tensor, hidden: Tensor, state: Tensor) -> bool:
    """Return whether the last layer's output, brought to the head, is what the head read."""
    return bool((brought - hidden).abs().max().item() <= tolerance_for(state))


@proof(
    compares="the trunk with no layer skipped, and with the last one skipped, and what the head read",
    tolerance=f"{ROUNDING}; with the last one skipped it must differ",
    why="the layers that are skipped are all of them, and skipping has an effect",
    when="first call of models whose layers cannot be brought to the head; a pass for each kind of layer and two more",
)
def early_exit_ends_in_what_the_head_read(whole: Tensor, less: Tensor, hidden: Tensor) -> bool:
    """Return whether a trunk whose layers can be skipped gives what the head read, and another state with one less."""
    if less.shape != hidden.shape or torch.equal(less, hidden):
        return False
    return _beyond(whole, hidden) is None
