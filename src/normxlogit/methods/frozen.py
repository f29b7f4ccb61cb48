"""The frozen gradient: the exact share of each token in the answer of the network, frozen at its forward pass."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from ..errors import MethodError
from ..inputs.batching import Batch
from ..models.forward_pass import ForwardPass
from ..models.frozen_model import FrozenModel, Slopes
from ..models.frozen_seq2seq import OWN, SOURCE, FrozenSeq2Seq
from ..models.layers import Layers, layer_numbers
from ..models.seq2seq import Seq2SeqModel
from ..models.task_model import TaskModel
from ..surgery.isolated import without_autocast
from .base import Method, Request, Scores
from .baselines import Baseline, baseline_vectors
from .registry import register

__all__ = ["FrozenGradient"]

NEEDS = "a model whose operations can be frozen"


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
            layers (-1 through the last one only, whose input it reads), "middle" reads the output of the layer halfway
            (the word embeddings where no module returns a layer's output), "all" takes the mean over what the layers
            after the first are given. Going back through fewer layers costs less.
        points: Places on the way from the baseline to the text at which the network is frozen, 1.0 being the text; the
            gradient is their mean.
        baseline: Where that way begins: "zero" vectors, or the embedding of the "mask" or "pad" token in the place of
            all tokens but the special ones.
    """

    needs_grad = True
    memory = 4  # what flows is kept for going back

    def __init__(
        self,
        read_at: int | Literal["middle", "all"] = 0,
        points: tuple[float, ...] = (1.0,),
        baseline: Baseline = "zero",
    ) -> None:
        if read_at != 0 and (points != (1.0,) or baseline != "zero"):
            raise ValueError("points and baseline lie on the way to the word embeddings: they go with read_at=0")
        if any(not 0 < point <= 1 for point in points):
            raise ValueError("points lie above 0, the baseline, and up to 1, the text")
        self.read_at, self.points = read_at, points
        self.baseline: Baseline = baseline

    def forward(self, model: TaskModel, batch: Batch, layers: Layers = None, *, predict: bool = True) -> ForwardPass:
        """Let the frozen pass be the forward pass: its answers are the model's own."""
        if isinstance(model, Seq2SeqModel):
            self._check_both(layers)
            return self._run_both(model, batch) if self._at_the_text else super().forward(model, batch, predict=predict)
        if not self._at_the_text:
            return super().forward(model, batch, predict=predict)
        model.prepare(batch)
        places = self._places(model, layer_numbers(layers, model))
        return FrozenModel.of(model).run(batch, places, predict=predict)

    @property
    def _at_the_text(self) -> bool:
        """Whether the network is frozen at the text itself, and nowhere else on the way."""
        return self.points == (1.0,)

    def score(self, request: Request) -> Scores:
        """Score by gradient times input of the frozen network."""
        frozen = FrozenModel.of(request.model)
        mask = request.forward.batch.mask
        if self._at_the_text:
            places = self._places(request.model, request.layers)
            run = request.forward if request.forward.frozen is not None else frozen.run(request.forward.batch, places)
            slopes = frozen.slopes(run, request.target, places)
            if self.baseline != "zero":
                slopes = replace(slopes, states={0: slopes.states[0] - self._start(request, slopes.states[0])})
            shares = _products(slopes)  # (B, K, L, T)
        else:
            back = partial(frozen.slopes, target=request.target, places=(0,))
            shares = self._on_the_way(request, frozen, back)  # (B, K, 1, T)
        shares = shares * mask[:, None, None].to(shares)  # (B, K, L, T)
        if self.read_at == "all" and not request.layers:
            shares = shares.mean(2, keepdim=True)  # (B, K, 1, T)
        answer = request.target.read(request.forward.logits).to(shares)  # (B, K)
        return Scores(shares, {"bias": (answer - shares[:, :, -1].sum(-1)).cpu()})

    def score_each(self, request: Request, places: Tensor, weights: Tensor | None = None) -> Scores | None:
        """Score by one backward pass for each place or weighted sum of them, through one frozen pass over the text.

        The logit of each target counts less the mean over the vocabulary (or the contrast): a shift of all logits
        changes no probability. Of an encoder-decoder model, the S tokens of the source come before the decoder's:
        (1, K, 1, S + T).
        """
        if isinstance(request.model, Seq2SeqModel):
            return self._score_both(request.model, request, places, weights)
        frozen = FrozenModel.of(request.model)
        if self._at_the_text:
            read = self._places(request.model, request.layers)
            slopes = frozen.slopes_each(request.forward, request.target, read, places, weights)
            if self.baseline != "zero":
                slopes = replace(slopes, states={0: slopes.states[0] - self._start(request, slopes.states[0])})
            shares, answer = _products(slopes), slopes.answer  # (B, K, L, T), (B, K)
        else:
            back = partial(frozen.slopes_each, target=request.target, places=(0,), read=places, weights=weights)
            shares = self._on_the_way(request, frozen, back)  # (B, K, 1, T)
            with torch.no_grad(), without_autocast(request.forward.batch.inputs):
                answer = frozen.read_each(request.forward.hidden, request.target, places, weights)  # (B, K)
        shares = shares * request.forward.batch.mask[:, None, None].to(shares)  # (B, K, L, T)
        if self.read_at == "all" and not request.layers:
            shares = shares.mean(2, keepdim=True)  # (B, K, 1, T)
        return Scores(shares, {"bias": answer - shares[:, :, -1].sum(-1)})

    def _check_both(self, layers: Layers) -> None:
        """Refuse what cannot be asked of an encoder-decoder model.

        Raises:
            MethodError: If the settings are not for such models.
        """
        if self.read_at == "all" or self.baseline != "zero" or layers is not None:
            raise MethodError(
                f"{self.spec}: on encoder-decoder models the frozen gradient reads the source at one place and without "
                "another baseline: read_at is 0, 'middle' or a layer of the encoder, and layers= is for normxlogit"
            )

    def _run_both(self, model: Seq2SeqModel, batch: Batch, point: float = 1.0) -> ForwardPass:
        """Run an encoder-decoder model frozen, the word embeddings of both sides multiplied by a number."""
        frozen = FrozenSeq2Seq.of(model)
        return frozen.run_both(batch, frozen.encoder_layer(batch, self.read_at), point)

    def _score_both(self, model: Seq2SeqModel, request: Request, places: Tensor, weights: Tensor | None) -> Scores:
        """Score the source and the decoder's tokens, (1, K, 1, S + T)."""
        frozen = FrozenSeq2Seq.of(model)
        total = torch.zeros(())
        for point in self.points:
            run = request.forward if self._at_the_text else self._run_both(model, request.forward.batch, point)
            slopes = frozen.slopes_each(run, request.target, (SOURCE, OWN), places, weights)
            total = total + torch.cat([_products(slopes.only(side)) for side in (SOURCE, OWN)], -1) / point
        shares = total / len(self.points)  # (1, K, 1, S + T)
        with torch.no_grad(), without_autocast(request.forward.batch.inputs):
            answer = frozen.read_each(request.forward.hidden, request.target, places, weights)  # (1, K)
        return Scores(shares, {"bias": answer - shares[:, :, 0].sum(-1)})

    def _places(self, model: TaskModel, layers: tuple[int, ...]) -> tuple[int, ...]:
        """Return the layers that are read, 0 for the word embeddings."""
        if layers:
            return layers
        if self.read_at == 0:
            return (0,)
        if self.read_at == "middle":
            return (len(model.parts.outputs or ()) // 2,)
        count = model.layer_count() if model.parts.outputs is None else len(model.parts.outputs)
        if self.read_at == "all":
            return tuple(range(1, max(count, 2)))
        place = self.read_at if self.read_at > 0 else count + self.read_at
        if not 0 <= place <= count:
            raise MethodError(f"read_at={self.read_at}: the model has layers 1 to {count}")
        return (place,)

    def _start(self, request: Request, vectors: Tensor) -> Tensor:
        """Return where the way to the text begins, (B, T, H)."""
        return baseline_vectors(request, vectors, self.baseline)

    def _on_the_way(self, request: Request, frozen: FrozenModel, back: Callable[[ForwardPass], Slopes]) -> Tensor:
        """Return the mean over the points of gradient times way, (B, K, 1, T).

        Args:
            request: What is explained.
            frozen: The frozen model.
            back: Goes back through a pass.
        """
        batch = request.forward.batch
        vectors = frozen.vectors(batch)  # (B, T, H)
        start = self._start(request, vectors)  # (B, T, H)
        total = torch.zeros(())
        for point in self.points:
            run = frozen.run(batch, (0,), start + point * (vectors - start))
            run = replace(run, positions=request.forward.positions)  # the question stays where the text has it
            total = total.to(vectors.device) + _products(replace(back(run), states={0: vectors - start}))
        return total / len(self.points)


def _products(slopes: Slopes) -> Tensor:
    """Return gradient times state, summed over the width: (b, K, L, T)."""
    rows = [
        torch.stack([(gradient.float() * state.detach().float()).sum(-1) for gradient in slopes.gradients[place]], 1)
        for place, state in slopes.states.items()
    ]
    return torch.stack(rows, 2)
