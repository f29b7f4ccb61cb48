"""The frozen gradient: gradient times hidden state with every non-linear factor held constant."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..copies.memory import GRAPH_MEMORY
from ..copies.precision import without_autocast
from ..errors import MethodError
from ..frozen.backward import NotRecordedError
from ..frozen.contributions import Contributions, FrozenPass, contributions
from ..frozen.frozen_model import FrozenModel
from ..frozen.places import MEDIA, WORDS, Place, ReadAt, Reading, Side
from ..frozen.readouts import ByPlace
from ..frozen.vocabulary import vocabulary_quantities
from ..inputs.batches import Batch
from ..model.forward_pass import ForwardPass, check_same_pass
from ..model.task_model import TaskModel
from ..results.storage.schema import Indices, Strings
from ..tasks.targets import Layers
from .base import Baseline, Method, Request, Scores, baseline_vectors
from .registry import register


@register(
    "frozen-gradient",
    title="exact shares of the answer",
    paper="Ali et al., 2022; Modarressi et al., 2023",
    needs="a model whose operations can be frozen",
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
            read; the decoder's own tokens are read at its word embeddings. With a point below 1, or another baseline,
            it is 0, where these are defined.
        point: Where between the baseline, 0, and the text, 1, the network is frozen.
        baseline: What contributions are differences from: "zero" vectors, or the embedding of the "mask" or "pad" token
            for all tokens except the special ones.
        sink_threshold: From how many times the median of its layer on a hidden state is held as an attention sink;
            none holds none. With a point below 1, none is held.
    """

    needs_grad = True
    memory = GRAPH_MEMORY

    def __init__(
        self,
        read_at: ReadAt = "first-half",
        point: float = 1.0,
        baseline: Baseline = "zero",
        sink_threshold: float | None = 10.0,
    ) -> None:
        # Whether the network is frozen at the text itself: then the frozen pass is the model's own, with its answer.
        self._is_frozen_at_text = point == 1.0 and baseline == "zero"
        if not self._is_frozen_at_text and read_at not in ("first-half", 0):
            raise ValueError("point and baseline are of the word embeddings: they go with read_at=0")
        if not 0 < point <= 1:
            raise ValueError("point lies above 0, the baseline, and up to 1, the text")
        if sink_threshold is not None and not sink_threshold > 1:
            raise ValueError("sink_threshold is a multiple of the median: above 1, or none")
        self.read_at: ReadAt = read_at if self._is_frozen_at_text else 0
        self.point = point
        self.baseline: Baseline = baseline
        self.sink_threshold = sink_threshold

    def forward(self, model: TaskModel, batch: Batch, layers: Layers = None, *, predict: bool = True) -> ForwardPass:
        """Run the frozen network as the forward pass: it gives the model's logits.

        At another point, or with another baseline, the model itself is run here, and `score` runs the frozen network.

        Args:
            model: The model.
            batch: B texts.
            layers: The caller's layers; None for the model's answer as it is.
            predict: Whether a language model's logits at the position explained are computed, too.

        Raises:
            MethodError: If a setting, or `layers`, is not for encoder-decoder models, and the model is one.
        """
        if batch.has_source and (self.baseline != "zero" or layers is not None):
            raise MethodError(
                f"{self.spec}: on encoder-decoder models the frozen gradient has no other baseline than zero, and "
                "layers= is for normxlogit"
            )
        if self._is_frozen_at_text:
            model.prepare(batch, alone=False)
            reading = self._reading(model, batch, model.layer_numbers(layers))
            return FrozenModel.of(model).run(batch, reading, predict=predict and not batch.has_source)
        # Without `layers`, whose states no other point needs: `_reading` refuses them.
        return super().forward(model, batch, predict=predict)

    def notes_on(self, model: TaskModel) -> Strings:
        """Say where scores are of the word embeddings, as the layers of a model are not known."""
        # A number asks for one layer, which is read or refused.
        layers_are_read = not isinstance(self.read_at, str) or model.parts.outputs is not None
        if layers_are_read or FrozenModel.of(model).places.words is None:
            return ()
        name = model.class_name
        return (f"read at the word embeddings alone: no modules of {name} were found that return its layers' outputs",)

    def score(self, request: Request) -> Scores:
        """Score by gradient times hidden state of the frozen network."""
        return self.score_each(request)

    def score_each(self, request: Request, places: Tensor | None = None, weights: Tensor | None = None) -> Scores:
        """Backpropagate through the frozen pass, and return what each token contributes.

        With `places` each position, or each weighted sum of positions, is an explained quantity of its own.

        Of an encoder-decoder model, the S tokens of the source come before the decoder's: (1, K, 1, S + T).

        Args:
            request: What is explained.
            places: Positions at which each of K targets is read, (B, K); None for those of the pass.
            weights: Of sums of the K quantities, which are explained instead of each, (B, J, K).
        """
        forward = request.forward
        frozen = FrozenModel.of(request.model)
        places_read = frozen.places.places_read(forward.batch, self.read_at, request.layers)
        try:
            contributed = contributions(self._pass(request), request.target, places_read, places, weights)
        except NotRecordedError:  # this text takes another way through the model than the one that was proved
            frozen.modules_to_record.add("")  # from now on, passes record the whole model, as this does when repeated
            return self.score_each(request, places, weights)
        # What was backpropagated is the answer at the point; what is explained is the answer to the text.
        if not self._is_frozen_at_text:
            with torch.no_grad(), without_autocast(forward.batch.inputs):
                if places is None:
                    answer = request.target.quantity(forward.logits)
                else:
                    head = request.model.head.tokens
                    answer = vocabulary_quantities(head, forward.hidden, request.target, places, weights)
            contributed = replace(contributed, answer=answer)
        return _scores_of(contributed, forward.batch, bool(request.layers))

    def _pass(self, request: Request) -> FrozenPass:
        """Return the pass to backpropagate through: that of `forward`, or a new one at the point.

        A new one is made, too, of a pass that the caller has run, or where all operations must be recorded now.
        """
        model = request.model
        run = request.forward
        frozen = FrozenModel.of(model)
        must_record_all = "" in frozen.modules_to_record  # "" is the path of the whole model
        if self._is_frozen_at_text and isinstance(run, FrozenPass) and (run.is_recorded or not must_record_all):
            return run
        baseline = None
        if self.baseline != "zero":
            with torch.no_grad():
                vectors = model.embeddings(run.batch.inputs["input_ids"])  # (B, T, H)
            baseline = baseline_vectors(request, vectors, self.baseline)
        reading = self._reading(model, run.batch, request.layers, baseline)
        at_point = frozen.run(run.batch, reading, predict=False)
        # At point 1 the frozen network has the text's own states, whatever the baseline.
        if run.outputs is not None and self.point == 1.0:
            check_same_pass(run, at_point)
        return replace(at_point, positions=run.positions)  # the answer is read where it was for the text

    def _reading(self, model: TaskModel, batch: Batch, layers: Indices, baseline: Tensor | None = None) -> Reading:
        """Return what a pass reads, at the point between a baseline and the text."""
        places = FrozenModel.of(model).places.places_read(batch, self.read_at, layers)
        if not self._is_frozen_at_text and (WORDS not in places or MEDIA in places):
            raise MethodError(f"{self.spec}: point and baseline are of word embeddings, and this is not read as words")
        return Reading(places, self.sink_threshold if self.point == 1.0 else None, baseline, self.point)


