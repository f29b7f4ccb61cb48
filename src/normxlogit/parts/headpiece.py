"""The headpiece: a model's head as a callable, which is proved.

It is the model's own code, run on a copy whose trunk returns given states: scaling, biases and adapters are its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..copies.module_io import Form, Inputs
from ..copies.pool import ModelPool
from ..copies.run import Instead, run
from ..copies.trace import path_of
from ..errors import UnsupportedModelError
from .main_input import MainInput

TOKENS_AT_ONCE = 256
"""Tokens whose logits of the whole vocabulary are in memory at once."""

LOGITS_AT_ONCE = 65_536_000
"""Most logits computed at once if single rows of the output embedding cannot be computed alone."""


def answer_of(output: Any) -> Tensor | None:
    """Return the logits in a model's output, None if it has none; start and end logits are stacked, (B, T, 2)."""
    logits = output.get("logits")
    if logits is None and output.get("start_logits") is not None and output.get("end_logits") is not None:
        logits = torch.stack((output["start_logits"], output["end_logits"]), -1)  # (B, T, 2)
    return logits if isinstance(logits, Tensor) else None


@dataclass(frozen=True)
class Headpiece:
    """The trunk that a head follows, and how the head is called."""

    trunk: str  # path of the trunk, whose output the head reads
    form: Form  # how the trunk returns it
    main_input: MainInput
    time_first: bool = False  # whether the trunk gives (T, B, H)
    skipped: Mapping[str, Form] = field(default_factory=dict)  # layers outside the trunk, with how they return a state
    output_embedding: str | None = None  # where chosen rows alone can be computed; None if they cannot
    takes_ids: bool = True  # single tokens are ids; heads that search these for separators get vectors
    repeats: int = 1  # how often a token stands in its sequence of one: heads may pool two places
    further: tuple[str, ...] = ()  # the names of inputs beside the text, which the head may read, too

    def swap_if_time_first(self, hidden: Tensor) -> Tensor:
        """Swap the first two axes of states if the trunk's are time first: to (B, T, H), or back."""
        return hidden.transpose(0, 1) if self.time_first else hidden


