"""`FrozenModel`: each token's contribution to the logits of a task model, read at outputs of its modules."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from ..copies.pool import private_clone
from ..copies.run import Replace, merge_replacements, states_of, without_autocast
from ..copies.trace import path_of, trace
from ..errors import MethodError, UnsupportedModelError
from ..inputs.batching import Batch
from ..model.forward_pass import ForwardPass, no_states
from ..model.task_model import TaskModel
from ..parts.headpiece import answer_of
from ..parts.layer_outputs import LayerOutput, layer_outputs
from ..tasks.positions import logits_at
from ..tasks.targets import BatchTargets
from .backward import nodes_with_gradient
from .conservation import Balance
from .contributions import Contributions, contributions, single_read_position
from .entry_points import MEDIA, SOURCE, WORDS, EntryPoints, is_of_source
from .head_answers import contrasted_logits, head_answers
from .readout import BATCH_FIRST, GivenState, Readout, hold_sinks, layer_readers, read_out, token_norms
from .runner import FrozenPass, FrozenRunner, PassGraph, first_text

ReadAt = int | Literal["first-half", "middle", "all"]
"""The layers at which contributions are read, see `FrozenGradient`."""


class FrozenModel:
    """A task model and the backward pass of its frozen network.

    A place is where contributions are read: l for the output of layer l, 0 for the embedding layer's, `WORDS` for the
    word embeddings, `SOURCE` + l for layer l of an encoder, `MEDIA` for the entry of pictures and sounds. Every path
    from the input to the answer passes through the places of each side, so their contributions and the bias add up.
    """

    def __init__(self, model: TaskModel) -> None:
        self.model = model
        self.module = model.module
        self.entry_points = EntryPoints(model)
        self._passes = FrozenRunner(model)
        self._source_layers: tuple[LayerOutput, ...] | None = None

    @classmethod
    def of(cls, model: TaskModel) -> "FrozenModel":
        """Return the frozen form of a model, cached until the model is copied anew."""
        cached = model.__dict__.get("_frozen_model")
        if cached is None or cached.module is not model.module:
            cached = model.__dict__["_frozen_model"] = cls(model)
        return cast(FrozenModel, cached)

    def places(self, batch: Batch, read_at: ReadAt, layers: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return where the contributions of a batch are read.

        A place is a layer of the text, 0 for the embedding layer's output, or one of the constants of `entry_points`:
        `WORDS` for the word embeddings, `SOURCE` + layer for an encoder's layers, `MEDIA` for pictures and sounds.

        Args:
            batch: A text to find them with.
            read_at: As in `FrozenGradient`; for encoder-decoder models, it applies to the source.
            layers: Requested layers, which are read instead.

        Raises:
            MethodError: If there is no such layer.
            UnsupportedModelError: If no module returns the outputs of layers.
        """
        if batch.has_source:
            return (*(SOURCE + layer for layer in self._layers_of_source(batch, read_at)), WORDS)
        places = layers or self._layers_of_text(batch, read_at)
        if places != (0,) or self.entry_points.words is None:
            return places
        return (WORDS, MEDIA) if batch.media else (WORDS,)

    def run(
        self,
        batch: Batch,
        places: Sequence[int],
        *,
        baseline: Tensor | None = None,
        point: float = 1.0,
        sink_threshold: float | None = None,
        predict: bool = True,
    ) -> FrozenPass:
        """Run the frozen network once over a batch; its outputs are the model's own.

        Args:
            batch: The batch.
            places: Layers at which contributions are read, or `WORDS`, `MEDIA`, `SOURCE` + layer, see `entry_points`.
            baseline: The word embeddings from which contributions are differences, (B, T, H); None for zero.
            point: Where on the path from the baseline, 0, to the text, 1, the network is frozen.
            sink_threshold: From how many times the median of its layer on a hidden state counts as an attention sink,
                which is held where it leaves the layer; None holds none.
            predict: As for `TaskModel.run`.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or a module returns nothing at a place.
        """
        run_at_text = partial(self._run_copy, places=places, sink_threshold=sink_threshold)
        is_text = baseline is None and point == 1.0
        if not is_text and WORDS not in places:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} reads no word embeddings that could be replaced, so there is no path "
                "to them from a baseline; points=1.0 and baseline=zero need none"
            )
        run_copy = run_at_text if is_text else partial(run_at_text, baseline=baseline, point=point)
        entry_place = min(set(places) - {MEDIA})
        return self._passes.run(batch, entry_place, run_copy, None if is_text else run_at_text, predict=predict)

    def run_given(
        self, run: ForwardPass, outputs: Mapping[str, Any], places: Sequence[int], sink_threshold: float | None
    ) -> FrozenPass | None:
        """Return the caller's pass with gradients as a frozen pass, after proving the model.

        Args:
            run: The caller's pass, as it was read from `outputs`.
            outputs: The outputs of the model, with a graph and hidden states.
            places: Layers at which contributions are read, or `WORDS`, `MEDIA`, `SOURCE` + layer, see `entry_points`.
            sink_threshold: As for `run`.

        Returns:
            None if a place is none of the hidden states, or the answer was not computed from these tensors.
        """
        states = list[Tensor](states_of(outputs) or ())
        parts, lowest = self.model.parts, min(places)
        first_place = int(parts.states_lack_embeddings)  # of the hidden states
        # The last state is not a layer's output where modules follow the layers.
        last_layer_place = len(states) - (2 if parts.tail is not None or first_place else 1)
        if lowest < first_place or max(places) > last_layer_place:
            return None
        # The frozen network is proved on a pass of the model's copy, for the caller's has no leaves for constants.
        sample = first_text(self.model, run.batch)
        if not self._passes.is_proved(sample, lowest):
            self._passes.release(self.run(sample, places, sink_threshold=sink_threshold, predict=False))
        readouts: dict[int, Readout] = {}
        for place in range(lowest, last_layer_place + 1) if sink_threshold is not None else places:
            state = states[place - first_place]
            readouts[place] = GivenState(state, BATCH_FIRST, token_norms(state) if place else None)
        if sink_threshold is not None:
            hold_sinks(readouts.values(), run.batch.mask, sink_threshold)
        answer = states[-1] if self._passes.ends_at_head else answer_of(outputs)
        leaves = [readouts[lowest].leaf]
        state_nodes = [readout.leaf.grad_fn for readout in readouts.values()]
        if answer is None or None in state_nodes:
            return None
        if not nodes_with_gradient(answer, leaves).issuperset(state_nodes):
            return None
        return FrozenPass.of(run, readouts=readouts, answer=answer, entries=leaves, lease=None)

    def balance(self, run: ForwardPass, target: BatchTargets) -> Balance:
        """Return the contributions of the input and of each constant to the output for a text.

        Args:
            run: A pass of the frozen network over one text, which proved it.
            target: The target, one for the text.
        """
        positions = run.positions

        def quantity(graph: PassGraph) -> Tensor:
            """Return the explained quantity of a pass, with its graph."""
            answer = graph.answer
            if self._passes.ends_at_head:
                states = self.model.copy.token_states(answer, run.batch.mask.shape[1])  # (1, T, H)
                position = 0 if positions is None else int(positions[0])
                answer = self._passes.head.tokens(states[:, position])  # (1, V)
            elif positions is not None:
                answer = logits_at(answer, positions.to(answer.device).clone())  # (1, C)
            return target.quantity(answer.float()).sum()

        run_copy = partial(self._run_copy, places=self.places(run.batch, 0), sink_threshold=None)
        return self._passes.balance(run.batch, run_copy, quantity)

    def contributions(
        self,
        run: FrozenPass,
        target: BatchTargets,
        places: Sequence[int],
        read_positions: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Contributions:
        """Return the contributions of a frozen pass to each target, from a backward pass for each.

        Args:
            run: What `run` returned for B texts; it can be backpropagated through once.
            target: What is explained, K targets for each text; of a vocabulary, each logit minus the contrast's, or
                minus the mean over the vocabulary.
            places: Layers at which contributions are read, or `WORDS`, `MEDIA`, `SOURCE` + layer, see `entry_points`.
            read_positions: Where a language model answers each of G targets, (B, G); negative where a text has fewer,
                which counts nothing. None for the position of the pass.
            weights: Sums of the G quantities that are explained instead of each, (B, K, G).
        """
        positions = run.positions
        position_per_target = (
            None if positions is None or positions.ndim > 1 else positions[:, None].expand(target.ids.shape)
        )
        if read_positions is None and target.task.vocabulary and self._passes.ends_at_head:
            read_positions = position_per_target  # (B, K)
        with ExitStack() as stack:
            stack.callback(self._passes.release, run)
            stack.enter_context(without_autocast(run.batch.inputs))
            answer = run.answer
            if read_positions is not None:
                states = self.model.copy.token_states(answer, run.batch.mask.shape[1])  # (B, T, H)
                if run.predicted is None or read_positions is not position_per_target:
                    answer = self.quantities(states, target, read_positions, weights)  # (B, K)
                else:  # the pass has computed the logits at this position
                    states = states[range(len(states)), read_positions[:, 0].to(states.device)]  # (B, H)
                    answer = contrasted_logits(run.predicted, states, target.ids, target.contrast)  # (B, K)
                if weights is not None:
                    read_positions = single_read_position(read_positions, weights)  # (B, K)
                return contributions(answer, run, places, read_positions)
            if positions is not None:
                # A copy, because autograd keeps no tensor that was made in inference mode.
                answer = logits_at(answer, positions.to(answer.device).clone())  # (B, C)
            return contributions(target.quantity(answer.float()), run, places, position_per_target)

    def quantities(
        self, states: Tensor, target: BatchTargets, read_positions: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Return the explained quantities of a language model, (B, K), from the head's input, (B, T, H)."""
        is_read = (read_positions >= 0).to(states.device)  # (B, G)
        texts, columns = is_read.nonzero(as_tuple=True)  # (N,), the N places of all texts
        read_states = states[texts, read_positions.to(states.device)[is_read]]  # (N, H)
        values = contrasted_logits(
            head_answers(self._passes.head.tokens, read_states, gradients=states.requires_grad),
            read_states,
            target.ids.to(states.device)[is_read][:, None],
            None if target.contrast is None else target.contrast.to(states.device)[texts],
        )[:, 0]
        answer = values.new_zeros(is_read.shape).index_put((texts, columns), values)  # (B, G)
        return answer if weights is None else torch.einsum("bkg,bg->bk", weights.to(answer), answer)  # (B, K)

    def _run_copy(
        self,
        copy: nn.Module,
        batch: Batch,
        *,
        places: Sequence[int],
        sink_threshold: float | None,
        baseline: Tensor | None = None,
        point: float = 1.0,
    ) -> PassGraph:
        """Run a copy over a batch, with readouts at places.

        The entries of the input, and the outputs of layers, are replaced by equal tensors with a readout: a leaf of the
        graph whose gradient will be the contributions at that place.

        Args:
            copy: The copy.
            batch: The batch.
            places: Layers at which contributions are read, or `WORDS`, `MEDIA`, `SOURCE` + layer, see `entry_points`.
            sink_threshold: As for `run`.
            baseline: As for `run`.
            point: As for `run`.
        """
        parts, ends_at_head = self.model.parts, self._passes.ends_at_head
        trunk, tap = parts.trunk_site, None if parts.embedding_tap is None else parts.embedding_tap.site
        readouts: dict[int, Readout] = {}
        entries = _entries(places)
        read_entry = partial(_read_entry, readouts)
        read_words = partial(read_entry, baseline=baseline, point=point)
        masks = {False: batch.mask}  # the real tokens, by whether they are those of a source
        if batch.has_source:
            masks[True] = batch.inputs["source_mask"][..., 0].bool()
        layer_replacements = self._layer_readers(places, batch, masks, readouts, entries, sink_threshold is not None)
        with self.entry_points.replacements(batch, places, read_words, read_entry) as entry_replacements:
            model_pass = self._passes.forward(
                copy,
                batch,
                record=[site for site in (trunk, tap) if site is not None],
                replace=merge_replacements(entry_replacements, layer_replacements),
                stop=trunk if ends_at_head else None,
            )
        if sink_threshold is not None:
            for is_source, mask in masks.items():
                of_side = [p for p in readouts if is_of_source(p) == is_source and p != MEDIA]
                hold_sinks([readouts[place] for place in of_side], mask, sink_threshold)
        hidden = None if parts.trunk is None else parts.hidden(self.module, model_pass.last(trunk))
        embedded = parts.embedded(model_pass.last(tap), batch.mask.shape[1])
        if not readouts.keys() >= set(places):
            raise no_states(self.module)
        answer = hidden if ends_at_head else answer_of(model_pass.output)
        if answer is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} returned no logits")
        return PassGraph(
            readouts, entries, answer, hidden, embedded.detach() if isinstance(embedded, Tensor) else embedded
        )

    def _layer_readers(
        self,
        places: Sequence[int],
        batch: Batch,
        masks: Mapping[bool, Tensor],
        readouts: dict[int, Readout],
        entries: Sequence[int],
        find_sinks: bool,
    ) -> dict[str, Replace]:
        """Return the functions that read contributions at the outputs of layers, for the `replace` of `copies.run`.

        Args:
            places: Where contributions are read, as for `run`.
            batch: The batch.
            masks: The real tokens, (B, T), by whether they are those of a source.
            readouts: The readouts by place; the pass adds to them.
            entries: The places at which the input enters the graph.
            find_sinks: Whether attention sinks are looked for, which are read at all layers above the entries, too.
        """
        outputs = dict(enumerate(self.model.parts.outputs or (), 1))
        if batch.has_source:
            outputs |= {SOURCE + layer: output for layer, output in enumerate(self._source_outputs(batch), 1)}
            self._passes.encoder_layers |= {outputs[place].path for place in outputs if is_of_source(place)}
        if self.model.parts.embedding_output is not None:
            outputs[0] = self.model.parts.embedding_output
        layers = set(places) - {WORDS, SOURCE, MEDIA}
        if missing := layers - outputs.keys():
            raise self._not_returned_error(min(missing))
        if find_sinks:
            # The entry of the text, and that of a source.
            entry_of_side = {is_of_source(entry): entry for entry in entries if entry != MEDIA}
            layers |= {place for place in outputs if place and place > entry_of_side.get(is_of_source(place), place)}
        return layer_readers(
            {place: outputs[place] for place in layers}, masks, readouts, entries, find_sinks=find_sinks
        )

    def _not_returned_error(self, layer: int) -> UnsupportedModelError:
        """Return the error for a layer, 0 for the embeddings, whose output no module returns."""
        missing = f"the output of layer {layer}" if layer else "the embeddings"
        hint = "; read_at=0 needs no layer, and normxlogit and logat score layers in another way" if layer else ""
        return UnsupportedModelError(
            f"no module of {type(self.module).__name__} returns {missing} as `hidden_states` has it, a state for each "
            f"token, so the frozen network cannot be read there{hint}"
        )

    def _layers_of_text(self, batch: Batch, read_at: ReadAt) -> tuple[int, ...]:
        """Return the layers at which `read_at` reads contributions of the text, 0 for the embeddings."""
        parts = self.model.parts
        if isinstance(read_at, int):
            count = 0 if read_at == 0 else self.model.layer_count() if parts.outputs is None else len(parts.outputs)
            return layers_read(read_at, count)
        # Placeholder tokens of a picture are read at layers only if the patches of each token are known.
        has_unassigned_media = any(medium.by_token is None for medium in batch.media)
        if parts.outputs is None or parts.token_pooling is not None or has_unassigned_media:
            return (0,)
        # Pictures that are inserted after the embeddings, and tables that later layers look up, bypass layer 0.
        bypassed = parts.embedding_output is None or self.entry_points.tables(batch) or batch.media
        return layers_read(read_at, len(parts.outputs), 1 if bypassed else 0)

    def _layers_of_source(self, batch: Batch, read_at: ReadAt) -> tuple[int, ...]:
        """Return the encoder layers at which `read_at` reads contributions of the source, 0 for its entry."""
        if read_at == 0:
            return (0,)
        count = len(self._source_outputs(batch))
        if not count and isinstance(read_at, int):
            raise UnsupportedModelError(
                f"no module of the encoder of {type(self.module).__name__} returns its layers' outputs, so the source "
                "can be read at its word embeddings alone: read_at=0"
            )
        first = 1 if self.model.task.is_speech else 0  # a sound has no word embeddings among its layers
        return layers_read(read_at, count, first) if count else (0,)

    def _source_outputs(self, batch: Batch) -> tuple[LayerOutput, ...]:
        """Return the modules that return the outputs of the encoder's layers; () if unknown."""
        if self._source_layers is None:
            copy: Any = private_clone(self.model.copy.unmodified)
            inputs = self.model.task.caller_inputs(batch.inputs, batch, self.model.device)
            calls, outputs = trace(copy, {**inputs, "use_cache": False})
            states = outputs.get("encoder_hidden_states") or ()
            are_tensors = len(states) > 1 and all(isinstance(state, Tensor) for state in states)
            layers = layer_outputs(calls, path_of(copy, copy.get_encoder()), states) if are_tensors else None
            self._source_layers = () if layers is None or any(layer.axes != BATCH_FIRST for layer in layers) else layers
        return self._source_layers


def _read_entry(
    readouts: dict[int, Readout],
    place: int,
    embeddings: Tensor,
    baseline: Tensor | None = None,
    point: float = 1.0,
) -> Tensor:
    """Replace the embeddings at an entry of the input by equal ones with a readout, or by a point on a path to them.

    Args:
        readouts: The readouts by place, to which this one is added. Several tables at one place share a leaf.
        place: The place of the entry.
        embeddings: What enters, (B, T, H).
        baseline: Where the path begins, (B, T, H); None for zero.
        point: Which point of the path replaces the embeddings: 0 is the baseline, 1 the embeddings.
    """
    with torch._C.DisableTorchFunction():
        embeddings = embeddings.detach()
        direction = embeddings if baseline is None else embeddings - baseline.to(embeddings)
        earlier = readouts.get(place)
        state = embeddings if point == 1.0 else embeddings - (1 - point) * direction
        replacement, readout = read_out(state, leaf=None if earlier is None else earlier.leaf)
        readout.direction = None if direction is embeddings and point == 1.0 else direction
        readouts.setdefault(place, readout)
    return replacement


def _entries(places: Sequence[int]) -> list[int]:
    """Return the places at which the input enters the graph: the lowest of the text's, of a source's, and `MEDIA`."""
    places_of_text = [place for place in places if place >= WORDS]  # `WORDS` or layers
    places_of_source = [place for place in places if is_of_source(place)]
    places_of_media = [place for place in places if place == MEDIA]
    return [min(side) for side in (places_of_text, places_of_source, places_of_media) if side]


def layers_read(read_at: ReadAt, count: int, first: int = 0) -> tuple[int, ...]:
    """Return the layers at whose outputs the frozen network is read, 0 for the embeddings.

    Args:
        read_at: As in `FrozenGradient`.
        count: How many layers the model has.
        first: The lowest layer of "first-half" and "all", 0 or 1.
    """
    if read_at == "middle":
        return (count // 2,)
    if isinstance(read_at, str):
        last = count - 1 if read_at == "all" else min(max(count // 2, 1), count - 1)
        return tuple(range(first, last + 1)) or (0,)
    layer = count + read_at if read_at < 0 else read_at
    if not 0 <= layer <= count:
        raise MethodError(f"read_at={read_at}: there are layers 1 to {count}")
    return (layer,)
