"""Proofs that run the model: determinism, batch invariance, and rows of its vocabulary."""

import random
from collections.abc import Mapping
from math import gcd
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..copies.memory import reraise_out_of_memory
from ..copies.non_finite import is_finite
from ..copies.pool import Pool
from ..copies.run import Pass, Site, hidden_of, run
from ..errors import HeadMismatchError, UnsupportedModelError
from .headpiece import Head, answer_of
from .proofs import SUM_ERROR, beyond_rounding, largest_difference, proof, quantises_by_batch, tolerance_for

REPEATS = 8
"""Runs of a model that draws random numbers, on the same input."""

PROOF_ROWS = 7
"""Vocabulary entries that are computed alone at every token, spread over the vocabulary."""


@proof(
    compares="two answers to the same input",
    tolerance="rounding",
    why="dropout or noise that evaluation mode leaves on: scores would be of neither answer",
    when="first call, where the text beside another one does not show it already; one pass, eight where random numbers "
    "are drawn",
)
def check_deterministic(pool: Pool[PreTrainedModel], inputs: Mapping[str, Any], logits: Tensor) -> None:
    """Check that a model is deterministic."""
    random_states, difference = _random_states(), 0.0
    for count in range(REPEATS):
        with torch.inference_mode(), pool.lease() as copy:
            answer = answer_of(run(copy, inputs).output)
        difference = max(difference, torch.inf if answer is None else largest_difference(answer, logits))
        if not count and _random_states() == random_states:
            break  # no numbers were drawn: one run is enough
    if not difference <= tolerance_for(logits):
        raise UnsupportedModelError(
            f"{type(pool.model).__name__} answers the same input differently each time, by {difference:.2g}: dropout "
            "or noise that evaluation mode does not switch off, or something that it remembers; take that out, or fix "
            "its seed"
        )


@proof(
    compares="the logits at one token with the output embedding's entries shifted around the vocabulary, and the "
    "model's logits shifted alike; at every token seven rows computed alone, and the model's logits",
    tolerance="rounding",
    why="chosen rows of the output embedding are computed alone; a shift coprime to the vocabulary's size shows what "
    "is done to entries by their index (if it changes nothing, no shift does), the rows what depends on the width",
    when="first call of language models; the head at each token for the rows, and at one for the vocabulary",
)
def rows_are_of_the_vocabulary(head: Head, path: str, hidden: Tensor, logits: Tensor) -> bool:
    """Return whether rows of the output embedding, computed alone from states, (N, H), are the logits, (N, V)."""
    size, tolerance = logits.shape[-1], tolerance_for(logits)
    # A shift by about 0.382 of the vocabulary, which is far from any simple fraction of it.
    shift = next(step for step in range(max(1, round(size * 0.382)), 2 * size) if gcd(step, size) == 1)

    def project_shifted(embedding: Any, states: Tensor) -> Tensor:
        module = embedding.__self__
        return nn.functional.linear(states, module.weight, getattr(module, "bias", None)).roll(shift, -1)  # (..., V)

    rows = _spread_rows(size, hidden)  # (R,)
    try:
        rows_difference = largest_difference(head.tokens(hidden, rows), logits[:, rows])
        shift_difference = largest_difference(
            head.tokens_with(hidden[-1:], {path: project_shifted}), logits[-1:].roll(shift, -1)
        )
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        reraise_out_of_memory(error)
        return False
    return rows_difference <= tolerance and shift_difference <= tolerance


