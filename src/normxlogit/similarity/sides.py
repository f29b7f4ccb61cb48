"""The two sides of a comparison: texts or pictures, embedded by the model or by one of its towers."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ..copies.clone import unwrapped
from ..errors import InputError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..model.batch_attempts import results_in_batches
from ..model.task_model import TaskModel
from ..results.storage.schema import Strings


@runtime_checkable
class Embeds(Protocol):
    """A task whose model embeds texts, or what else is compared, as vectors.

    It, or the task of each of its parts, has a method `encode_each(model, items)` that returns the items' encodings.
    """

    def items_compared(self, items: Any, prompt_name: str | None = None) -> tuple[list[Any], bool]:
        """Return the items whose vectors are compared, and whether a single one was given.

        Args:
            items: A text or a picture, or several.
            prompt_name: The name of the prompt that is put before each; None for the model's own.
        """
        ...

    def comparison_notes(self, lengths: tuple[float, float], *, prompted: bool) -> Strings:
        """Return notes about how the model itself compares two vectors, where that is not their cosine.

        Args:
            lengths: The lengths of the two vectors.
            prompted: Whether the caller has named prompts.
        """
        ...

    def part_for(self, model: nn.Module, item: Any) -> tuple[nn.Module, Any] | None:
        """Return the part of a model that embeds an item, with its tokenizer or processor; None for the whole model.

        Args:
            model: The model.
            item: A text or a picture.
        """
        ...


class Side(NamedTuple):
    """One text or picture with its vector and those of its tokens."""

    encoding: Encoding
    vector: Tensor  # the model's vector, normalised to length 1, (C,)
    length: float  # of the vector before
    token_vectors: Tensor  # what the head makes of each token alone, normalised, (T, C); NaN if it reads none alone


class Sides(NamedTuple):
    """A query and K documents that are compared with it, each with the model or the tower that embeds it."""

    query_tower: TaskModel
    document_tower: TaskModel
    query: Side
    documents: list[Side]


def embedding_task(model: TaskModel) -> Embeds:
    """Return the task of a model that embeds; refuse any other model.

    Args:
        model: The model.

    Raises:
        UnsupportedModelError: If it does not embed.
    """
    if not isinstance(model.task, Embeds):
        raise UnsupportedModelError(
            f"{model.name} is a model for {model.task.name}; similarity needs one that embeds texts: load it with "
            "task='embedding', or pass a SentenceTransformer. A reranker, which reads both texts at once, is a "
            "classifier: explain the pair (query, document)"
        )
    return model.task


def _tower_for(model: TaskModel, item: Any) -> TaskModel:
    """Return the model that embeds an item, a text or a picture: the model itself, or one of its two towers."""
    tower = embedding_task(model).part_for(unwrapped(model.caller_model), item)
    return model if tower is None else model.side(*tower)


def _encoded(model: TaskModel, items: Sequence[Any]) -> list[Encoding]:
    """Return the encodings of texts, or of pictures, for the model or the tower that embeds them."""
    task: Any = model.task
    return task.encode_each(model, items)


def embedded_sides(model: TaskModel, first_item: Any, second_items: Sequence[Any]) -> Sides:
    """Return an item and those that it is compared with, embedded, each with its tower.

    Args:
        model: A model that embeds.
        first_item: A text or a picture.
        second_items: Texts, or pictures, one or more.

    Raises:
        InputError: If there are both texts and pictures among the second items.
    """
    query_tower = _tower_for(model, first_item)
    document_tower, *towers_of_others = (_tower_for(model, item) for item in second_items)  # each made once
    if any(tower is not document_tower for tower in towers_of_others):
        raise InputError("compare with texts or with pictures, one kind at a time")
    if document_tower is query_tower:  # encoded together, as pictures without a name are numbered
        query_encoding, *encodings = _encoded(query_tower, [first_item, *second_items])
    else:
        (query_encoding,) = _encoded(query_tower, [first_item])
        encodings = _encoded(document_tower, second_items)
    (query,) = _embed(query_tower, [query_encoding])
    return Sides(query_tower, document_tower, query, documents=_embed(document_tower, encodings))


def _embed(model: TaskModel, encodings: Sequence[Encoding]) -> list[Side]:
    """Compute the vectors of texts or pictures and of their tokens, in batches."""
    return results_in_batches(model, encodings, lambda indices: embed_batch(model, [encodings[i] for i in indices]))


def embed_batch(model: TaskModel, encodings: list[Encoding]) -> list[Side]:
    """Compute the vectors of B texts or pictures in one batch, and those of each of their N tokens alone.

    Args:
        model: The model, or the tower, that embeds them.
        encodings: Their encodings.
    """
    batch = model.batch(encodings)
    with torch.inference_mode():
        run = model.run(batch)
        vectors = _normalised(run.logits)  # (B, C)
        if isinstance(run.final, Tensor):  # in its place may be the error that says why there is no head
            token_vectors = _normalised(model.head_logits(run.hidden, batch))  # (N, C)
        else:
            token_vectors = vectors.new_full((int(batch.mask.sum()), vectors.shape[1]), torch.nan)  # (N, C)
    # Cloned outside inference mode, as later code backpropagates through the model.
    vectors_by_text = token_vectors.clone().split([len(encoding) for encoding in encodings])  # (T, C) each
    model.check_finite(vectors.cpu().numpy(), batch)
    lengths = run.logits.float().norm(dim=-1).tolist()  # B, for the notes on a comparison by the dot product
    rows = zip(encodings, vectors.clone(), lengths, vectors_by_text, strict=True)
    return [Side(encoding, vector, length, vectors_alone) for encoding, vector, length, vectors_alone in rows]


def _normalised(vectors: Tensor) -> Tensor:
    """Return vectors brought to length 1, in float32."""
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
