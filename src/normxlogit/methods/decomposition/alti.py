"""ALTI: how much each token's vector reduces the distance to a layer's attention output."""

from collections.abc import Collection, Iterator

from torch import Tensor

from ...model.forward_pass import ForwardPass
from ...model.task_model import TaskModel
from ..registry import register
from .encoder_layers import ENCODERS, EncoderLayer, encoder_layers
from .matrix import MatrixMethod, head_mixes

PAPER = "Ferrando et al., 2022"


def normed_mixes(layer: EncoderLayer, budget: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """Return the vectors T_ij = g1 * c(u_ij) / s1_i that token j adds to the first LayerNorm's output at i.

    With the output bias and the LayerNorm's bias, g1 * c(b_O) / s1_i + b1, they sum to that output.

    Yields:
        Texts, positions i, and T for them, (b, i, T, H).
    """
    gain, _, deviation = layer.norm("norm1")  # (H,), (B, T)
    for texts, rows, mixed in head_mixes(layer, budget):
        centred = mixed - mixed.mean(-1, keepdim=True)  # (b, i, T, H)
        yield texts, rows, gain * centred / deviation[texts, rows, None, None]


@register("alti", paper=PAPER, needs=ENCODERS, per_layer=True, passes="3 forward")
class Alti(MatrixMethod):
    """The reduction of the distance to a position's attention output by each token, multiplied over layers.

    c_ij = max(0, ||y_i||_1 - ||y_i - T_ij||_1), rows divided by their sum, with T_ij of `normed_mixes` and y_i the
    first LayerNorm's output  (Ferrando et al., 2022)

    Args:
        rollout: As for `MatrixMethod`.
    """

    def matrices(self, model: TaskModel, run: ForwardPass, layers: Collection[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield the matrices."""
        for layer in encoder_layers(model, run.batch, layers):
            layer.prove_layer_of_family(run.batch.mask, feed_forward=False)
            scores = layer.attention.new_zeros(layer.attention[:, 0].shape)  # (B, T, T)
            for texts, rows, vectors in normed_mixes(layer, model.budget.tokens):
                output = layer.normed1[texts, rows, None]  # (b, i, 1, H)
                reduction = output.abs().sum(-1) - (output - vectors).abs().sum(-1)  # (b, i, T)
                scores[texts, rows] = reduction.clamp_min(0.0)
            yield layer.number, scores / scores.sum(-1, keepdim=True).clamp_min(1e-12)
