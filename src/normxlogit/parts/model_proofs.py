"""Proofs that run the model: on a text alone and beside another, twice, and at rows of its vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.memory import attempted, reraise_out_of_memory
from ..copies.module_io import Inputs, with_tensor
from ..copies.pool import ModelPool
from ..copies.run import Replacements, Site, run
from ..errors import HeadMismatchError, UnsupportedModelError
from .headpiece import Head, answer_of
from .layer_outputs import LayerOutput
from .main_input import MainInput
from .proofs import (
    SUM_ERROR,
    batch_tolerance,
    beyond_rounding,
    largest_difference,
    proof,
    quantises_by_batch,
    tolerance_for,
)
from .traced import Traced

REPEATS = 8
"""Runs of a model that draws random numbers, on the same input."""

PROOF_ROWS = 7
"""Vocabulary entries that are computed alone at every token, spread over the vocabulary."""

MOST_LABELS = 1000
"""Outputs at a token of which all are compared; more are a vocabulary."""


@proof(
    compares="the logits at one token with the output embedding's entries shifted around the vocabulary, and the "
    "model's logits shifted alike; at every token seven rows computed alone, and the model's logits",
    tolerance="rounding",
    why="chosen rows of the output embedding are computed alone; a shift coprime to the vocabulary's size shows what "
    "is done to entries by their index (if it changes nothing, no shift does), the rows what depends on the width",
    when="first call of language models; the head at each token for the rows, and at one for the vocabulary",
)
def rows_are_of_the_vocabulary(head: Head, path: str, hidden: Tensor, logits: Tensor) -> bool:
    """Return whether rows of the output embedding, computed alone from states, (N, H), are the logits, (N, V).

    Args:
        head: The head, called with chosen rows of the output embedding.
        path: The output embedding.
        hidden: States, (N, H).
        logits: The model's logits of them, (N, V).
    """
    size, tolerance = logits.shape[-1], tolerance_for(logits)
    # A shift by about 0.382 of the vocabulary, which is far from any simple fraction of it.
    shift = next(step for step in range(max(1, round(size * 0.382)), 2 * size) if gcd(step, size) == 1)

    def project_shifted(call_embedding: Any, states: Tensor) -> Tensor:
        """Return the logits of the output embedding, instead of its own forward, shifted around the vocabulary."""
        module = call_embedding.__self__  # a bound method of the module
        return nn.functional.linear(states, module.weight, getattr(module, "bias", None)).roll(shift, -1)  # (..., V)

    rows = spread_rows(logits)  # (R,)
    try:
        rows_difference = largest_difference(head.tokens(hidden, rows), logits[:, rows])
        shift_difference = largest_difference(
            head.tokens_with(hidden[-1:], {path: project_shifted}), logits[-1:].roll(shift, -1)
        )
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:  # it is no plain linear map
        reraise_out_of_memory(error)
        return False
    return rows_difference <= tolerance and shift_difference <= tolerance


@proof(
    compares="the model's answer to a text, and to another one where a layer returns what it did for the first",
    tolerance="rounding; where the layer's output is not replaced the answers must differ",
    why="scores that are read at a layer are of all that the text says if no path to the answer leads around it",
    when="first call of modules whose layers were found by structure; a pass for each layer and one more",
)
def on_every_path(pool: ModelPool, outputs: Sequence[LayerOutput], traced: Traced, main_input: MainInput) -> bool:
    """Return whether the answer depends on a text by the output of each of some modules alone.

    Args:
        pool: Copies of the model.
        outputs: The module calls that return the outputs.
        traced: A pass over the text.
        main_input: The input that the other text has instead of this one's.
    """
    states = {Site(call.path, call=call.number): call.output for call in traced.calls}
    another = {**traced.inputs, main_input.name: main_input.another(traced.inputs[main_input.name])}

    def answer_with(replaced: Replacements) -> Tensor | None:
        """Return the model's answer to the other text where some outputs are replaced."""
        with pool.lease() as copy, torch.inference_mode():
            return answer_of(run(copy, another, replace=replaced).output)

    with attempted():  # a module of one's own may fail in any way on another text
        other_answer = answer_with({})
        if other_answer is None or beyond_rounding(other_answer, traced.logits) is None:
            return False  # texts of equal answers prove nothing
        for output in outputs:
            site = Site(output.path, call=output.call)
            answer = answer_with({site: partial(_with_state, states[site])})
            if answer is None or beyond_rounding(answer, traced.logits) is not None:
                return False
        return True
    return False  # it failed


