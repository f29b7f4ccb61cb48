"""Find the trunk and the head that reads its output, by trying candidates until one is proved."""

from collections.abc import Iterator
from dataclasses import replace
from types import FunctionType
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..copies.memory import attempted, reraise_out_of_memory
from ..copies.module_io import Form
from ..copies.pool import ModelPool
from ..copies.trace import Call
from ..errors import HeadMismatchError, reason_of
from .headpiece import Head, Headpiece, output_embedding_path
from .model_proofs import rows_are_of_the_vocabulary, spread_rows
from .proofs import (
    batch_tolerance,
    beyond_rounding,
    head_reads_tokens_alone,
    largest_difference,
    proof,
    quantises_by_batch,
)
from .traced import Traced
from .trunk_candidates import is_time_first


class ProvedHead(NamedTuple):
    """A head that was proved to answer as the model."""

    head: Head
    trunk: Call  # the call whose output the head reads
    tokenwise: bool  # whether it gives at a token alone what it gives there in the text


def _nothing_tried(model: PreTrainedModel) -> str:
    """Return why there was no trunk to try."""
    if isinstance(vars(model).get("forward"), FunctionType):
        return (
            "nothing: a function was assigned to the model's forward, and it does not call the modules of a copy of "
            "the model; override forward in a subclass"
        )
    return "nothing: no module returns hidden states"


def find_head(
    pool: ModelPool, candidates: Iterator[Call], traced: Traced, piece: Headpiece, *, over_vocabulary: bool
) -> ProvedHead:
    """Return the head behind the first candidate with which it is proved.

    Args:
        pool: Copies of the model.
        candidates: Calls that could be the trunk's, likely ones first.
        traced: A pass over two texts, or over one if the model does not read a second.
        piece: How the head is called, without the trunk.
        over_vocabulary: Whether its outputs are the vocabulary, see `prove_head`.

    Raises:
        HeadMismatchError: If it is proved with none; it says why for each.
    """
    failures = []
    for trunk in candidates:
        try:
            with torch.inference_mode():
                return prove_head(pool, trunk, traced, piece, over_vocabulary=over_vocabulary)
        except Exception as error:  # noqa: PERF203  # a wrong guess may fail in any way; the next one is tried
            reraise_out_of_memory(error)
            error_class = "" if isinstance(error, HeadMismatchError) else f"{type(error).__name__}: "
            failures.append(f"{trunk.path}: {error_class}{reason_of(error)}")
    raise HeadMismatchError(
        f"the head of {type(pool.model).__name__} could not be applied by itself: no trunk was found with which it "
        f"reproduces the model's logits. Tried {'; '.join(failures) or _nothing_tried(pool.model)}"
    )


@proof(
    compares="the head on the trunk's states of two whole texts, in another order, and the model's logits; the head on "
    "a token alone and beside others",
    tolerance="rounding",
    why="the trunk is where it was guessed, and the head reads nothing else, such as a state kept from a pass before",
    when="first call, for each candidate; the head alone",
)
def prove_head(pool: ModelPool, trunk: Call, traced: Traced, piece: Headpiece, *, over_vocabulary: bool) -> ProvedHead:
    """Prove the head that reads a module's output.

    Args:
        pool: Copies of the model.
        trunk: The call of the module.
        traced: The pass that it is of.
        piece: How the head is called, without the trunk.
        over_vocabulary: Whether its outputs are the vocabulary, whose logits are computed at some tokens alone.

    Raises:
        HeadMismatchError: If its logits differ from the model's.
    """
    model = pool.model
    inputs = traced.inputs
    hidden = trunk.hidden
    if hidden is None:  # for the type: candidates have returned some
        raise HeadMismatchError("no hidden states")
    head = Head(pool, _with_trunk(piece, model, trunk, hidden, inputs.get("input_ids")))
    hidden = head.piece.swap_if_time_first(hidden)  # (B, T, H)
    _check_whole_texts(head, hidden, traced)
    head, rows, logits = _first_tokens(head, hidden, traced)
    rows_are_proved = rows is not None  # at each token alone
    answers_texts = traced.logits.ndim == 2  # with nothing at a token that could be compared
    tokenwise = rows_are_proved or answers_texts or head_reads_tokens_alone(logits, traced.logits[0])
    if over_vocabulary and not tokenwise:
        raise HeadMismatchError("the vocabulary's logits at a token depend on other tokens")
    if tokenwise and not quantises_by_batch(model):  # where it does, tokens side by side change each other's logits
        difference = largest_difference(head.first_tokens(hidden[0, :1], inputs, rows), logits[:1])
        # It is NaN, which is accepted here, where the head pools two positions: its task then sets `Headpiece.repeats`.
        if difference > batch_tolerance(logits):
            raise HeadMismatchError(f"the logits at a token differ beside others by {difference:.2g}")
    return ProvedHead(head, trunk, tokenwise)


