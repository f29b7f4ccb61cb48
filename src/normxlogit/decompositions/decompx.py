"""DecompX: every hidden state and the logits as sums over the tokens of the text."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ..copies.arithmetic import mean_logit
from ..errors import HeadMismatchError, UnsupportedModelError
from ..inputs.batches import Batch
from ..methods.base import Method, Request, Scores
from ..methods.registry import register
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..parts.proofs import proof
from ..results.storage.schema import Indices
from ..tasks import Task
from ..tasks.targets import BatchTargets
from .encoder_families import ENCODERS, activation_function, head_paths
from .encoder_layers import EXACT_TOLERANCE, TINY, EncoderLayer, encoder_layers
from .layer_calls import split_work
from .matrix import head_mixes, needs_error, position_weights
from .module_weights import NormParts, is_floating, linear_weights, norm_parts

Aggregate = Literal["auto", "head", "norm"]


@register(
    "decompx",
    title="exact decomposition of an encoder",
    paper="Modarressi et al., 2023",
    needs=ENCODERS,
    per_layer=True,
    signed=True,
    passes="T forward",
)
class DecompX(Method):
    """Each token's contribution to the logit, by its share of the hidden states, carried through every layer.

    Attention, LayerNorms, feed-forward parts and the head keep each state a sum over the tokens. Biases are distributed
    in proportion to |x_j . b|; an activation multiplies by f(z) / z. Scores sum to the logit (Modarressi et al., 2023).

    Args:
        aggregate: "head" carries the shares through the head, "norm" takes the L2 norm of the shares of the last
            state, the same for all targets; "auto" is the norm for regression, as in the paper, else the head.
    """

    def __init__(self, aggregate: Aggregate = "auto") -> None:
        self.aggregate: Aggregate = aggregate

    def signed_on(self, task: Task) -> bool:
        """Return whether scores have a sign: norms have none."""
        return not self._takes_norm(task)

    def _takes_norm(self, task: Task) -> bool:
        """Return whether scores are norms of shares, and not shares of the logits."""
        return self.aggregate == "norm" or (self.aggregate == "auto" and task.outputs.kind == "value")

    def score(self, request: Request) -> Scores:
        """Score by each token's share."""
        try:
            return self._score(request)
        except HeadMismatchError:  # it is a whole sentence; others say what the method needs, without its name
            raise
        except UnsupportedModelError as error:
            raise needs_error("decompx", error, per_layer=bool(request.layers)) from None

    def _score(self, request: Request) -> Scores:
        """Score by each token's share of the states that the head reads."""
        model, run, target = request.model, request.forward, request.target
        mask = run.batch.mask
        layers = request.layers or (model.layer_count(),)
        scores = torch.zeros(
            *target.ids.shape, len(layers), mask.shape[1], dtype=torch.float32, device=mask.device
        )  # (B, K, L, T)
        takes_norm = self._takes_norm(model.task)
        reader = _NormsOfShares() if takes_norm else _HeadOnShares(model, target, run.hidden.dtype)
        for at_positions in _at_read_positions(model, run, target, layers):
            contributions = reader.contributions(at_positions)  # (b, K, T)
            width = contributions.shape[-1]  # without the padding behind the longest of these texts
            for index, number in enumerate(layers):
                if number == at_positions.layer.number:
                    scores[at_positions.texts, :, index, :width] = contributions.to(scores.device)
        # The model's own head has read the last layer's states: their contributions sum to its logits.
        if not takes_norm and model.layer_count() in layers:
            of_last_layer = scores[:, :, layers.index(model.layer_count())]
            contributions_sum_to_the_logits(of_last_layer, target.quantity(run.logits), reader.exact)
        # Biases are shared out among the tokens, so nothing is left for one. Norms have no sum, and that of shares in
        # half precision, or with quantised weights, is too far from the logit.
        return Scores(scores, bias=torch.zeros_like(scores[..., 0]) if reader.exact else None)


class _AtReadPositions(NamedTuple):
    """A layer's shares and states at the P positions that the head reads, of some texts."""

    texts: slice  # which b texts of the batch
    layer: EncoderLayer
    shares: Tensor  # of each token in the states, (b, P, T, H)
    states: Tensor  # the layer's output there, (b, P, H)


