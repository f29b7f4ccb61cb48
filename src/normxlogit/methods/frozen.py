"""The frozen gradient: the exact share of each token in the answer of the network, frozen at its forward pass."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from ..errors import MethodError
from ..models.frozen_model import FrozenModel, Slopes
from .base import Method, Request, Scores
from .baselines import Baseline, baseline_vectors
from .registry import register

__all__ = ["FrozenGradient"]

NEEDS = "a model whose operations can be frozen"

SHARE = 4
"""A pass whose states are kept for going back takes this many times the memory of one that forgets them, about."""


@register(
    "frozen-gradient",
    paper="Ali et al., 2022; Modarressi et al., 2023",
    needs=NEEDS,
    per_layer=True,
    signed=True,
    passes="1 forward, 1 backward",
)
class FrozenGradient(Method):
    """What each token adds to the answer of the network, frozen where its forward pass left it.

    Attention probabilities, denominators of norms, activation ratios and gates are held; what is left is affine, and
    one backward pass gives s_i = <g_i, x_i - b_i> with sum_i s_i + bias = logit_p (attention and norms held: Ali et
    al., 2022; activation ratios: Modarressi et al., 2023). The part of the biases is `diagnostics["bias"]`; of several
    layers, that of the last one asked for.

    Args:
        read_at: 0 reads the word embeddings, l the output of layer l, a negative number goes back through that many
            layers (-1 through the last one only, whose input it reads), "all" takes the mean over what the layers after
            the first are given. Going back through fewer layers costs less.
        points: Places on the way from the baseline to the text at which the network is frozen, 1.0 being the text; the
            gradient is their mean.
        baseline: Where that way begins: "zero" vectors, or the embedding of the "mask" or "pad" token in the place of
            all tokens but the special ones.
    """

    needs_grad = True

    def __init__(
        self,
        read_at: int | Literal["all"] = 0,
        points: tuple[float, ...] = (1.0,),
        baseline: Baseline = "zero",
    ) -> None:
        if read_at != 0 and (points != (1.0,) or baseline != "zero"):
            raise ValueError("points and baseline lie on the way to the word embeddings: they go with read_at=0")
        if any(not 0 < point <= 1 for point in points):
            raise ValueError("points lie above 0, the baseline, and up to 1, the text")
        self.read_at, self.points = read_at, points
        self.baseline: Baseline = baseline

    def score(self, request: Request) -> Scores:
        """Score by gradient times input of the frozen network."""
        frozen = FrozenModel.of(request.model)
        places = self._places(request)
        mask = request.forward.batch.mask
        size = max(1, request.model.batch_tokens // (SHARE * mask.shape[1]))
        parts, biases = [], []
        for texts in torch.arange(len(mask), device=mask.device).split(size):
            found = self._shares(request, frozen, texts, places)  # (b, K, L, T)
            shown = found * mask[texts][:, None, None].to(found)  # (b, K, L, T)
            if self.read_at == "all" and not request.layers:
                shown = shown.mean(2, keepdim=True)  # (b, K, 1, T)
            answer = request.target.read(request.forward.logits)[texts]  # (b, K)
            biases.append(answer.to(shown) - shown[:, :, -1].sum(-1))
            parts.append(shown)
        return Scores(torch.cat(parts), {"bias": torch.cat(biases).cpu()})  # (B, K, L, T)

    def _places(self, request: Request) -> tuple[int, ...]:
        """Return the layers that are read, 0 for the word embeddings."""
        if request.layers:
            return request.layers
        if self.read_at == 0:
            return (0,)
        count = request.model.layer_count()
        if self.read_at == "all":
            return tuple(range(1, max(count, 2)))
        place = self.read_at if self.read_at > 0 else count + self.read_at
        if not 0 <= place <= count:
            raise MethodError(f"read_at={self.read_at}: the model has layers 1 to {count}")
        return (place,)

    def _shares(self, request: Request, frozen: FrozenModel, texts: Tensor, places: Sequence[int]) -> Tensor:
        """Return the shares of all tokens of some texts, (b, K, L, T)."""
        if tuple(places) != (0,):
            return _products(frozen.slopes(request.forward, request.target, texts, places))
        vectors = frozen.vectors(request.forward.batch)  # (B, T, H)
        start = baseline_vectors(request, vectors, self.baseline)[texts]  # (b, T, H)
        way = vectors[texts] - start  # (b, T, H)
        total: Tensor | None = None
        for point in self.points:
            found = frozen.slopes(request.forward, request.target, texts, (0,), start + point * way)
            shares = _products(replace(found, states={0: way}))  # (b, K, 1, T)
            total = shares if total is None else total + shares
        if total is None:
            raise MethodError("there is no point to freeze the network at")
        return total / len(self.points)


def _products(slopes: Slopes) -> Tensor:
    """Return gradient times state, summed over the width: (b, K, L, T)."""
    rows = [
        torch.stack([(gradient.float() * state.detach().float()).sum(-1) for gradient in slopes.gradients[place]], 1)
        for place, state in slopes.states.items()
    ]
    return torch.stack(rows, 2)
