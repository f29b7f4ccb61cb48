"""Where pictures and sounds enter a frozen network, and the answer as what flows from there and from the words."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..surgery.frozen import FrozenNetwork
from ..surgery.pool import private_clone
from ..surgery.run import in_turn
from ..surgery.signal_entry import SignalEntry, find_signal_entry
from .task_model import TaskModel


def entry_of(model: TaskModel, inputs: Mapping[str, Tensor]) -> SignalEntry:
    """Return where the picture or sound among inputs enters a model.

    Raises:
        UnsupportedModelError: If nothing but token ids is read.
    """
    entry = find_signal_entry(private_clone(model.module), inputs)
    if entry is None:
        raise UnsupportedModelError(
            f"no convolution or linear layer of {type(model.module).__name__} is given the picture or the sound, so "
            "its parts cannot be scored"
        )
    return entry


def one_leaf(values: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return values in one row, as a leaf, and its parts in the shapes of the values."""
    leaf = torch.cat([value.flatten() for value in values]).detach().requires_grad_()
    parts = leaf.split([value.numel() for value in values])
    return leaf, [part.view_as(value) for part, value in zip(parts, values, strict=True)]


def from_both(
    model: TaskModel,
    entry: SignalEntry,
    batch: Batch,
    network: FrozenNetwork,
    inputs: dict[str, Tensor],
    place: Tensor | None,
    rows: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return a frozen answer, and what it flows from in one row: the word embeddings and the parts of the pictures.

    Args:
        model: The model.
        entry: Where the pictures enter.
        batch: A text with pictures.
        network: What is run.
        inputs: The inputs of the text.
        place: As for `TaskModel.answer`.
        rows: As for `TaskModel.answer`.
    """
    ids, stand_ins = inputs["input_ids"], batch.stand_ins
    with torch.no_grad():
        values = [model.embeddings(ids if stand_ins is None else ids.masked_fill(stand_ins, 0))]

        def keep(parts: Tensor) -> Tensor:
            values.append(parts)
            return parts

        model.answer(inputs, place, rows, replace=entry.replaced(keep))
    leaf, (words, parts) = one_leaf(values)  # (T H + N H',)
    with model.embeddings.replaced(words, ids, stand_ins) as replacing:
        replacing = in_turn(replacing, entry.replaced(lambda _: parts))
        return model.answer(inputs, place, rows, replace=replacing, on=network.model), leaf