def _at_read_positions(
    model: TaskModel, run: ForwardPass, target: BatchTargets, layers: Indices
) -> Iterator[_AtReadPositions]:
    """Yield the shares and states of layers where the head reads them, for few texts at a time."""
    mask = run.batch.mask
    positions = _read_positions(model, run, target)  # (B, P)
    shares_of_text = mask.shape[1] ** 2
    # A text counts as one row here: `_LayerOnShares` splits its positions.
    for texts, _ in split_work(len(mask), rows=1, row_size=shares_of_text, budget=model.batch_tokens):
        longest = int(mask[texts].any(0).nonzero().max()) + 1  # without the padding behind it
        batch = run.batch.rows(texts, longest)
        text_indices = torch.arange(len(positions[texts]), device=positions.device)[:, None]  # (b, 1)
        for layer, rows, shares in decomposed(model, batch, range(1, max(layers) + 1), positions[texts]):
            if layer.number in layers:
                read_positions = positions[texts].to(rows.device)  # (b, P)
                row_indices = torch.searchsorted(rows, read_positions)  # (b, P), where `rows` has each position
                texts_on_device = text_indices.to(rows.device)
                states = layer.returned[texts_on_device, read_positions]  # (b, P, H)
                yield _AtReadPositions(texts, layer, shares[texts_on_device, row_indices], states)


@proof(
    compares="the sum of DecompX's contributions, and the explained logit",
    tolerance=f"{EXACT_TOLERANCE:g} of the largest, 0.25 in half precision or quantised",
    why="contributions of a model that is not what its family says do not sum to its logits",
    when="each call of decompx; a sum",
)
def contributions_sum_to_the_logits(scores: Tensor, logits: Tensor, exact: bool) -> None:
    """Refuse scores (B, K, T) that do not sum to the logits (B, K), as the model differs from its family.

    Args:
        scores: Contributions, (B, K, T).
        logits: What they sum to, (B, K).
        exact: Whether the model works in full precision.

    Raises:
        HeadMismatchError: If they do not.
    """
    difference = (scores.sum(-1) - logits.to(scores.device)).abs().max().item()
    size = max(scores.abs().sum(-1).max().item(), logits.abs().max().item(), TINY)
    tolerance = EXACT_TOLERANCE * size if exact else 0.25 * max(1.0, size)
    if not difference <= tolerance:  # written so that NaN is refused
        raise HeadMismatchError(
            f"the contributions miss the model's logits by {difference:.2g}: its layers or its head are not those of "
            "its family"
        )


def _read_positions(model: TaskModel, run: ForwardPass, target: BatchTargets) -> Tensor:
    """Return the positions that the head reads: (B, 1), or (B, 2) for start and end."""
    if run.positions is not None:
        return run.positions.reshape(len(run.positions), -1)
    # An answer about the text: the heads of these families read one position, which has all weight.
    return position_weights(model, run, target)[:, 0].argmax(-1, keepdim=True)


def decomposed(
    model: TaskModel, batch: Batch, layers: range, read_positions: Tensor | None = None
) -> Iterator[tuple[EncoderLayer, Tensor, Tensor]]:
    """Yield the shares x_ij of all tokens j in the states of all positions i, layer by layer from 1.

    Args:
        model: The model, an encoder of a known family.
        batch: B texts.
        layers: The layers from 1 on.
        read_positions: The positions that are read at the last layer, (B, P); None for all.

    Yields:
        The layer; the positions i, (I,), ascending, all of them but at the last layer, where they are those that are
        read of any text; and the shares, (B, I, T, H). They sum over j to the layer's output. The next step overwrites
        them.
    """
    shares: Tensor | None = None
    for layer in encoder_layers(model, batch, layers):
        layer.prove_layer_of_family(batch.mask, feed_forward=True)
        width = batch.mask.shape[1]
        rows = torch.arange(width, device=layer.states.device)  # (T,)
        if read_positions is not None and layer.number == layers[-1]:
            rows = read_positions.unique().to(rows.device)  # (I,), ascending
        layer_on_shares = _LayerOnShares(layer, model.batch_tokens)
        shares = layer_on_shares.of_tokens(rows) if shares is None else layer_on_shares(shares, rows)
        yield layer, rows, shares