def _with_state(state: Tensor | None, returned: Any, _: Any) -> Any:
    """Return a module's output with another state; None, which changes nothing, if there is none."""
    return None if state is None else with_tensor(returned, state)


@dataclass(frozen=True)
class FirstText:
    """The text with which the parts of a model were found, and what the model answered to it."""

    inputs: Inputs  # its inputs alone, (1, T)
    beside: Inputs  # the same with another text, (B, T)
    # Its answer to the text beside the other, (1, C), (1, T, C), or (1, T, R) for some rows of a vocabulary
    logits: Tensor
    rows: Tensor | None  # these rows, (R,); None for all outputs
    draws: bool  # whether random numbers were drawn
    batched: bool  # whether the texts of a batch must not change each other's answers

    @classmethod
    def of(cls, inputs: Inputs, traced: Traced, *, batched: bool) -> "FirstText":
        """Return what a recorded pass shows of the text.

        Args:
            inputs: The inputs of the text alone, (1, T).
            traced: A recorded pass over it, and over another text beside it.
            batched: Whether the texts of a batch must not change each other's answers.
        """
        logits = traced.logits[:1]
        rows = spread_rows(logits) if logits.ndim > 2 and logits.shape[-1] > MOST_LABELS else None
        return cls(inputs, traced.inputs, logits if rows is None else logits[..., rows], rows, traced.draws, batched)

    def answer(self, pool: ModelPool, inputs: Inputs) -> Tensor:
        """Return the model's answer to the text again, among these inputs.

        Args:
            pool: Copies of the model.
            inputs: Inputs whose first text it is, (B, T).

        Raises:
            HeadMismatchError: If the model returns no logits.
        """
        with torch.inference_mode(), pool.lease() as copy:
            logits = answer_of(run(copy, inputs).output)
        if logits is None:
            raise HeadMismatchError(f"{type(pool.model).__name__} returned no logits")
        return logits[:1] if self.rows is None else logits[:1, ..., self.rows]


@proof(
    compares="the model's answer to a text alone and beside another, of a vocabulary at seven entries; two to it alone",
    tolerance=f"rounding; {SUM_ERROR} times that in float32 beside other texts: larger batches sum in another order",
    why="batch norms without running statistics, experts of limited capacity; dropout or noise that evaluation mode "
    "leaves on",
    when="first call; a pass, which is frozen-gradient's own on a short text; eight more where random numbers are "
    "drawn",
)
def prove_alone(pool: ModelPool, first: FirstText) -> FirstText:
    """Prove that a model answers a text alone as beside another, and each time; return it with that answer.

    Args:
        pool: Copies of the model.
        first: The text, with the model's answer to it beside another.

    Raises:
        UnsupportedModelError: If the answers differ.
    """
    name = type(pool.model).__name__
    alone = first.answer(pool, first.inputs)
    beside = first.logits
    repeated: list[Tensor] = []  # further answers to the text alone
    if first.draws:  # noise may happen to be small in a single run
        repeated = [first.answer(pool, first.inputs) for _ in range(REPEATS)]
    elif not largest_difference(alone, beside) <= tolerance_for(alone):
        # Its weights may have been trained since it answered the text beside another: it answers both again.
        repeated = [first.answer(pool, first.inputs)]
        beside = first.answer(pool, first.beside)
    difference = max((largest_difference(answer, alone) for answer in repeated), default=0.0)
    if not difference <= tolerance_for(alone):  # written so that NaN is refused, here and below
        raise UnsupportedModelError(
            f"{name} answers the same input differently each time, by {difference:.2g}: dropout or noise that "
            "evaluation mode does not switch off, or something that it remembers; take that out, or fix its seed"
        )
    difference = largest_difference(alone, beside)
    if first.batched and not quantises_by_batch(pool.model) and not difference <= batch_tolerance(beside):
        raise UnsupportedModelError(
            f"{name} answers a text differently beside another one, by {difference:.2g}: something in it works on the "
            "whole batch, such as a batch norm without running statistics or experts of limited capacity"
        )
    return replace(first, logits=alone)


def spread_rows(logits: Tensor) -> Tensor:
    """Return evenly spread rows of a vocabulary, (R,), with the first and the last, of its logits, (..., V)."""
    size = logits.shape[-1]
    return torch.linspace(0, size - 1, PROOF_ROWS, dtype=torch.float64, device=logits.device).long()
