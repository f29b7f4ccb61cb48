"""`ForwardPass`: the inputs, states and logits of one run of a model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import InputError, NormXLogitError, UnsupportedModelError
from ..inputs.batches import Batch
from ..parts.proofs import outputs_beyond_rounding


@dataclass(frozen=True)
class ForwardPass:
    """The inputs, states and logits of one run of the model; in the place of a missing state is the error for it."""

    batch: Batch
    final: Tensor | NormXLogitError  # what the head reads, (B, T, H), or why there is nothing; see `hidden`
    embedding_output: Tensor | NormXLogitError  # the embedding layer's output, (B, T, H); see `embedded`
    states: tuple[Tensor, ...] | None  # the embedding layer's output and every layer's, (B, T, H) each, if requested
    logits: Tensor  # the model's answer, (B, C), for heads that answer at every token at the position explained
    read_tokens: Callable[[], Tensor] | None  # returns `token_logits`; None for vocabulary heads, and without a head
    positions: Tensor | None  # where it is read, (B,), or (B, 2) for a span; None for answers about the whole text
    logits_by_position: Tensor | None = None  # (B, T, C); None for whole-text and vocabulary heads
    outputs: Mapping[str, Any] | None = None  # the outputs of the model, if the caller ran it

    @cached_property
    def token_logits(self) -> Tensor | None:
        """The head's answer at each of the N real tokens, (N, C), in the order of `batch.mask`."""
        return None if self.read_tokens is None else self.read_tokens()

    @property
    def hidden(self) -> Tensor:
        """The final hidden states, which the head reads, (B, T, H)."""
        return _tensor_or_raise(self.final)

    @property
    def embedded(self) -> Tensor:
        """The embedding layer's output, (B, T, H)."""
        return _tensor_or_raise(self.embedding_output)

    @property
    def dtype(self) -> torch.dtype | None:
        """The precision of the pass; None if it recorded no state."""
        return next((state.dtype for state in (self.final, self.embedding_output) if isinstance(state, Tensor)), None)

    def row(self, index: int) -> "ForwardPass":
        """Return the pass of one text of the batch, padding included."""
        rows = slice(index, index + 1)  # which keeps the axis of texts
        return ForwardPass(
            self.batch.rows(rows),
            final=_rows_of(self.final, rows),
            embedding_output=_rows_of(self.embedding_output, rows),
            states=None if self.states is None else tuple(state[rows] for state in self.states),
            logits=self.logits[rows],
            read_tokens=None if self.read_tokens is None else partial(self._token_logits_of, index),
            positions=_rows_of(self.positions, rows),
            logits_by_position=_rows_of(self.logits_by_position, rows),
        )  # without `outputs`, which are those of the whole batch

    def _token_logits_of(self, index: int) -> Tensor:
        """Return the head's answer at each token of one text, (T, C)."""
        return cast(Tensor, self.token_logits)[self.batch.texts == index]


def _rows_of(value: Any, rows: slice) -> Any:
    """Return some rows of a tensor, (B, ...); what is not a tensor, as None or an error, is the same for all rows."""
    return value[rows] if isinstance(value, Tensor) else value


def _tensor_or_raise(state: Tensor | NormXLogitError) -> Tensor:
    """Return a state, or raise the error that is in its place."""
    if isinstance(state, NormXLogitError):
        raise type(state)(*state.args)  # a new one each time: an error keeps its traceback
    return state


def check_same_pass(theirs: ForwardPass, ours: ForwardPass) -> None:
    """Refuse to explain the caller's pass by a second pass, of the same inputs, with other hidden states."""
    if not isinstance(theirs.final, Tensor):  # there are none to compare
        return
    if outputs_beyond_rounding(theirs.batch.real(theirs.final), ours.batch.real(ours.hidden)) is not None:
        raise InputError(
            "the model gives other hidden states than these outputs hold when it is run again; have its weights "
            "changed, and was it in evaluation mode?"
        )


def no_states(module: nn.Module) -> UnsupportedModelError:
    """Return the error for a model that does not return the outputs of its layers."""
    return UnsupportedModelError(f"{type(module).__name__} does not give its layers' outputs")
