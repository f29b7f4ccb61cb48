"""The record of one forward pass."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import InputError, NormXLogitError, UnsupportedModelError
from ..inputs.encoding import Batch
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
        this_row = slice(index, index + 1)
        batch = self.batch
        return ForwardPass(
            batch.rows(this_row),
            self.final[this_row] if isinstance(self.final, Tensor) else self.final,
            self.embedding_output[this_row] if isinstance(self.embedding_output, Tensor) else self.embedding_output,
            None if self.states is None else tuple(state[this_row] for state in self.states),
            self.logits[this_row],
            None if self.read_tokens is None else lambda: cast(Tensor, self.token_logits)[batch.texts == index],
            None if self.positions is None else self.positions[this_row],
            None if self.logits_by_position is None else self.logits_by_position[this_row],
        )


def to_host(*tensors: Tensor | None) -> list[Any]:
    """Bring tensors from the device as float32 arrays, in one transfer; None stays None, indices below 2^24 exact."""
    on_device = [t for t in tensors if t is not None and t.device.type != "cpu"]
    if not on_device:
        return [None if t is None else t.float().numpy() for t in tensors]
    flat = torch.cat([t.float().to(on_device[0].device).flatten() for t in tensors if t is not None]).cpu()
    parts = iter(flat.split([t.numel() for t in tensors if t is not None]))
    return [None if t is None else next(parts).view(t.shape).numpy() for t in tensors]


def check_same_pass(theirs: ForwardPass, ours: ForwardPass) -> None:
    """Refuse to explain the caller's pass by a second pass with other hidden states."""
    if not isinstance(theirs.final, Tensor):
        return
    if outputs_beyond_rounding(theirs.batch.real(theirs.final), ours.batch.real(ours.hidden)) is not None:
        raise InputError(
            "the model gives other hidden states than these outputs hold when it is run again; have its weights "
            "changed, and was it in evaluation mode?"
        )


def no_states(module: nn.Module) -> UnsupportedModelError:
    """Return the error for a model that does not return the outputs of its layers."""
    return UnsupportedModelError(f"{type(module).__name__} does not give its layers' outputs")


def _tensor_or_raise(state: Tensor | NormXLogitError) -> Tensor:
    """Return a state, or raise the error that is in its place."""
    if isinstance(state, NormXLogitError):
        raise type(state)(*state.args)  # a new one each time: an error keeps its traceback
    return state
