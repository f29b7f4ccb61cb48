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

from ..copies.module_io import Form, Inputs, hidden_of, tensor_of
from ..copies.pool import ModelPool
from ..copies.run import Instead, Site, run
from ..copies.trace import Axes, Paths, path_of
from ..errors import HeadMismatchError, UnsupportedModelError
from .layer_outputs import LayerOutput, LayerOutputs
from .layer_to_head import Tail
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

    def texts(self, hidden: Tensor, inputs: Inputs) -> Tensor:
        """Return the model's logits for full sequences whose trunk gives these states, (B, T, H).

        Args:
            hidden: The states, (B, T, H).
            inputs: The inputs of the texts, (B, T).

        Raises:
            UnsupportedModelError: If the model returns no logits.
        """
        return self._call(hidden, inputs, {})

    def tokens(self, hidden: Tensor, rows: Tensor | None = None, inputs: Inputs | None = None) -> Tensor:
        """Return the head's logits at each token, (N, H), as a sequence of its own, (N, C), or (N, R) for rows, (R,).

        The inputs are those of the text of each, (N, ...), with those beside the text.
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
        of_token = {name: inputs[name][:1].expand(len(hidden), *inputs[name].shape[1:]) for name in self.piece.further}
        return self.tokens(hidden, rows, of_token)

    def tokens_with(
        self, hidden: Tensor, instead: Mapping[str, Instead] | None = None, inputs: Inputs | None = None
    ) -> Tensor:
        """Return the head's logits at each token, (N, C), with functions called instead of some of its modules.

        Args:
            hidden: The states, (N, H).
            instead: Functions that are called instead of a module, by its path.
            inputs: The inputs beside the text, (N, ...); None without any.
        """
        count = len(hidden)
        piece = self.piece
        further_inputs = {name: inputs[name] for name in piece.further if inputs is not None}
        sequences = hidden[:, None].expand(-1, piece.repeats, -1)  # (N, 1, H), or each token as often as the head reads
        mask = hidden.new_ones((count, 1), dtype=torch.long)
        main_input = {piece.main_input.name: piece.main_input.of_tokens(hidden)}
        if not piece.takes_ids:
            main_input = {"inputs_embeds": sequences}
        logits = self._call(sequences, main_input | {"attention_mask": mask, **further_inputs}, instead or {})
        return logits.reshape(count, -1)  # (N, C)

    def _columns(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """Return chosen columns of the full logits, (N, R), computed in pieces that bound the memory."""
        vocabulary_size = self.tokens_with(hidden[:1]).shape[-1]
        step = max(1, LOGITS_AT_ONCE // vocabulary_size)  # of tokens
        return torch.cat([self.tokens_with(states)[:, rows] for states in hidden.split(step)])

    def _call(self, hidden: Tensor, inputs: Inputs, instead: Mapping[str, Instead]) -> Tensor:
        """Return the logits of a copy whose trunk returns given states, (B, T, H), with functions called `instead`."""
        piece = self.piece
        skipped = {path: form.return_input for path, form in piece.skipped.items()}
        trunk = {piece.trunk: partial(_return_states, piece.form, piece.swap_if_time_first(hidden))}
        with self.pool.lease() as copy:
            logits = answer_of(run(copy, inputs, instead={**skipped, **trunk, **instead}).output)
        if logits is None:
            raise UnsupportedModelError(f"{type(self.pool.model).__name__} returns no logits")
        return logits


def output_embedding_path(model: PreTrainedModel) -> str | None:
    """Return the path of an output embedding whose rows may be computed alone; None if there is none."""
    embedding = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # of plain modules
    weight = getattr(embedding, "weight", None)
    if embedding is None or not isinstance(weight, Tensor) or weight.ndim != 2:
        return None
    if embedding._forward_hooks or embedding._forward_pre_hooks:
        return None  # they see the whole vocabulary, and may change single entries of it
    return path_of(model, embedding)


def _return_states(form: Form, hidden: Tensor, trunk: Any, *_: Any, **__: Any) -> Any:
    """Replace the trunk: return given hidden states in the form of its output, with a pooled one if it has that.

    Args:
        form: How the trunk returns its states.
        hidden: The states, (B, T, H).
        trunk: The trunk's own call, a bound method of the module.
    """
    output = form.wrap(hidden)
    pooler = getattr(trunk.__self__, "pooler", None)
    if form.pooled and isinstance(output, ModelOutput) and pooler is not None:
        output["pooler_output"] = pooler(hidden)
    return output


def _project_on_rows(rows: Tensor, embedding: Any, hidden: Tensor) -> Tensor:
    """Replace the output embedding: project states, (..., H), on some of its rows, (..., R)."""
    module: nn.Module = embedding.__self__
    weight, bias = module.weight, getattr(module, "bias", None)  # now: a parametrised weight is made anew each time
    return nn.functional.linear(hidden, weight[rows], None if bias is None else bias[rows])  # type: ignore[index]


@dataclass(frozen=True)
class Parts:
    """The parts of a model, as module paths."""

    headpiece: Headpiece | None = None  # the proved head; None if none reproduces the model's logits
    head_error: str = ""  # why there is none, said to what needs one
    tokenwise: bool = False  # whether the head on one token gives what it gives there in the text (Splinter's does not)
    trunk: str | None = None  # the module whose output the head reads; None without a head
    trunk_gives_states: bool = False  # whether its output holds the layers' outputs: the head need not run
    embedding_site: Site | None = None  # of the embedding layer's output; None if it is in `hidden_states` alone
    embedding_axes: Axes = (0, 1, 2)  # how the module there holds what is (B, T, H)
    states_lack_embeddings: bool = False  # whether `hidden_states` begins with the first layer's output, as Mamba's
    tail: Tail | None = None  # the modules between the layers and the head; None if the last layer's output is final
    early_exit: Paths | None = None  # layers to skip where `hidden_states` cannot be brought to the head
    layers: int | None = None  # number of layers; None when they cannot be read either way
    outputs: LayerOutputs | None = None  # where each layer's output is returned, if all are
    embedding_output: LayerOutput | None = None  # where the embedding layer's output is returned, if it is
    tables: Paths = ()  # tables in which token ids were looked up, the word embeddings among them
    unverified: tuple[str, ...] = ()  # notes on proofs that could not be run, for results

    @property
    def head(self) -> Headpiece:
        """The proved head."""
        if self.headpiece is None:
            raise self.head_mismatch
        return self.headpiece

    @property
    def head_mismatch(self) -> HeadMismatchError:
        """A new error for a model without a proved head; errors are not reused, as they keep their traceback."""
        return HeadMismatchError(self.head_error)

    @property
    def trunk_site(self) -> Site | None:
        """The site of the trunk for `run`: its output at every call."""
        return None if self.trunk is None else Site(self.trunk, call=0)

    @property
    def sites(self) -> list[Site]:
        """The sites of the trunk and of the embedding layer's output, if they are known."""
        return [site for site in (self.trunk_site, self.embedding_site) if site is not None]

    def hidden(self, model: nn.Module, returned: Any) -> Tensor:
        """Return the hidden states in the trunk's output, (B, T, H).

        Args:
            model: The model, for errors.
            returned: What the trunk returned.

        Raises:
            HeadMismatchError: If it returned no hidden states.
        """
        if (hidden := hidden_of(returned)) is None:
            raise HeadMismatchError(f"{self.trunk} of {type(model).__name__} returned no hidden states")
        return self.head.swap_if_time_first(hidden)

    def embedded(self, recorded: Any, length: int) -> Tensor | UnsupportedModelError | None:
        """Return the embedding layer's output from what was recorded, (B, T, H).

        Args:
            recorded: What was recorded at `embedding_site`; None for nothing.
            length: The number of tokens, T.

        Returns:
            The states; None if they are not known; an error, which the caller may raise, for fewer positions than
            tokens.
        """
        tensor = tensor_of(recorded)
        if tensor is None or self.embedding_site is None:
            return None
        states = tensor.permute(self.embedding_axes)[:, :length]  # (B, T, H)
        if states.shape[1] == length:
            return states
        return UnsupportedModelError(
            f"the layers read {states.shape[1]} positions for {length} tokens, so a token has no embedding of its own; "
            "models that squeeze the input before their layers cannot be explained token by token"
        )