@dataclass(frozen=True)
class Head:
    """The head of a model as a callable."""

    pool: ModelPool  # lends copies of the model
    piece: Headpiece

    def texts(self, hidden: Tensor, inputs: Inputs, instead: Mapping[str, Instead] | None = None) -> Tensor:
        """Return the logits of a copy of the model whose trunk returns given states, (B, C) or (B, T, C).

        Args:
            hidden: The states, (B, T, H).
            inputs: The inputs of the texts, (B, T).
            instead: Functions that are called instead of a module of the head, by its path.

        Raises:
            UnsupportedModelError: If the model returns no logits.
        """
        piece = self.piece
        skipped = {path: form.return_input for path, form in piece.skipped.items()}
        trunk = {piece.trunk: partial(_return_states, piece.form, piece.swap_if_time_first(hidden))}
        with self.pool.lease() as copy:
            logits = answer_of(run(copy, inputs, instead={**skipped, **trunk, **(instead or {})}).output)
        if logits is None:
            raise UnsupportedModelError(f"{type(self.pool.model).__name__} returns no logits")
        return logits

    def tokens(self, hidden: Tensor, rows: Tensor | None = None, inputs: Inputs | None = None) -> Tensor:
        """Return the head's logits at each token as a sequence of its own, (N, C), or (N, R) for some rows.

        Args:
            hidden: The trunk's states of N tokens, (N, H), of any texts.
            rows: The rows of the vocabulary that are computed, (R,); None for all C outputs.
            inputs: The inputs `Headpiece.further` of the text of each token, (N, ...); None without any. Where rows are
                chosen, the head is called without them.
        """
        if rows is None:
            return self.tokens_with(hidden, inputs=inputs)
        if self.piece.output_embedding is None:
            return self._columns(hidden, rows)
        return self.tokens_with(hidden, {self.piece.output_embedding: partial(_project_on_rows, rows)})  # (N, R)

    def first_tokens(self, hidden: Tensor, inputs: Inputs, rows: Tensor | None = None) -> Tensor:
        """Return the head's logits at tokens of the first text, (T, C) or (T, R), of its states, (T, H).

        Args:
            hidden: The states of the first text, (T, H).
            inputs: The inputs of all texts, (B, ...).
            rows: The rows of the vocabulary that are computed, (R,); None for all outputs.
        """
        further = {name: inputs[name][:1].expand(len(hidden), *inputs[name].shape[1:]) for name in self.piece.further}
        return self.tokens(hidden, rows, further)

    def tokens_with(
        self, hidden: Tensor, instead: Mapping[str, Instead] | None = None, inputs: Inputs | None = None
    ) -> Tensor:
        """Return the head's logits at each token, (N, C), with functions called instead of some of its modules.

        Args:
            hidden: The states, (N, H).
            instead: Functions that are called instead of a module, by its path.
            inputs: As for `tokens`.
        """
        piece = self.piece
        further_inputs = {name: inputs[name] for name in piece.further if inputs is not None}  # {} without any
        sequences = hidden[:, None].expand(-1, piece.repeats, -1)  # (N, 1, H), or each token as often as the head reads
        mask = hidden.new_ones((len(hidden), 1), dtype=torch.long)
        main_input = {piece.main_input.name: piece.main_input.of_tokens(hidden)}
        if not piece.takes_ids:  # any vectors will do: the trunk, which would read them, is replaced
            main_input = {"inputs_embeds": sequences}
        logits = self.texts(sequences, main_input | {"attention_mask": mask, **further_inputs}, instead)
        return logits.reshape(len(hidden), -1)  # (N, C), also of a head that answers at each token, (N, 1, C)

    def _columns(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """Return chosen columns of the full logits, (N, R), computed in pieces that bound the memory."""
        # One token tells how many logits each has.
        vocabulary_size = self.tokens_with(hidden[:1]).shape[-1]
        step = max(1, LOGITS_AT_ONCE // vocabulary_size)  # of tokens
        return torch.cat([self.tokens_with(states)[:, rows] for states in hidden.split(step)])


def output_embedding_path(model: PreTrainedModel) -> str | None:
    """Return the path of an output embedding whose rows may be computed alone; None if there is none."""
    embedding = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # of plain modules
    weight = getattr(embedding, "weight", None)
    # Quantised weights may be packed in another form, or be no tensor.
    if embedding is None or not isinstance(weight, Tensor) or weight.ndim != 2:
        return None
    if embedding._forward_hooks or embedding._forward_pre_hooks:
        return None  # they see the whole vocabulary, and may change single entries of it
    return path_of(model, embedding)


def _return_states(form: Form, hidden: Tensor, call_trunk: Any, *_: Any, **__: Any) -> Any:
    """Replace the trunk: return given hidden states in the form of its output.

    Heads may read the output of the trunk's pooler instead of the states: it is computed from them.

    Args:
        form: How the trunk returns its states.
        hidden: The states, (B, T, H).
        call_trunk: The trunk's own forward, a bound method of the module, which is not called.
    """
    output = form.wrap(hidden)
    pooler = getattr(call_trunk.__self__, "pooler", None)
    if form.pooled and isinstance(output, ModelOutput) and pooler is not None:
        output["pooler_output"] = pooler(hidden)
    return output


def _project_on_rows(rows: Tensor, call_embedding: Any, hidden: Tensor) -> Tensor:
    """Replace the output embedding: project states, (..., H), on some of its rows, (..., R).

    Args:
        rows: The rows, (R,).
        call_embedding: Its own forward, a bound method of the module, which is not called.
        hidden: The states, (..., H).
    """
    module: nn.Module = call_embedding.__self__
    weight, bias = module.weight, getattr(module, "bias", None)  # now: a parametrised weight is made anew each time
    return nn.functional.linear(hidden, weight[rows], None if bias is None else bias[rows])  # type: ignore[index]
