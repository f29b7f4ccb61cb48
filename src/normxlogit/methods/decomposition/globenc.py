"""GlobEnc: norms of each token's contribution to another through attention, residual and both LayerNorms."""

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from ...model.forward_pass import ForwardPass
from ...model.task_model import TaskModel
from ..registry import register
from .encoder_layers import ENCODERS, encoder_layers
from .matrix import MatrixMethod, head_mixes

PAPER = "Modarressi et al., 2022"


@register("globenc", paper=PAPER, needs=ENCODERS, per_layer=True, passes="3 forward")
class GlobEnc(MatrixMethod):
    """Norms of the contributions through attention, residual and LayerNorms, multiplied over layers.

    y_ij = g1 * c(u_ij) / s1_i, score_ij = ||g2 * c(y_ij) / s2_i||, with u_ij of `head_mixes`, c(x) = x - mean(x), and
    s1, s2 the deviations that the layer's LayerNorms really divide by  (Modarressi et al., 2022)

    Args:
        rollout: As for `MatrixMethod`.
    """

    def matrices(self, model: TaskModel, run: ForwardPass, layers: Collection[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield the matrices."""
        for layer in encoder_layers(model, run.batch, layers):
            layer.prove_layer_of_family(run.batch.mask, feed_forward=False)
            gain1, _, deviation1 = layer.norm("norm1")  # (H,), (B, T)
            gain2, _, deviation2 = layer.norm("norm2")
            scores = layer.attention.new_zeros(layer.attention[:, 0].shape)  # (B, T, T)
            for texts, rows, mixed in head_mixes(layer, model.budget.tokens):
                after_norm1 = gain1 * (mixed - mixed.mean(-1, keepdim=True))  # (b, i, T, H)
                after_norm2 = gain2 * (after_norm1 - after_norm1.mean(-1, keepdim=True))  # (b, i, T, H)
                scale = (deviation1 * deviation2)[texts, rows, None]  # (b, i, 1)
                scores[texts, rows] = torch.linalg.vector_norm(after_norm2, dim=-1) / scale  # (b, i, T)
            yield layer.number, scores
