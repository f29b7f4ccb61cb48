"""Attention rollout."""

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from ...model.forward_pass import ForwardPass
from ...model.task_model import TaskModel
from ..registry import register
from .encoder_layers import ENCODERS, encoder_layers
from .matrix import MatrixMethod


@register("attention-rollout", paper="Abnar and Zuidema, 2020", needs=ENCODERS, per_layer=True, passes="2 forward")
class AttentionRollout(MatrixMethod):
    """The product over layers of mean attention over heads, averaged with the identity for the residual.

    R_l = (A_l + I) R_{l-1}, rows divided by their sum, A_l the mean over heads  (Abnar and Zuidema, 2020)
    """

    def __init__(self) -> None:
        super().__init__()

    def matrices(self, model: TaskModel, run: ForwardPass, layers: Collection[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield the matrices."""
        for layer in encoder_layers(model, run.batch, layers):
            yield layer.number, with_residual(layer.attention)


def with_residual(attention: Tensor) -> Tensor:
    """Return mean attention over heads, averaged with the identity, (B, T, T), from attention, (B, heads, T, T)."""
    mean = attention.mean(1)
    mixed = mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
    return mixed / mixed.sum(-1, keepdim=True)
