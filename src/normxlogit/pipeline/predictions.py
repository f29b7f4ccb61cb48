"""What a model found most likely at each generated token, and how likely it found the token itself."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..model.task_model import TaskModel
from ..results.targets import Prediction

ROWS_AT_ONCE = 256
"""Places whose full vocabulary logits are held at once."""


def predictions_of(
    model: TaskModel, states: Tensor, written: Sequence[int]
) -> tuple[list[Prediction], list[Prediction]]:
    """Return the top prediction at each generated token, and the token itself as a prediction.

    Args:
        model: The model.
        states: What the head reads where the model answers, (G, H).
        written: The generated tokens.
    """
    best: list[Prediction] = []
    generated: list[Prediction] = []
    ids = torch.tensor(written)  # (G,)
    for part, chosen in zip(states.split(ROWS_AT_ONCE), ids.split(ROWS_AT_ONCE), strict=True):
        logits = model.head.tokens(part).float()  # (G', V)
        top = logits.max(-1)
        values_chosen = logits.gather(1, chosen[:, None].to(logits.device))[:, 0]  # (G',)
        total = logits.sub_(top.values[:, None]).exp_().sum(-1)  # (G',), in place: the array is as wide as it is ours
        for described, values, indices in ((best, top.values, top.indices), (generated, values_chosen, chosen)):
            chances = (values - top.values).exp() / total  # (G',)
            for index, value, chance in zip(indices.tolist(), values.tolist(), chances.tolist(), strict=True):
                described.append(Prediction(model.task.output_name(index), index, value, chance))
    return best, generated
