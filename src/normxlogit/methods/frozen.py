"""The frozen gradient: gradient times hidden state with every non-linear factor held constant."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ..errors import MethodError
from ..inputs.batching import Batch
from ..models.contributions import Contributions, sinks_of
from ..models.forward_pass import ForwardPass
from ..models.frozen_model import PARTS, FrozenModel
from ..models.frozen_seq2seq import SOURCE
from ..models.frozen_speech import frozen_both
from ..models.layers import Layers, ReadAt, layer_numbers, layers_read
from ..models.task_model import TaskModel
from ..surgery.autocast import without_autocast
from .base import Method, Request, Scores
from .baselines import Baseline, baseline_vectors
from .registry import register

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
    """Each token's contribution to the logit when every non-linear factor keeps its value in the forward pass.

    Attention probabilities, denominators of norms, activation ratios and gates are held constant; what is left is
    affine, and one backward pass gives s_i = <g_i, h_i> with sum_i s_i + sink + bias = logit_p (attention and norms
    held: Ali et al., 2022; activation ratios: Modarressi et al., 2023). By default h_i are the hidden states of the
    first half of the layers: each layer's contributions add up to the logit with its own bias, and so do their means.
    Of a language model the logit counts minus its mean over the vocabulary, or minus the contrast.

    A hidden state many times larger than its layer's median, as language models put on the first token (attention
    sinks: Xiao et al., 2024; massive activations: Sun et al., 2024), is held constant where it leaves the layer. What
    it contributes is reported as the sink's, not as the token's. No token is held that is the only one from which the
    answer is read.

    Args:
        read_at: Where contributions are read. "first-half" takes the mean over the hidden states x^0, the embedding
            layer's output, to x^(L/2), the output of the layer halfway (the word embeddings where no module returns
            these); "all" the mean over the inputs of all layers, x^0 to x^(L-1). 0 reads the word embeddings, l the
            output of layer l, a negative number that many layers before the last one's output (-1 backpropagates
            through the last layer only), "middle" x^(L/2) alone. Of encoder-decoder models this is where the source is
            read; the decoder's own tokens are read at its word embeddings. With points or another baseline it is 0,
            where these are defined.
        points: Points between the baseline and the text at which the network is frozen, 1.0 being the text; the
            gradient is their mean.
        baseline: What contributions are differences from: "zero" vectors, or the embedding of the "mask" or "pad" token
            for all tokens except the special ones.
        sink_threshold: From how many times the median of its layer on a hidden state is held as an attention sink;
            none holds none. With points below 1, none is held.
    """

    needs_grad = True
    memory = 4  # what flows is kept for the backward pass

    def __init__(
        self,
        read_at: ReadAt = "first-half",
        points: tuple[float, ...] = (1.0,),
        baseline: Baseline = "zero",
        sink_threshold: float | None = 10.0,
    ) -> None:
        if points != (1.0,) or baseline != "zero":
            read_at = 0 if read_at == "first-half" else read_at
            if read_at != 0:
                raise ValueError("points and baseline are of the word embeddings: they go with read_at=0")
        if any(not 0 < point <= 1 for point in points):
            raise ValueError("points lie above 0, the baseline, and up to 1, the text")
        if sink_threshold is not None and not sink_threshold > 1:
            raise ValueError("sink_threshold is a multiple of the median: above 1, or none")
        self.read_at: ReadAt = read_at
        self.points = points
        self.baseline: Baseline = baseline
        self.sink_threshold = sink_threshold

    def forward(self, model: TaskModel, batch: Batch, layers: Layers = None, *, predict: bool = True) -> ForwardPass:
        """Run the frozen network as the forward pass: it gives the model's logits."""
        if batch.has_source:
            self._check_both(layers)
            return self._run_both(model, batch) if self._at_the_text else super().forward(model, batch, predict=predict)
        if not self._at_the_text:
            return super().forward(model, batch, predict=predict)
        model.prepare(batch)
        return self._run(model, batch, layer_numbers(layers, model), predict=predict)

    @property
    def _at_the_text(self) -> bool:
        """Whether the network is frozen only at the text, not also at points between baseline and text."""
        return self.points == (1.0,)

    def _run(self, model: TaskModel, batch: Batch, layers: tuple[int, ...], *, predict: bool = True) -> ForwardPass:
        frozen = FrozenModel.of(model)
        places = self._places(frozen, batch, layers)
        return frozen.run(batch, places, sink_threshold=self.sink_threshold, predict=predict)

    def score(self, request: Request) -> Scores:
        """Score by gradient times hidden state of the frozen network."""
        frozen = FrozenModel.of(request.model)
        if not self._at_the_text:
            backward = partial(frozen.contributions, target=request.target, places=(0,))
            return self._between(request, frozen, backward, request.target.quantity(request.forward.logits))
        run = request.forward
        if run.frozen is None:
            run = self._run(request.model, run.batch, request.layers)
        self._set_baseline(request, run)
        places = self._places(frozen, request.forward.batch, request.layers)
        return self._scores(request, frozen.contributions(run, request.target, _read(places, run.batch)), places)

    def score_each(self, request: Request, places: Tensor, weights: Tensor | None = None) -> Scores | None:
        """Score by one backward pass for each place or weighted sum of them, through one frozen pass over the text.

        The logit of each target counts minus the mean over the vocabulary (or the contrast): a shift of all logits
        changes no probability. Of an encoder-decoder model, the S tokens of the source come before the decoder's:
        (1, K, 1, S + T).
        """
        if request.forward.batch.has_source:
            return self._score_both(request.model, request, places, weights)
        frozen = FrozenModel.of(request.model)
        if request.forward.batch.media and (not self._at_the_text or self.baseline != "zero"):
            raise MethodError(
                f"{self.spec}: of texts with pictures or sounds the frozen gradient has no other points and baselines"
            )
        if not self._at_the_text:
            backward = partial(
                frozen.contributions_each, target=request.target, places=(0,), read=places, weights=weights
            )
            return self._between(request, frozen, backward, self._answer(request, frozen, places, weights))
        self._set_baseline(request, request.forward)
        batch = request.forward.batch
        layers = self._places(frozen, batch, request.layers)
        read = _read(layers, batch)
        contributions = frozen.contributions_each(request.forward, request.target, read, places, weights)
        return self._scores(request, contributions, layers)

    def _scores(self, request: Request, contributions: Contributions, places: Sequence[int]) -> Scores:
        """Select or average the contributions read at several places: for each requested layer, or their mean."""
        mask = request.forward.batch.mask  # (B, T)
        values = torch.stack([contributions.values[layer] for layer in places], 2)  # (B, K, L, T)
        sink = torch.stack([contributions.sink[layer] for layer in places], 2)  # (B, K, L)
        values = values * mask[:, None, None].to(values)  # (B, K, L, T)
        if not request.layers:
            values, sink = values.mean(2, keepdim=True), sink.mean(2, keepdim=True)  # (B, K, 1, T), (B, K, 1)
        parts = contributions.values.get(PARTS)  # (B, K, N)
        parts = None if parts is None else parts[:, :, None]  # (B, K, 1, N)
        return _with_bias(values, sink, contributions.answer, contributions.sinks, parts)

    def _check_both(self, layers: Layers) -> None:
        """Refuse settings that encoder-decoder models do not support."""
        if self.baseline != "zero" or layers is not None:
            raise MethodError(
                f"{self.spec}: on encoder-decoder models the frozen gradient has no other baseline than zero, and "
                "layers= is for normxlogit"
            )

    def _run_both(self, model: TaskModel, batch: Batch, point: float = 1.0) -> ForwardPass:
        """Run an encoder-decoder model frozen, the word embeddings of both sides multiplied by a number."""
        frozen = frozen_both(model)
        threshold = self.sink_threshold if self._at_the_text else None
        layers = frozen.encoder_layers(batch, self.read_at)
        return frozen.run_both(batch, layers, point=point, sink_threshold=threshold)

    def _score_both(self, model: TaskModel, request: Request, places: Tensor, weights: Tensor | None) -> Scores:
        """Score the source and the decoder's tokens, (1, K, 1, S + T)."""
        frozen, batch = frozen_both(model), request.forward.batch
        sources = tuple(SOURCE + layer for layer in frozen.encoder_layers(batch, self.read_at))
        total, sink, sinks = torch.zeros(()), torch.zeros(()), None
        for point in self.points:
            run = request.forward if self._at_the_text else self._run_both(model, batch, point)
            readouts = {} if run.frozen is None else run.frozen.readouts
            contributions = frozen.contributions_each(run, request.target, (*sources, 0), places, weights)
            source = torch.stack([contributions.values[layer] for layer in sources]).mean(0)  # (1, K, S)
            total = total + torch.cat([source, contributions.values[0]], -1) / point
            sink = torch.stack([contributions.sink[layer] for layer in sources]).mean(0)  # (1, K)
            masks = [sinks_of(readouts, source=True), contributions.sinks]
            if any(mask is not None for mask in masks):
                blank = (batch.inputs["source_mask"][..., 0].bool(), batch.mask)
                sinks = torch.cat(
                    [torch.zeros_like(b) if m is None else m for m, b in zip(masks, blank, strict=True)], -1
                )
        values = total[:, :, None] / len(self.points)  # (1, K, 1, S + T)
        return _with_bias(values, sink[:, :, None], self._answer(request, frozen, places, weights), sinks)

    def _answer(self, request: Request, frozen: FrozenModel, places: Tensor, weights: Tensor | None) -> Tensor:
        """Return the explained quantities at the text, (B, K)."""
        with torch.no_grad(), without_autocast(request.forward.batch.inputs):
            return frozen.read_each(request.forward.hidden, request.target, places, weights)

    def _places(self, frozen: FrozenModel, batch: Batch, layers: tuple[int, ...]) -> tuple[int, ...]:
        """Return the places that are read, see `FrozenModel.run`.

        The tokens that stand for a picture are read at layers only where it is known which of its patches each is of.
        """
        model = frozen.model
        if layers or self.read_at == 0:
            return layers or (0,)
        outputs = model.parts.outputs
        if isinstance(self.read_at, int):
            return layers_read(self.read_at, model.layer_count() if outputs is None else len(outputs))
        mixed = any(medium.by_token is None for medium in batch.media)
        if outputs is None or model.parts.token_pooling is not None or mixed:
            return (0,)
        return layers_read(self.read_at, len(outputs), frozen.first_input(batch))

    def _set_baseline(self, request: Request, run: ForwardPass) -> None:
        """Multiply the gradient at the word embeddings by their difference from the baseline."""
        if self.baseline == "zero" or run.frozen is None:
            return
        vectors = FrozenModel.of(request.model).vectors(run.batch)  # (B, T, H)
        run.frozen.readouts[0].direction = vectors - baseline_vectors(request, vectors, self.baseline)

    def _between(
        self, request: Request, frozen: FrozenModel, backward: Callable[[ForwardPass], Contributions], answer: Tensor
    ) -> Scores:
        """Score by gradient times difference from the baseline, averaged over the points of the path.

        Args:
            request: What is explained.
            frozen: The frozen model.
            backward: Backpropagates through a pass.
            answer: The explained quantities of the text itself, (B, K).
        """
        batch = request.forward.batch
        vectors = frozen.vectors(batch)  # (B, T, H)
        start = baseline_vectors(request, vectors, self.baseline)  # (B, T, H)
        total = torch.zeros((), device=vectors.device)
        for point in self.points:
            run = frozen.run(batch, (0,), start + point * (vectors - start))
            run = replace(run, positions=request.forward.positions)  # the question stays where the text has it
            if run.frozen is not None:
                run.frozen.readouts[0].direction = vectors - start
            total = total + backward(run).values[0]  # (B, K, T)
        values = (total / len(self.points) * batch.mask[:, None].to(total))[:, :, None]  # (B, K, 1, T)
        return _with_bias(values, torch.zeros_like(answer)[:, :, None], answer, None)


def _read(places: tuple[int, ...], batch: Batch) -> tuple[int, ...]:
    """Return places with that of the parts of pictures and sounds, where the word embeddings are read."""
    return (*places, PARTS) if batch.media and places == (0,) else places


def _with_bias(
    values: Tensor, sink: Tensor, answer: Tensor, sinks: Tensor | None, parts: Tensor | None = None
) -> Scores:
    """Return scores with their bias: values, sink, parts and bias add up to the logit.

    Args:
        values: (B, K, L, T).
        sink: What attention sinks contribute, (B, K, L).
        answer: The explained quantities, (B, K).
        sinks: Which tokens are attention sinks, (B, T); None for none.
        parts: Scores of the parts of pictures and sounds, (B, K, 1, N); None for none.
    """
    bias = answer.to(values)[:, :, None] - values.sum(-1) - sink.to(values)  # (B, K, L)
    if parts is not None:
        bias = bias - parts.sum(-1)
    return Scores(values, bias=bias, sink=None if sinks is None else sink, sinks=sinks, parts=parts)