@proof(
    compares="the head with the model on a second text, of a vocabulary at seven entries; the model on a text alone "
    "and beside another; the head on a token alone and beside others",
    tolerance=f"rounding; {SUM_ERROR} times that in float32 beside other texts: larger batches sum in another order",
    why="a head that reads a state kept from a pass before; batch norms without running statistics; experts of limited "
    "capacity",
    when="first call; a pass of twice the texts, and the head on it",
)
def holds_on_another_text(
    pool: Pool[PreTrainedModel],
    head: Head | None,
    inputs: Mapping[str, Any],
    logits: Tensor,
    tokenwise: bool,
    tables: tuple[str, ...],
    filler: int,
    *,
    side_by_side: bool,
) -> tuple[str | None, tuple[str, ...]]:
    """Compare the head with the model on another text, and the model's logits in a batch with those alone.

    The first text is read a second time here: where its answer beside the other one is the same to rounding, the model
    answers the same again, and is not asked once more.

    Args:
        pool: Lends copies of the model.
        head: Its head; None without one, where only the model's answers are compared.
        inputs: A small batch.
        logits: The model's answer to it.
        tokenwise: Whether the head answers at single tokens.
        tables: Tables in which what is looked up equals the token ids of this text; positions may happen to.
        filler: A token id that is not padding.
        side_by_side: Whether texts are batched; not if they are known to change each other's answers.

    Returns:
        What could not be checked, None if everything was; and the tables in which both texts' token ids are looked up.
    """
    model, site = type(pool.model).__name__, None if head is None else Site(head.piece.trunk, call=0)
    random_states = _random_states()
    table_sites = {path: Site(path, call=0, is_input=True) for path in tables}
    sites = [*table_sites.values(), *([] if site is None else [site])]
    doubled, result, unverified = _run_doubled(pool, inputs, sites, filler)
    answers = None if unverified else answer_of(result.output)
    drew_random_numbers = _random_states() != random_states
    difference_in_batch = torch.inf if answers is None else largest_difference(answers[: len(logits)], logits)
    if drew_random_numbers or not difference_in_batch <= tolerance_for(logits):
        check_deterministic(pool, inputs, logits)
    if answers is None:
        return unverified, tables
    ids = doubled.get("input_ids")
    tables = tuple(p for p, s in table_sites.items() if any(same_ids(i, ids) for i in result.recorded.get(s, ())))
    batch_difference = difference_in_batch if side_by_side else 0.0
    hidden = None if site is None else hidden_of(result.last(site))
    if head is not None and hidden is not None:
        hidden = head.piece.swap_if_time_first(hidden)  # (B, T, H)
        with torch.inference_mode():
            rows = None if head.piece.output_embedding is None else _spread_rows(answers.shape[-1], hidden)  # (R,)
            states = hidden[0] if rows is None else hidden.flatten(0, 1)  # (T, H) or (B T, H)
            token_logits = first_alone = states[:1]  # (1, H)
            if tokenwise and rows is None:
                token_logits = head.first_tokens(states, doubled)  # (T, C)
                first_alone = head.first_tokens(states[:1], doubled)  # (1, C)
            elif tokenwise:
                token_logits, first_alone = head.tokens(states, rows), head.tokens(states[:1], rows)  # (B T, R), (1, R)
            if rows is None:
                difference = beyond_rounding(head.texts(hidden, doubled), answers)
            else:
                difference = beyond_rounding(token_logits, answers[..., rows].flatten(0, 1))
        if difference is not None:
            raise HeadMismatchError(
                f"the head of {model} reproduces the model's logits on one text and not on another, by "
                f"{difference:.2g}: it reads something else than {head.piece.trunk} gives it, such as a state kept "
                "from a pass before"
            )
        batch_difference = max(batch_difference, largest_difference(token_logits[:1], first_alone))
    if not quantises_by_batch(pool.model) and not batch_difference <= tolerance_for(answers) * (
        SUM_ERROR if answers.dtype in (torch.float32, torch.float64) else 1
    ):
        raise UnsupportedModelError(
            f"{model} answers a text differently beside another one, by {batch_difference:.2g}: something in it works "
            "on the whole batch, such as a batch norm without running statistics or experts of limited capacity"
        )
    return None, tables


def same_ids(indices: Any, ids: Any) -> bool:
    """Return whether a module was called with the token ids, (B, T)."""
    if not isinstance(indices, Tensor) or not isinstance(ids, Tensor) or indices.shape != ids.shape:
        return False
    return torch.equal(indices, ids.to(indices.device))


def _run_doubled(
    pool: Pool[PreTrainedModel], inputs: Mapping[str, Any], sites: list[Site], filler: int
) -> tuple[dict[str, Any], Pass, str | None]:
    """Run the model on a batch in which each text is repeated with its tokens in another order, or others.

    Returns:
        The inputs, the pass, and a note if the pass was not run or gave no logits, otherwise None.
    """
    names = ("input_ids", "pixel_values", "input_features", "input_values")
    main_name = next((name for name in names if name in inputs), None)
    if main_name is None:
        return {}, Pass(), "the model was not tried on a second text: none of its inputs is known"
    other = inputs[main_name].roll(1, -1)
    if main_name == "input_ids" and torch.equal(other, inputs[main_name]):  # one token, again and again
        other = torch.full_like(other, filler)
    doubled = {
        name: torch.cat((value, other if name == main_name else value))
        for name, value in inputs.items()
        if isinstance(value, Tensor)
    }
    doubled = {**inputs, **doubled}
    try:
        with torch.inference_mode(), pool.lease() as copy:
            result = run(copy, doubled, record=sites)
        answers = answer_of(result.output)
    except Exception as error:  # the same tokens in this order may be no text that the model reads
        reraise_out_of_memory(error)
        note = "the model was not tried on a second text: it does not read this one's tokens in another order"
        return doubled, Pass(), note
    if answers is None or not is_finite(answers):
        note = "the model was not tried on a second text: its logits for this one in another order are not finite"
        return doubled, Pass(), note
    return doubled, result, None


def _random_states() -> tuple[Any, ...]:
    """Return the states of the generators that a model may draw from: torch's, Python's and numpy's."""
    name, keys, *position = np.random.get_state()  # noqa: NPY002  # the state of those who draw without a generator
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), (name, np.asarray(keys).tobytes(), *position)


def _spread_rows(size: int, like: Tensor) -> Tensor:
    """Return evenly spread rows of a vocabulary, (R,), with the first and the last, on the device of `like`."""
    return torch.linspace(0, size - 1, PROOF_ROWS, dtype=torch.float64, device=like.device).long()