def _scores_of(contributions: Contributions, batch: Batch, per_layer: bool) -> Scores:
    """Return scores whose sum with sink, parts and bias is the answer.

    Args:
        contributions: Those of the tokens at each place.
        batch: B texts.
        per_layer: Whether each place of the text is a layer of the scores; otherwise they are the mean over the places
            of each side.
    """
    text_places = [place for place in contributions.values if place.side is Side.TEXT]
    source_places = [place for place in contributions.values if place.side is Side.SOURCE]
    values = _stacked(contributions.values, text_places)  # (B, K, L, T)
    values = values * batch.mask[:, None, None].to(values)
    # At the places of a source, which come before those of the decoder, the sum holds the decoder's sinks as well.
    sink = _stacked(contributions.sink, source_places or text_places).to(values)  # (B, K, L)
    if not per_layer:
        values, sink = values.mean(2, keepdim=True), sink.mean(2, keepdim=True)  # (B, K, 1, T), (B, K, 1)
    if source_places:
        from_source = _stacked(contributions.values, source_places).mean(2, keepdim=True)  # (B, K, 1, S)
        values = torch.cat((from_source, values), -1)  # (B, K, 1, S + T)
    bias = contributions.answer.to(values)[:, :, None] - values.sum(-1) - sink  # (B, K, L)
    parts = None
    if MEDIA in contributions.values:
        parts = contributions.values[MEDIA][:, :, None]  # (B, K, 1, N)
        bias = bias - parts.sum(-1)
    sinks = contributions.is_sink
    return Scores(values, bias=bias, sink=None if sinks is None else sink, sinks=sinks, parts=parts)


def _stacked(by_place: ByPlace, places: Sequence[Place]) -> Tensor:
    """Return what was read at L places, (B, K, ...) each, as (B, K, L, ...)."""
    return torch.stack([by_place[place] for place in places], 2)
