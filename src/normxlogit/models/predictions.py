"""What a model said: the largest output, its probability, and the spans of answers."""

import math
from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..results.attribution import Prediction
from .targets import name_of
from .task_model import ForwardPass, TaskModel
from .tasks import Task

__all__ = ["Predictions", "answers", "predictions", "top_predictions"]

Array = npt.NDArray[np.float32]


def answers(run: ForwardPass) -> list[Prediction]:
    """Return the spans that a question-answering model extracts.

    The label is the answer as it stands in the text (its tokens where there is no text), empty for none; the id the
    index of its first token; the value the sum of start and end logit; the probability the product of the two.
    """
    said = []
    for row, encoding in enumerate(run.batch.encodings):
        if run.everywhere is None or run.positions is None:
            raise ValueError("not the forward pass of a question-answering model")
        mask = run.batch.mask[row]
        places = run.positions[row]  # (2,)
        start, end = (int(mask[:place].sum()) for place in places.tolist())
        chances = run.everywhere[row].float()[mask].softmax(0)  # (T, 2)
        text = encoding.text_pair if encoding.sequence_ids[start] == 1 else encoding.text
        label = ""
        if not encoding.special[start]:
            label = "".join(encoding.tokens[start : end + 1])
            if text is not None and encoding.offsets is not None:
                label = text[encoding.offsets[start][0] : encoding.offsets[end][1]]
        chance = float(chances[start, 0] * chances[end, 1])
        said.append(Prediction(label.strip(), start, float(run.logits[row].sum()), chance))
    return said


def top_predictions(task: Task, logits: Tensor) -> Tensor:
    """Return each row's maximum logit, its index and probability, (N, 3), of logits (N, C); NaN for no probability."""
    logits = logits.float()
    values, ids = logits.max(-1)  # (N,) each
    if task.kind == "regression":
        chances = torch.full_like(values, torch.nan)  # (N,)
    elif task.kind == "multi-label":
        chances = values.sigmoid()  # (N,)
    else:
        chances = logits.softmax(-1).amax(-1)  # (N,)
    return torch.stack((values, ids.to(values.dtype), chances), -1)  # (N, 3)


class Predictions(Sequence[Prediction]):
    """What a head with few outputs says, kept as numbers until somebody looks: a corpus has a row for every token.

    Args:
        table: What `top_predictions` returned, (N, 3), on the host.
        labels: The names of the outputs.
    """

    def __init__(self, table: Array, labels: Sequence[str]) -> None:
        self._table = table
        self._labels = labels

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Prediction]: ...
    def __getitem__(self, index: int | slice) -> Prediction | Sequence[Prediction]:
        """Return one prediction, or several."""
        if isinstance(index, slice):
            return Predictions(self._table[index], self._labels)
        value, number, chance = self._table[index].tolist()
        return Prediction(self._labels[int(number)], int(number), value, None if math.isnan(chance) else chance)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a sequence of the same predictions."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Predictions({list(self)})"


def predictions(model: TaskModel, table: Array) -> Sequence[Prediction]:
    """Return the predictions in a table of `top_predictions`, with their names."""
    if not model.task.vocabulary:
        return Predictions(table, model.task.labels)
    rows = zip(table[:, 1].astype(int).tolist(), table[:, 0].tolist(), table[:, 2].tolist(), strict=True)
    return [Prediction(name_of(model, i), i, value, chance) for i, value, chance in rows]
