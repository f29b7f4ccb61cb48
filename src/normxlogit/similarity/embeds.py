"""Tasks whose models embed what is compared as vectors."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from torch import nn

from ..copies.clone import unwrapped
from ..errors import UnsupportedModelError
from ..inputs.encoding import Encoding
from ..model.task_model import TaskModel


@runtime_checkable
class Embeds(Protocol):
    """A task whose model embeds texts, or what else is compared, as vectors.

    It, or the task of each of its parts, has a method `encode_each(model, items)` that returns the items' encodings.
    """

    def items_compared(self, items: Any) -> tuple[list[Any], bool]:
        """Return the items whose vectors are compared, and whether a single one was given."""
        ...

    def part_for(self, model: nn.Module, item: Any) -> tuple[nn.Module, Any] | None:
        """Return the part of a model that embeds an item, with its tokenizer or processor; None for the whole model."""
        ...


def embedding_task(model: TaskModel) -> Embeds:
    """Return the task of a model that embeds."""
    if not isinstance(model.task, Embeds):
        raise UnsupportedModelError(
            f"{model.name} is a model for {model.task.name}; similarity needs one that embeds texts: load it with "
            "task='embedding', or pass a SentenceTransformer. A reranker, which reads both texts at once, is a "
            "classifier: explain the pair (query, document)"
        )
    return model.task


def tower_for(model: TaskModel, item: Any) -> TaskModel:
    """Return the model that embeds an item: the model itself, or one of its two towers."""
    tower = embedding_task(model).part_for(unwrapped(model.caller_model), item)
    return model if tower is None else model.side(*tower)


def encoded(model: TaskModel, items: Sequence[Any]) -> list[Encoding]:
    """Return the encodings of items that a model, or a tower, embeds."""
    task: Any = model.task
    encodings: list[Encoding] = task.encode_each(model, items)
    return encodings
