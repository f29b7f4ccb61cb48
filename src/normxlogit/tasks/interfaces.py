"""The interfaces of models and forward passes that tasks may use."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from ..copies.run import Replace
from ..inputs.batching import Batch
from ..inputs.encoder import Encoder
from ..parts.headpiece import Head
from ..parts.parts import Parts

if TYPE_CHECKING:
    from .base import Task


class ModelInterface(Protocol):
    """The interface of a model that tasks may use; `TaskModel` has more."""

    name: str
    reader: Any
    tokenizer: Any

    @property
    def config(self) -> PretrainedConfig:
        """The configuration of the caller's model."""
        ...

    @property
    def encoder(self) -> Encoder:
        """What makes encodings of texts."""
        ...

    @property
    def pad_id(self) -> int:
        """The token id for padding."""
        ...

    @property
    def pad_left(self) -> bool:
        """Whether padding stands before a text."""
        ...

    @property
    def task(self) -> "Task":
        """The model's task."""
        ...

    @property
    def module(self) -> PreTrainedModel:
        """The copy of the caller's model that is explained."""
        ...

    @property
    def unmodified(self) -> PreTrainedModel:
        """A copy that answers as the caller's model does, whatever was changed on `module`."""
        ...

    @property
    def parts(self) -> Parts:
        """The parts that were found in `module`."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the inputs go."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """Number of outputs of a language model's head."""
        ...

    @property
    def head(self) -> Head:
        """The proved head."""
        ...

    def answer(
        self,
        inputs: Mapping[str, Tensor],
        positions: Tensor | None = None,
        *,
        replace: Mapping[str, Replace] | None = None,
    ) -> Tensor:
        """Return the model's logits, (B, C)."""
        ...

    def run_trunk(self, inputs: Mapping[str, Tensor], *, replace: Mapping[str, Replace] | None = None) -> Tensor:
        """Return what the head reads, (B, T, H)."""
        ...


class ForwardInterface(Protocol):
    """The interface of a forward pass that tasks may use; see `ForwardPass`."""

    @property
    def batch(self) -> Batch:
        """What was read."""
        ...

    @property
    def logits(self) -> Tensor:
        """The model's answer, (B, C)."""
        ...

    @property
    def positions(self) -> Tensor | None:
        """The position whose prediction is explained, (B,), or (B, 2)."""
        ...

    @property
    def logits_by_position(self) -> Tensor | None:
        """What the model answers at every token, (B, T, C)."""
        ...