def _with_trunk(piece: Headpiece, model: PreTrainedModel, trunk: Call, hidden: Tensor, ids: Tensor | None) -> Headpiece:
    """Return the piece with its trunk; layers inside the trunk need not be skipped."""
    skipped = {path: form for path, form in piece.skipped.items() if not f"{path}.".startswith(f"{trunk.path}.")}
    # Of a picture or a sound, which has no ids, states are taken to be batch first.
    time_first = ids is not None and is_time_first(model, hidden, ids.shape)
    return replace(piece, trunk=trunk.path, form=Form.of(trunk.returned), time_first=time_first, skipped=skipped)


def _check_whole_texts(head: Head, hidden: Tensor, traced: Traced) -> None:
    """Refuse a head whose logits for B texts, of their states (B, T, H), are not the model's.

    The texts are in another order: a head that reads a state kept from the pass before would answer in the first one.
    """
    text_count = len(traced.logits)
    tensors = {name: value for name, value in traced.inputs.items() if isinstance(value, Tensor)}
    # An input may have several rows for each text, such as the pictures of a prompt.
    reordered = {name: value.roll(len(value) // text_count, 0) for name, value in tensors.items()}
    logits = head.texts(hidden.roll(1, 0), {**traced.inputs, **reordered})
    difference = beyond_rounding(logits, traced.logits.roll(1, 0))
    if difference is not None:
        raise HeadMismatchError(f"logits differ by {difference:.2g}")


class _TokenAnswers(NamedTuple):
    """What a head answers to each token of a text by itself."""

    head: Head  # the head as it is called for tokens
    rows: Tensor | None  # the rows of the vocabulary that are computed alone, (R,); None for all outputs
    logits: Tensor  # (T, R) or (T, C)


def _first_tokens(head: Head, hidden: Tensor, traced: Traced) -> _TokenAnswers:
    """Apply the head to the first text's tokens, each by itself.

    Args:
        head: The head.
        hidden: The trunk's states, (B, T, H).
        traced: The pass that they are of.
    """
    logits = traced.logits
    path = output_embedding_path(head.pool.model) if logits.ndim > 2 else None  # (B, C) is no vocabulary's
    of_rows = Head(head.pool, replace(head.piece, output_embedding=path))
    if path is not None and rows_are_of_the_vocabulary(of_rows, path, hidden.flatten(0, 1), logits.flatten(0, 1)):
        rows = spread_rows(logits)  # (R,)
        return _TokenAnswers(of_rows, rows, of_rows.first_tokens(hidden[0], traced.inputs, rows))
    with attempted():
        return _TokenAnswers(head, None, head.first_tokens(hidden[0], traced.inputs))
    # It failed: some heads search the ids, as Longformer's does for three separators. Vectors have none to search.
    head = Head(head.pool, replace(head.piece, takes_ids=False))
    return _TokenAnswers(head, None, head.first_tokens(hidden[0], traced.inputs))
