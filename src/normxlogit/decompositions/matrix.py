"""Methods that compute a (tokens x tokens) matrix for each layer: ALTI, GlobEnc, attention rollout."""

from abc import abstractmethod
from collections.abc import Collection, Iterator

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..errors import UnsupportedModelError
from ..methods.base import Method, Request, Scores
from ..methods.registry import alternatives, register
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..tasks.targets import BatchTargets
from .encoder_families import ENCODERS
from .encoder_layers import EncoderLayer, encoder_layers
from .layer_calls import split_work
from .module_weights import linear_weights

MAX_ENTRY = 1e20
"""A product of layers is scaled down above this entry; rows of GlobEnc's matrices sum to ten or a hundred."""


class MatrixMethod(Method):
    """A method with a matrix for each layer: how much position i depends on position j.

    The score of token j is the entry (p, j), p the position whose prediction is explained. Where a head reads several
    positions (mean pooling), it is the mean over them.

    Args:
        rollout: Whether layer l's matrix is multiplied by those of the layers below; otherwise a layer (by default
            the last) counts by itself.
    """

    def __init__(self, rollout: bool = True) -> None:
        self.rollout = rollout

    def score(self, request: Request) -> Scores:
        """Score by the row of the position explained."""
        model, run, layers = request.model, request.forward, request.layers
        mask = run.batch.mask  # (B, T)
        is_real = mask[:, :, None] & mask[:, None]  # (B, T, T)
        scores_by_layer: dict[int, Tensor] = {}
        product: Tensor | None = None  # of the layers so far
        layers_scored = layers or (model.layer_count(),)
        needed = range(1, max(layers_scored) + 1) if self.rollout else layers_scored  # a product needs all below
        try:
            weights = position_weights(model, run, request.target)  # (B, K, T)
            for layer, unmasked in self.matrices(model, run, needed):
                matrix = unmasked.to(weights.device).masked_fill(~is_real, 0.0)  # (B, T, T)
                if self.rollout and product is not None:  # None at the first layer
                    matrix = _scaled_down(matrix @ product)  # (B, T, T)
                product = matrix
                if layer in layers_scored:
                    scores_by_layer[layer] = weights @ matrix  # (B, K, T)
        except UnsupportedModelError as error:
            # Below this method, errors say what it needs, and not its name.
            raise needs_error(self.info.name, error, per_layer=bool(layers)) from None
        return Scores(torch.stack([scores_by_layer[layer] for layer in layers_scored], 2))  # (B, K, L, T)

    @abstractmethod
    def matrices(self, model: TaskModel, run: ForwardPass, layers: Collection[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield the numbers of the requested layers with their matrices, (B, T, T), in ascending order.

        Args:
            model: The model.
            run: The forward pass over B texts.
            layers: The layers, counted from 1.
        """


class EncoderMatrixMethod(MatrixMethod):
    """A matrix method of encoders whose layers are taken apart."""

    def matrices(self, model: TaskModel, run: ForwardPass, layers: Collection[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield the matrices."""
        for layer in encoder_layers(model, run.batch, layers):
            yield layer.number, self.matrix(layer, run.batch.mask, model.batch_tokens)

    def matrix(self, layer: EncoderLayer, mask: Tensor, budget: int) -> Tensor:
        """Return the matrix of a layer, (B, T, T), from its mixes.

        Args:
            layer: The layer.
            mask: The real tokens, (B, T).
            budget: Most contributions u_ij at once, see `head_mixes`.
        """
        layer.prove_layer_of_family(mask, feed_forward=False)  # whose weights these methods do not read
        scores = layer.attention.new_zeros(layer.attention[:, 0].shape)  # (B, T, T)
        for texts, rows, mixed in head_mixes(layer, budget):
            scores[texts, rows] = self.scores_of_mixes(layer, texts, rows, mixed)
        return scores

    def scores_of_mixes(self, layer: EncoderLayer, texts: slice, rows: slice, mixed: Tensor) -> Tensor:
        """Return the scores of the contributions u_ij to some positions of some texts, (b, i, T).

        Args:
            layer: The layer.
            texts: The b texts.
            rows: The positions i.
            mixed: The contributions, (b, i, T, H), see `head_mixes`.
        """
        raise NotImplementedError


def _scaled_down(product: Tensor) -> Tensor:
    """Return matrices, (B, T, T), scaled down if entries are large, so that products do not overflow; ranks stay."""
    largest = product.amax((1, 2), keepdim=True)  # (B, 1, 1)
    return torch.where(largest > MAX_ENTRY, product / largest, product)


def needs_error(name: str, error: UnsupportedModelError, *, per_layer: bool = False) -> UnsupportedModelError:
    """Return the error for a method that does not work on a model: what it needs, and which methods work.

    Args:
        name: The method's name.
        error: Why it does not work.
        per_layer: Whether single layers were asked for.
    """
    return UnsupportedModelError(f"{name} {error}; {alternatives(per_layer=per_layer)}")


def position_weights(model: TaskModel, run: ForwardPass, target: BatchTargets) -> Tensor:
    """Return weights of the positions whose last states determine the explained logits, (B, K, T).

    For answers about a token that is its position. For answers about the text, a head's own gradient tells what it
    reads: the first token (BERT), the last one (Llama), or all (mean pooling).

    Args:
        model: The model.
        run: The forward pass over B texts.
        target: What is explained, K for each.
    """
    width = run.batch.mask.shape[1]
    count = target.ids.shape[1]
    if run.positions is not None:
        if run.positions.ndim == 1:
            positions = run.positions[:, None].expand(-1, count)  # (B, K)
        else:  # (B, 2), of a span: the target's id is 0 for its start, 1 for its end
            positions = run.positions.gather(1, target.ids)  # (B, K)
        return one_hot(positions, width).float()
    head = model.head
    inputs = run.batch.inputs
    with torch.inference_mode(False), torch.enable_grad():
        hidden = run.hidden.detach().clone().requires_grad_()  # (B, T, H)
        answer = head.texts(hidden, inputs)  # (B, C)
        if not answer.requires_grad:
            raise UnsupportedModelError("needs a head that gradients pass through, unlike one of quantised activations")
        (gradient,) = torch.autograd.grad(answer.float().sum(), hidden, materialize_grads=True)  # (B, T, H)
    # A head that does not read a position has no gradient there at all.
    changes_answer = (gradient != 0).any(-1)  # (B, T)
    is_read = (changes_answer & run.batch.mask).float()  # (B, T)
    if not is_read.any(-1).all():
        raise UnsupportedModelError("needs a head that reads real tokens, and this one reads none of a text's")
    return (is_read / is_read.sum(-1, keepdim=True))[:, None].expand(-1, count, -1)


def head_mixes(layer: EncoderLayer, budget: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield the contribution of token j to position i by attention and residual, before LayerNorm.

    u_ij = sum_h a_ij^h O^h v_j^h + [i=j] h_i  (value bias inside v, output bias left out)

    Args:
        layer: The layer.
        budget: Most contributions at once.

    Yields:
        Texts, positions i, and u for them, (b, i, T, H).
    """
    weight, _ = linear_weights(layer.parts["output"])  # (H, heads * D)
    heads, width = layer.attention.shape[1:3]
    by_head = weight.unflatten(1, (heads, -1))  # (H, heads, D)
    for texts, parts in split_work(len(layer.states), width, width, budget):
        carried = torch.einsum("bjnd,hnd->bjnh", layer.value[texts], by_head)  # (b, T, heads, H)
        for rows in parts:
            attention = layer.attention[texts, :, rows]  # (b, heads, i, T)
            mixed = torch.einsum("bnij,bjnh->bijh", attention, carried)  # (b, i, T, H)
            # The residual stream: where i = j, a diagonal that begins at the first of these positions.
            mixed.diagonal(rows.start, 1, 2).add_(layer.states[texts, rows].transpose(1, 2))  # (b, H, i)
            yield texts, rows, mixed


@register(
    "alti",
    title="mixing of tokens over all layers",
    paper="Ferrando et al., 2022",
    needs=ENCODERS,
    per_layer=True,
    passes="3 forward",
)
class Alti(EncoderMatrixMethod):
    """The reduction of the distance to a position's attention output by each token, multiplied over layers.

    c_ij = max(0, ||y_i||_1 - ||y_i - T_ij||_1), rows divided by their sum, with y_i the first LayerNorm's output, to
    which token j adds T_ij = g1 * c(u_ij) / s1_i, u_ij of `head_mixes` and c(x) = x - mean(x)  (Ferrando et al., 2022)

    Args:
        rollout: As for `MatrixMethod`.
    """

    def matrix(self, layer: EncoderLayer, mask: Tensor, budget: int) -> Tensor:
        """Return the matrix of a layer, rows divided by their sum."""
        scores = super().matrix(layer, mask, budget)
        return scores / scores.sum(-1, keepdim=True).clamp_min(1e-12)  # a row without any reduction stays 0

    def scores_of_mixes(self, layer: EncoderLayer, texts: slice, rows: slice, mixed: Tensor) -> Tensor:
        """Return the reductions of the distance to the outputs of the first norm, (b, i, T)."""
        norm = layer.norm("norm1")
        centred = mixed - mixed.mean(-1, keepdim=True)  # (b, i, T, H)
        vectors = norm.gain * centred / norm.deviation[texts, rows, None, None]  # (b, i, T, H)
        output = layer.normed1[texts, rows, None]  # (b, i, 1, H)
        reduction = output.abs().sum(-1) - (output - vectors).abs().sum(-1)  # (b, i, T)
        return reduction.clamp_min(0.0)


@register(
    "globenc",
    title="attention and norms over all layers",
    paper="Modarressi et al., 2022",
    needs=ENCODERS,
    per_layer=True,
    passes="3 forward",
)
class GlobEnc(EncoderMatrixMethod):
    """Norms of the contributions through attention, residual and LayerNorms, multiplied over layers.

    y_ij = g1 * c(u_ij) / s1_i, score_ij = ||g2 * c(y_ij) / s2_i||, with u_ij of `head_mixes`, c(x) = x - mean(x), and
    s1, s2 the deviations that the layer's LayerNorms really divide by  (Modarressi et al., 2022)

    Args:
        rollout: As for `MatrixMethod`.
    """

    def scores_of_mixes(self, layer: EncoderLayer, texts: slice, rows: slice, mixed: Tensor) -> Tensor:
        """Return the norms of the contributions after both LayerNorms, (b, i, T)."""
        norm1, norm2 = layer.norm("norm1"), layer.norm("norm2")
        after_norm1 = norm1.gain * (mixed - mixed.mean(-1, keepdim=True))  # (b, i, T, H), not yet divided
        after_norm2 = norm2.gain * (after_norm1 - after_norm1.mean(-1, keepdim=True))  # (b, i, T, H), likewise
        scale = (norm1.deviation * norm2.deviation)[texts, rows, None]  # (b, i, 1)
        norms: Tensor = torch.linalg.vector_norm(after_norm2, dim=-1)  # (b, i, T)
        return norms / scale


@register(
    "attention-rollout",
    title="attention over all layers",
    paper="Abnar and Zuidema, 2020",
    needs=ENCODERS,
    per_layer=True,
    passes="2 forward",
)
class AttentionRollout(EncoderMatrixMethod):
    """The product over layers of mean attention over heads, averaged with the identity for the residual.

    R_l = (A_l + I) R_{l-1}, rows divided by their sum, A_l the mean over heads  (Abnar and Zuidema, 2020)
    """

    def __init__(self) -> None:  # without the option `rollout`, which is what the method is
        super().__init__()

    def matrix(self, layer: EncoderLayer, mask: Tensor, budget: int) -> Tensor:
        """Return the mean attention of a layer with its residual."""
        return with_residual(layer.attention)


def with_residual(attention: Tensor) -> Tensor:
    """Return mean attention over heads, averaged with the identity, (B, T, T), from attention, (B, heads, T, T)."""
    mean = attention.mean(1)  # (B, T, T)
    mixed = mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)  # (B, T, T)
    return mixed / mixed.sum(-1, keepdim=True)