class _LayerOnShares:
    """A layer of B texts of T tokens, applied to the tokens' shares of its input.

    Args:
        layer: The layer.
        budget: Most shares at once: it is split into fewer texts or positions.

    Attributes:
        maps: The weight and the bias of its linear maps, by their names in `LayerPaths`.
        norms: Its LayerNorms, by their names, see `EncoderLayer.norm`.
    """

    def __init__(self, layer: EncoderLayer, budget: int) -> None:
        self.layer, self.budget = layer, budget
        self.maps = {name: linear_weights(layer.parts[name]) for name in ("value", "output", "up", "down")}
        self.norms = {name: layer.norm(name) for name in ("norm1", "norm2")}

    def of_tokens(self, rows: Tensor) -> Tensor:
        """Return the shares of the first layer's output at positions `rows`, (B, I, T, H).

        Its inputs are single tokens: value biases stay inside the values, as in the paper's code.
        """
        count, width, size = self.layer.states.shape
        output = self.layer.states.new_empty(count, width, width, size)  # (B, T, T, H)
        for texts, positions, mixed in head_mixes(self.layer, self.budget):
            shares = _add_bias(mixed.contiguous(), self.maps["output"][1])  # (b, i, T, H)
            output[texts, positions] = self._after_attention(shares, texts, positions)
        return output[:, rows] if len(rows) < width else output

    def __call__(self, shares: Tensor, rows: Tensor) -> Tensor:
        """Return the shares of the output at positions `rows`, (B, I, T, H); those of its input may be overwritten."""
        count, width, size = self.layer.states.shape
        values = self._values(shares)  # (B, heads, T, T * D)
        weight, output_bias = self.maps["output"]
        _, value_bias = self.maps["value"]
        bias = output_bias + weight @ value_bias  # (H,): attention probabilities sum to one
        # Other positions are needed only as values, so that the states can be overwritten row by row; but not where
        # fewer rows are returned than there are.
        output = shares if len(rows) == width else shares.new_empty(count, len(rows), width, size)
        for part in self._parts(len(rows)):
            positions = rows[part]  # (i,)
            carried = self.layer.attention[:, :, positions] @ values  # (B, heads, i, T * D)
            carried = carried.unflatten(-1, (width, -1)).permute(0, 2, 3, 1, 4).flatten(3)  # (B, i, T, H)
            mixed = (carried @ weight.T).add_(shares[:, positions])  # (B, i, T, H)
            output[:, part] = self._after_attention(_add_bias(mixed, bias), slice(None), positions)
        return output

    def _parts(self, positions: int) -> list[slice]:
        """Return slices of so many positions, each of as many as the budget allows at once."""
        count, width, _ = self.layer.states.shape
        step = max(1, self.budget // (count * width))  # a position has a share of each token of each text
        return [slice(start, start + step) for start in range(0, positions, step)]

    def _values(self, shares: Tensor) -> Tensor:
        """Return the value projection of the shares, head by head: (B, heads, T, T * D)."""
        count, width, _, _ = shares.shape
        heads = self.layer.attention.shape[1]
        weight, _ = self.maps["value"]
        values = shares.new_empty(count, heads, width, width * (len(weight) // heads))
        for part in self._parts(width):
            projected = (shares[:, part] @ weight.T).unflatten(-1, (heads, -1))  # (B, q, T, heads, D)
            values[:, :, part] = projected.permute(0, 3, 1, 2, 4).flatten(3)
        return values

    def _after_attention(self, mixed: Tensor, texts: slice, rows: slice | Tensor) -> Tensor:
        """Return shares of the layer's output from those before the first norm, (b, i, T, H); these are overwritten."""
        slope = self.layer.slope[texts][:, rows, None]  # (b, i, 1, F), f(z) / z of the activation
        normed = self._apply_layer_norm(mixed, "norm1", texts, rows)  # (b, i, T, H)
        inner = _apply_linear(normed, *self.maps["up"]).mul_(slope)  # (b, i, T, F)
        fed_forward = _apply_linear(inner, *self.maps["down"])  # (b, i, T, H)
        return self._apply_layer_norm(fed_forward.add_(normed), "norm2", texts, rows)

    def _apply_layer_norm(self, shares: Tensor, name: str, texts: slice, rows: slice | Tensor) -> Tensor:
        """Apply one of the layer's LayerNorms to the shares of some positions, in place."""
        norm = self.norms[name]
        return _apply_norm(shares, norm._replace(deviation=norm.deviation[texts][:, rows]))


def _bias_shares(dots: Tensor) -> Tensor:
    """Return each token's share of a bias, in proportion to |x_j . b|, (..., T), from the products x_j . b."""
    sizes = dots.abs()  # (..., T)
    return sizes / (sizes.sum(-1, keepdim=True) + TINY)


def _add_bias(shares: Tensor, bias: Tensor, dots: Tensor | None = None) -> Tensor:
    """Add a bias to the tokens' shares in place, to each its part of the bias.

    Args:
        shares: The shares x_j, (..., T, D).
        bias: The bias b, (D,).
        dots: The products x_j . b, (..., T), where they are known; None to compute them.
    """
    bias_shares = _bias_shares(shares @ bias if dots is None else dots)  # (..., T)
    shares.view(-1, len(bias)).addr_(bias_shares.flatten(), bias)  # adds the outer product
    return shares


def _apply_linear(shares: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Apply a linear map to shares, (..., T, D) to (..., T, E), its bias shared out."""
    # (W x) . b is x . (W' b): take the product on the narrower side.
    output_is_wider = len(bias) > shares.shape[-1]
    dots = shares @ (weight.T @ bias) if output_is_wider else None  # (..., T)
    return _add_bias(shares @ weight.T, bias, dots)


def _apply_norm(shares: Tensor, norm: NormParts) -> Tensor:
    """Apply a LayerNorm to shares, in place: y_j = gain (x_j - mean(x_j)) / deviation + bias b_j, with sum_j b_j = 1.

    Args:
        shares: The shares x_j of tokens j, (..., T, H).
        norm: The LayerNorm at the whole states, (..., H), which are the sums of the shares.
    """
    # The norm of all shares is two products with small matrices: the mean of each share and its dot product with
    # gain * bias, by which `_bias_shares` shares the bias out; and both corrections that are added to each share.
    gain, bias = norm.gain, norm.bias
    size = len(gain)
    projections = torch.stack([torch.full_like(gain, 1 / size), gain * bias], 1)  # (H, 2)
    mean, dots = (shares @ projections).unbind(-1)  # (..., T) each
    deviation = norm.deviation[..., None]  # (..., 1)
    bias_shares = _bias_shares((dots - mean * (gain * bias).sum()) / deviation)  # (..., T)
    shares.mul_(gain / deviation[..., None])
    corrections = torch.stack([-mean / deviation, bias_shares], -1)  # (..., T, 2)
    shares.view(-1, size).addmm_(corrections.view(-1, 2), torch.stack([gain, bias]))
    return shares


class _NormsOfShares:
    """In place of `_HeadOnShares`: the norms of the tokens' shares of the state that the head reads."""

    exact = False  # norms do not sum to the logits

    def contributions(self, at_positions: _AtReadPositions) -> Tensor:
        """Return the norm of each token's share, (b, 1, T), the same for all targets."""
        # Of a span, the state at its start.
        norms: Tensor = torch.linalg.vector_norm(at_positions.shares[:, 0], dim=-1)  # (b, T)
        return norms[:, None]


class _HeadOnShares:
    """The head, applied to the tokens' shares of its input.

    Args:
        model: The model.
        target: What is explained, K for each of B texts.
        dtype: That of the states that the model's own head reads.

    Attributes:
        rows: The outputs that the target needs, (R,).
        target: The target with its ids counted in these rows.
        weight: The weight of the last linear map, (C, H).
        bias: Its bias, (C,).
        dense: Weight and bias of the linear map before it; None without one.
        centred: Whether the mean over the vocabulary is subtracted, as in `BatchTargets.quantity`.
        exact: Whether model and head work in full precision.
    """

    def __init__(self, model: TaskModel, target: BatchTargets, dtype: torch.dtype) -> None:
        self._model, self._paths, self._dtype = model, head_paths(model), dtype
        self.rows, self.target = target.vocabulary_rows()
        self.weight, self.bias = linear_weights(self._part(self._paths.out))  # (C, H), (C,)
        self.dense = linear_weights(self._part(self._paths.dense)) if self._paths.dense else None
        self.centred = model.task.outputs.vocabulary and target.contrast is None
        self.exact = all(is_floating(self._part(path)) for path in (self._paths.out, self._paths.dense) if path)

    def _part(self, path: str) -> nn.Module:
        """Return the module of the model at a path."""
        return self._model.module.get_submodule(path)

    def contributions(self, at_positions: _AtReadPositions) -> Tensor:
        """Return each token's contribution to the logits, (b, K, T), after comparing their sums with the logits."""
        self.exact = self.exact and at_positions.layer.exact  # of all layers so far
        shares = at_positions.shares.contiguous()  # (b, P, T, H), as what is done in place needs it
        contributions = self._contributions(shares, at_positions.states, at_positions.texts)  # (b, K, T)
        logits = self._model_logits(at_positions.states.to(self._dtype), at_positions.texts)  # (b, K)
        contributions_sum_to_the_logits(contributions, logits, self.exact)
        return contributions

    def _model_logits(self, states: Tensor, texts: slice) -> Tensor:
        """Return the explained logits, (b, K), that the model's own head gives for the states it reads, (b, P, H)."""
        count, places, _ = states.shape
        # A vocabulary head computes the needed rows alone, unless the mean over all is needed.
        computes_rows = self._model.task.outputs.vocabulary and not self.centred
        answers = self._model.head.tokens(states.flatten(0, 1), self.rows if computes_rows else None).float()
        if self.centred:
            answers = answers - mean_logit(answers)
        if not computes_rows:
            answers = answers[:, self.rows]  # (b * P, R)
        by_place = answers.view(count, places, 1, -1)  # (b, P, 1, R), the state is one "token"
        return self._explained(by_place, texts)[..., 0]  # (b, K)

    def _contributions(self, shares: Tensor, states: Tensor, texts: slice) -> Tensor:
        """Return each token's contribution to the logits, (b, K, T).

        Args:
            shares: Each token's share of the states, (b, P, T, H).
            states: The states at the P positions that the head reads, (b, P, H).
            texts: Which b texts of the batch they are.
        """
        if self.dense is not None:
            shares = self._apply_dense(shares, states, *self.dense)
        # The head's bias is shared out by the shares' part in all outputs, whichever are explained: by x_j (W' b).
        bias_shares = _bias_shares(shares @ (self.weight.T @ self.bias))  # (b, P, T)
        out_weight, out_bias = self.weight[self.rows], self.bias[self.rows]  # (R, H), (R,)
        if self.centred:
            out_weight, out_bias = out_weight - self.weight.mean(0), out_bias - self.bias.mean()
        answers = shares @ out_weight.T + bias_shares[..., None] * out_bias  # (b, P, T, R)
        return self._explained(answers, texts)

    def _apply_dense(self, shares: Tensor, states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Apply what the head does before its last linear map: `dense`, its activation, and the norm if there is one.

        Args:
            shares: Each token's share of the states, (b, P, T, H).
            states: The states, (b, P, H).
            weight: The weight of `dense`, (H, H).
            bias: Its bias, (H,).

        Returns:
            Each token's share of what the last linear map reads, (b, P, T, H).
        """
        pre_activation = states @ weight.T + bias  # (b, P, H)
        activated = activation_function(self._model.module, self._paths.activation)(pre_activation)  # (b, P, H)
        # The activation multiplies by f(z) / z, as in the layers.
        slope = activated / (pre_activation + TINY)  # (b, P, H)
        shares = _apply_linear(shares, weight, bias).mul_(slope[..., None, :])
        if self._paths.norm is None:
            return shares
        return _apply_norm(shares, norm_parts(self._part(self._paths.norm), activated))

    def _explained(self, answers: Tensor, texts: slice) -> Tensor:
        """Return what is explained of some texts, (b, K, T).

        Args:
            answers: The R outputs that are explained, or parts of them, at P places and T tokens, (b, P, T, R).
            texts: Which texts of the batch they are.
        """
        at_place = answers[:, 0]  # (b, T, R), of tasks that read one position
        if self._model.task.position.token_per_output:  # output 0, the start, is read at place 0, output 1 at place 1
            places = self.rows.to(answers.device)  # (R,)
            outputs = torch.arange(len(places), device=answers.device)  # (R,)
            at_place = answers[:, places, :, outputs].permute(1, 2, 0)  # (b, T, R), of (R, b, T)
        count, width, _ = at_place.shape
        text_indices = torch.arange(texts.start, texts.start + count, device=self.target.ids.device)  # (b,)
        flat = at_place.flatten(0, 1).to(text_indices.device)  # (b * T, R)
        selected = self.target.select(flat, text_indices.repeat_interleave(width))  # (b * T, K)
        return selected.view(count, width, -1).transpose(1, 2)
