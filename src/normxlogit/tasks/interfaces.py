"""The interfaces of models and forward passes that tasks may use; `TaskModel` and `ForwardPass` describe them."""

from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from ..inputs.encoder import Encoder
from ..inputs.encoding import Batch

if TYPE_CHECKING:
    from .base import Task

Pooling = Literal["mean", "first", "last"]
"""How the states of a text's tokens become one vector: their mean, or the first or last token's."""


class ModelInterface(Protocol):
    """The interface of a model that tasks may use; `TaskModel` has more, and describes each."""

    name: str

    @property
    def task(self) -> "Task": ...
    @property
    def tokenizer(self) -> Any: ...
    @property
    def encoder(self) -> Encoder: ...
    @property
    def config(self) -> PretrainedConfig: ...
    @property
    def pad_id(self) -> int: ...
    @property
    def pad_left(self) -> bool: ...
    @property
    def module(self) -> PreTrainedModel: ...
    @property
    def unmodified(self) -> PreTrainedModel: ...
    @property
    def device(self) -> torch.device: ...


class ForwardInterface(Protocol):
    """The interface of a forward pass that tasks may use; `ForwardPass` has more, and describes each."""

    @property
    def batch(self) -> Batch: ...
    @property
    def logits(self) -> Tensor: ...
    @property
    def positions(self) -> Tensor | None: ...
    @property
    def logits_by_position(self) -> Tensor | None: ...
