"""The interfaces of models and forward passes that tasks may use."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from ..inputs.batching import Batch
from ..inputs.encoder import Encoder

if TYPE_CHECKING:
    from .base import Task

Pooling = Literal["mean", "first", "last"]
"""How the states of a text's tokens become one vector: their mean, or the first or last token's."""


class ModelInterface(Protocol):
    """The interface of a model that tasks may use; `TaskModel` has more."""

    name: str

    @property
    def task(self) -> "Task":
        """The model's task."""
        ...

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        ...

    @property
    def encoder(self) -> Encoder:
        """The encoder of texts."""
        ...

    @property
    def config(self) -> PretrainedConfig:
        """The configuration of the caller's model."""
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
    def extra_inputs(self) -> Mapping[str, Tensor]:
        """The inputs beside the text, (1, ...) each, of texts that have none of their own."""
        ...

    @property
    def module(self) -> PreTrainedModel:
        """The copy of the caller's model that is explained."""
        ...

    @property
    def unmodified(self) -> PreTrainedModel:
        """A copy with the caller's own forward, without the changes that the task made to `module`."""
        ...

    @property
    def device(self) -> torch.device:
        """The device of the inputs."""
        ...


class ForwardInterface(Protocol):
    """The interface of a forward pass that tasks may use; see `ForwardPass`."""

    @property
    def batch(self) -> Batch:
        """The batch of the pass."""
        ...

    @property
    def logits(self) -> Tensor:
        """The logits that are explained, (B, C)."""
        ...

    @property
    def positions(self) -> Tensor | None:
        """The position whose prediction is explained, (B,), or (B, 2)."""
        ...

    @property
    def logits_by_position(self) -> Tensor | None:
        """The logits at every token, (B, T, C)."""
        ...
