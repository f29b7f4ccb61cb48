"""Places: where the input enters the graph of a frozen pass, where contributions are read, and what a pass reads there.

At a hidden state h that is on every path from the input to the answer, token i contributes <g_i, h_i>, g the gradient
that arrives there; with the bias of what follows these sum to the answer.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..copies.arithmetic import l2_norms
from ..copies.run import Replacements, Site, TensorInputs, private_clone, tensor_of, with_tensor
from ..copies.trace import BATCH_FIRST, Axes
from ..errors import MethodError, UnsupportedModelError
from ..inputs.encoding import Batch
from ..model.task_model import TaskModel
from ..parts.embeddings import Lookup, WordEmbeddings, changed_lookups, decoder_table
from ..parts.layer_outputs import LayerOutput, LayerOutputs, encoder_outputs
from ..parts.signal_entry import SignalEntry, find_signal_entry
from ..results.storage.schema import Indices

ReadAt = int | Literal["first-half", "middle", "all"]
"""The layers at which contributions are read, see `FrozenGradient`."""


class Side(IntEnum):
    """A part of the input, in the order in which models read them."""

    MEDIA = 0  # pictures and sounds beside a text
    SOURCE = 1  # what an encoder reads for a decoder
    TEXT = 2  # a text, the decoder's, or whatever else the layers with the answer read


class Place(NamedTuple):
    """Where contributions are read: the output of a layer, or where the input enters; ordered as they are computed."""

    side: Side  # whose contributions
    layer: int  # l for the output of layer l, 0 for the embedding layer's, -1 for the word embeddings of a text


WORDS, SOURCE, MEDIA = Place(Side.TEXT, -1), Place(Side.SOURCE, 0), Place(Side.MEDIA, 0)
"""The entries: of a text its word embeddings; of a source these, or its first module with weights; of pictures and
sounds the output of their patch embedding or first convolution."""


def masks_of(batch: Batch) -> dict[Side, Tensor]:
    """Return the real tokens of the text, and of a source, (B, T)."""
    # (B, S, 1): its last axis has one entry.
    source = {Side.SOURCE: batch.inputs["source_mask"][..., 0].bool()} if batch.has_source else {}
    return {Side.TEXT: batch.mask, **source}


def lowest_of_sides(places: Collection[Place]) -> list[Place]:
    """Return the lowest place of each side, where the input enters the graph."""
    return [min(place for place in places if place.side is side) for side in sorted({p.side for p in places})]


@dataclass(frozen=True)
class Reading:
    """What a frozen pass reads."""

    places: Sequence[Place]  # where contributions are read; at the lowest of each side, the input enters the graph
    # From how many times the median of its layer on a hidden state counts as an attention sink, which is held where it
    # leaves the layer; None holds none
    sink_threshold: float | None = None
    # The word embeddings from which contributions are differences, (B, T, H); None for zero
    baseline: Tensor | None = None
    point: float = 1.0  # where on the path from the baseline, 0, to the text, 1, the network is frozen

    @property
    def is_at_text(self) -> bool:
        """Whether the network is frozen at the text itself, and contributions are differences from zero."""
        return self.point == 1.0 and self.baseline is None


@dataclass
class Readout:
    """The contributions read at one place."""

    axes: Axes = BATCH_FIRST  # how the module holds what is (B, T, H), or (B, T, ...) of several streams
    length: int | None = None  # how many positions are the text's, T, where the module pads it; None for all
    positions: int = 1  # how many axes are positions, which are read as one, row by row
    edges: list[GradientEdge] = field(default_factory=list)  # where gradients arrive, several of tables of a place
    vectors: list[Tensor] = field(default_factory=list)  # what they are multiplied by: states, or differences
    sinks: Tensor | None = None  # which tokens are attention sinks there, (B, T); None without any

    def read(self, state: Tensor, vector: Tensor | None = None, *, enters: bool = False) -> Tensor:
        """Note where the gradient of a state arrives and what it is multiplied by; return the state for the model.

        Args:
            state: What a module returned.
            vector: What gradients are multiplied by, in the state's shape; None for the state.
            enters: Whether the input enters the graph here: the state becomes a leaf, where backpropagation ends.

        Returns:
            An equal tensor, on which the model may write.
        """
        is_leaf = enters or not state.requires_grad
        with_graph = state.detach().requires_grad_() if is_leaf else state.clone()
        self.edges.append(get_gradient_edge(with_graph))
        self.vectors.append(state.detach() if vector is None else vector)
        return with_graph.clone() if is_leaf else with_graph  # autograd lets nobody write on a leaf

    @property
    def tokens(self) -> Tensor:
        """The first vector of each token, (B, T, H), or with an axis of streams."""
        return self.by_token(self.vectors[0])

    def contributions(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """Return what each token contributes, (..., B, T), by each edge's gradients, one or stacked, or None."""
        total: Tensor | None = None
        for vector, gradient in zip(self.vectors, gradients, strict=True):
            if gradient is not None:
                tokens = self.by_token(vector).float()  # (B, T, ...)
                products = self.by_token(gradient).float() * tokens  # (..., B, T, H), or with an axis of streams
                values = products.sum(tuple(range(2 - tokens.ndim, 0)))  # (..., B, T)
                total = values if total is None else total + values
        return torch.zeros_like(self.tokens.flatten(2)[..., 0], dtype=torch.float32) if total is None else total

    def by_token(self, states: Tensor) -> Tensor:
        """Return states in the module's order of axes as (..., B, T, H), without the positions of padding.

        Args:
            states: A tensor in the shape of the module's output, or several stacked in axes before it.
        """
        tokens = states.ndim - len(self.axes) + 1  # the axis of tokens
        if self.axes != BATCH_FIRST:
            states = states.permute(*range(tokens - 1), *(tokens - 1 + axis for axis in self.axes))
        if self.positions > 1:
            states = states.flatten(tokens, tokens + self.positions - 1)
        if self.length is None or states.shape[tokens] == self.length:
            return states
        return states.narrow(tokens, 0, self.length)

    def held(self, side: Side, exempt: Tensor | None) -> Tensor | None:
        """Return the sinks that are held, (..., B, T), where some tokens of the text are exempt, (..., B, T).

        Args:
            side: Whose place it is.
            exempt: Tokens that are the only ones through which the answer passes; None for none.
        """
        if self.sinks is None or exempt is None or side is not Side.TEXT:
            return self.sinks
        return self.sinks & ~exempt if exempt.shape[-1] == self.sinks.shape[-1] else self.sinks


Readouts = dict[Place, Readout]
"""The readouts of a pass, by place."""

ByPlace = dict[Place, Tensor]
"""What was read, by place."""


@contextmanager
def detached_sinks(readouts: Readouts) -> Iterator[None]:
    """Let no gradient pass attention sinks where they leave a layer, in the block.

    A sink still passes it on if all of the answer passes through this one token: without it nothing would be explained.
    Which token that is shows at the last readout, the first to which a gradient arrives.

    Args:
        readouts: The readouts of a frozen pass, by place.
    """
    last, exempt = max(readouts), None

    def detach(place: Place, readout: Readout, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Set the gradients of sinks to zero, before the node of a readout passes them on; a hook on that node."""
        nonlocal exempt
        output = readout.edges[0].output_nr
        gradient = gradients[output]
        if gradient is None:
            return gradients
        if place == last:  # the first to which a gradient arrives
            exempt = only_token(readout.contributions([gradient]))
        held = readout.held(place.side, exempt)
        if held is None:
            return gradients
        passed = gradient.clone()
        mask = held[(..., *[None] * (len(readout.axes) - 2))]  # (B, T, 1), or with an axis of streams
        # `by_token` is a view of it: readouts with sinks have a single axis of positions.
        readout.by_token(passed).masked_fill_(mask, 0.0)
        return *gradients[:output], passed, *gradients[output + 1 :]

    places_with_sinks = [place for place, readout in readouts.items() if readout.sinks is not None]
    hooked_places = {last, *places_with_sinks} if places_with_sinks else set[Place]()
    handles = [  # a hook runs after the gradient of the state was taken
        readouts[place].edges[0].node.register_prehook(partial(detach, place, readouts[place]))
        for place in hooked_places
    ]
    try:
        yield
    finally:
        for handle in handles:  # a hook that stays keeps its graph: Python's collector sees no cycle through autograd
            handle.remove()


def only_token(contributions: Tensor) -> Tensor:
    """Return which token is the only one of its text that contributes, (..., B, T)."""
    contributes = contributions != 0
    return contributes & (contributes.sum(-1, keepdim=True) == 1)


def hold_sinks(readouts: Readouts, masks: Mapping[Side, Tensor], threshold: float) -> None:
    """Hold the tokens whose state is `threshold` times larger than the median of their text (Sun et al., 2024).

    Args:
        readouts: The readouts of a pass, by place; which tokens are sinks is set there.
        masks: The real tokens of each side, (B, T); see `masks_of`.
        threshold: How many times the median of a layer the norm of a sink's state is.
    """
    for side, mask in masks.items():
        # Not among embeddings, where a bright patch among dark ones would be a sink.
        of_side = [readout for place, readout in readouts.items() if place.side is side and place.layer > 0]
        measured = [each for each in of_side if each.positions == 1 and each.tokens.shape[:2] == mask.shape]
        if measured:
            _mark_sinks(measured, mask, threshold)


def _mark_sinks(readouts: Sequence[Readout], mask: Tensor, threshold: float) -> None:
    """Set which tokens are sinks at the readouts of L layers, for real tokens, (B, T)."""
    sizes = torch.stack([l2_norms(readout.tokens.flatten(2)).to(mask.device) for readout in readouts])  # (L, B, T)
    medians = sizes.masked_fill(~mask, torch.nan).nanmedian(-1, keepdim=True).values  # (L, B, 1)
    sinks = (sizes > threshold * medians) & mask  # (L, B, T)
    has_sinks = sinks.flatten(1).any(1).tolist()  # one transfer
    for layer, readout in enumerate(readouts):
        if has_sinks[layer]:
            readout.sinks = sinks[layer].to(readout.vectors[0].device)


def layers_read(read_at: ReadAt, count: int, first: int = 0) -> Indices:
    """Return the layers of `count` at whose outputs `read_at` reads, 0 for the embeddings; `first` is 0 or 1.

    Args:
        read_at: The layers, see `FrozenGradient`.
        count: How many layers there are.
        first: The lowest one: 1 if some of the input does not pass the embeddings' output, otherwise 0.

    Raises:
        MethodError: If there is no such layer.
    """
    if read_at == "middle":
        return (count // 2,)
    if isinstance(read_at, str):
        first_half = max(count // 2, 1)
        # What layers read is averaged over: the output of the last one is read by none.
        last = count - 1 if read_at == "all" else min(first_half, count - 1)
        return tuple(range(first, last + 1)) or (0,)
    layer = count + read_at if read_at < 0 else read_at  # from the end, as an index of Python
    if not 0 <= layer <= count:
        raise MethodError(f"read_at={read_at}: there are layers 1 to {count}")
    return (layer,)


def _read_layer(readouts: Readouts, place: Place, readout: Readout, enters: bool, returned: Any, _: Any) -> Any:
    """Read the output of a layer; a `Replace` of `run` when all but the last two arguments are given.

    Args:
        readouts: Where the readout is entered.
        place: The place of the layer.
        readout: An empty one.
        enters: Whether the input enters the graph here.
        returned: What the layer's module returned.
    """
    state = tensor_of(returned)
    if state is None:
        return None
    readouts[place] = readout
    # What is done here is no operation of the model, which a `Recording` would note.
    with torch._C.DisableTorchFunction():
        return with_tensor(returned, readout.read(state, enters=enters))


def _read_entry(
    readouts: Readouts, place: Place, embeddings: Tensor, start: Tensor | None = None, point: float = 1.0
) -> Tensor:
    """Read embeddings, at which the input enters; several tables of one place share its readout.

    Args:
        readouts: Where the readout is entered.
        place: The place of the embeddings.
        embeddings: What was looked up, (B, T, H).
        start: The baseline, (B, T, H), from which contributions are differences; None for zero.
        point: Where the network is frozen on the line from the start, 0, to the embeddings, 1.

    Returns:
        The states at this point, (B, T, H).
    """
    with torch._C.DisableTorchFunction():
        states = embeddings.detach()
        direction = states if start is None else states - start.to(states)
        states_at_point = states if point == 1.0 else states - (1 - point) * direction
        return readouts.setdefault(place, Readout()).read(states_at_point, direction, enters=True)


class ModelPlaces:
    """The places of a model, each with the module that returns what is read there.

    Where pictures and sounds enter, and the layers of an encoder, are found when they are first asked for.
    """

    def __init__(self, model: TaskModel) -> None:
        self.model, self.name = model, model.class_name
        self._signal: SignalEntry | None = None
        self._source_layers: LayerOutputs | None = None

    def read(self, batch: Batch, read_at: ReadAt, layers: Indices = ()) -> tuple[Place, ...]:
        """Return where contributions are read: at `read_at`, of an encoder-decoder in its source, or at `layers`.

        Args:
            batch: What the pass reads.
            read_at: The layers, see `FrozenGradient`.
            layers: The layers of a text, counted from 1, whatever `read_at` says; () for none.

        Raises:
            MethodError: If there is no such layer.
        """
        if batch.has_source:
            return (*(Place(Side.SOURCE, layer) for layer in self._layers_of_source(batch, read_at)), WORDS)
        text_layers = layers or self._layers_of_text(batch, read_at)
        if text_layers != (0,) or self.words is None:
            return tuple(Place(Side.TEXT, layer) for layer in text_layers)
        return (WORDS, MEDIA) if batch.media else (WORDS,)

    @contextmanager
    def replaced(self, batch: Batch, reading: Reading, readouts: Readouts) -> Iterator[Replacements]:
        """Yield the `replace=` of `run` for a pass in this block, which adds its readouts, by place.

        Args:
            batch: What the pass reads.
            reading: Where contributions are read.
            readouts: Empty; the pass adds its readouts.

        Raises:
            UnsupportedModelError: If the model has no such place.
        """
        with changed_lookups(self.name, self._lookups(batch, reading, readouts)) as of_lookups:
            replaced = {**of_lookups}
            for place in (SOURCE, MEDIA):
                if place in reading.places and (place == MEDIA or batch.source_is_signal):
                    replaced |= self.signal(batch.inputs).replaced(partial(_read_entry, readouts, place))
            entries, masks = lowest_of_sides(reading.places), masks_of(batch)
            for place, output in self._outputs_read(batch, reading).items():
                readout = Readout(output.axes, masks[place.side].shape[1], output.positions)
                read_layer = partial(_read_layer, readouts, place, readout, place in entries)
                replaced[Site(output.path, output.call)] = read_layer
            yield replaced

    def _lookups(self, batch: Batch, reading: Reading, readouts: Readouts) -> list[Lookup]:
        """Return the lookups of token ids at which the words of a text, or of a source, enter."""
        lookups = list[Lookup]()
        if SOURCE in reading.places and not batch.source_is_signal:
            ids = batch.inputs["source"][..., 0]
            lookups.append(Lookup(self.model.embeddings.path, ids, partial(_read_entry, readouts, SOURCE)))
        if WORDS in reading.places:
            ids, mask = batch.inputs["input_ids"], batch.placeholder_mask
            path = decoder_table(self.model.module) if batch.has_source else self.model.embeddings.path
            read_words = partial(_read_entry, readouts, WORDS)
            read_at_point = partial(read_words, start=reading.baseline, point=reading.point)
            lookups.append(Lookup(path, ids, read_at_point, mask))
            # What further tables hold for the ids of the tokens is the tokens' contribution.
            lookups += [Lookup(path, ids, read_words, mask, once=False) for path in self.tables(batch)]
        return lookups

    # --- layers ------------------------------------------------------------------------------------------------------

    def outputs(self, batch: Batch) -> dict[Place, LayerOutput]:
        """Return which module, at which of its calls, returns the output of each layer, as far as known.

        Args:
            batch: B texts; with sources, the layers of the encoder are found once, by a pass over these.

        Returns:
            The modules by places: of the text, its embedding layer (0) included, and of its source.
        """
        parts = self.model.parts
        outputs = {Place(Side.TEXT, layer): output for layer, output in enumerate(parts.outputs or (), 1)}
        if parts.embedding_output is not None:
            outputs[Place(Side.TEXT, 0)] = parts.embedding_output
        if batch.has_source:
            source_outputs = enumerate(self._outputs_of_encoder(batch), 1)
            outputs |= {Place(Side.SOURCE, layer): output for layer, output in source_outputs}
        return outputs

    def _outputs_of_encoder(self, batch: Batch) -> LayerOutputs:
        """Return the modules that return the outputs of an encoder's layers; () if they are not known."""
        if self._source_layers is None:
            inputs = self.model.task.caller_inputs(batch.inputs, batch, self.model.device)
            # The copy that is explained is given an encoder's output: the other one runs the encoder itself.
            self._source_layers = encoder_outputs(private_clone(self.model.copy.unmodified), inputs)
        return self._source_layers

    def _layers_of_source(self, batch: Batch, read_at: ReadAt) -> Indices:
        """Return the layers of the encoder at which `read_at` reads contributions of a source, 0 for its entry."""
        count = sum(place.side is Side.SOURCE for place in self.outputs(batch))
        if read_at == 0 or (not count and isinstance(read_at, str)):
            return (0,)
        if not count:
            raise UnsupportedModelError(
                f"no module of the encoder of {self.name} returns its layers' outputs, so the source can be read "
                "at its word embeddings alone: read_at=0"
            )
        return layers_read(read_at, count, first=1 if batch.source_is_signal else 0)  # a sound has no word embeddings

    def _layers_of_text(self, batch: Batch, read_at: ReadAt) -> Indices:
        """Return the layers at which `read_at` reads contributions of a text, 0 for its entry."""
        parts = self.model.parts
        output_count = len(parts.outputs or ())
        if read_at == 0:
            return (0,)
        if isinstance(read_at, int):
            return layers_read(read_at, output_count or self.model.layer_count())
        # Placeholder tokens of a picture are read at layers only then.
        if output_count == 0 or not _has_patches_of_tokens(batch):
            return (0,)
        # Pictures are inserted after the embeddings, and further tables may be looked up by later layers.
        is_bypassed = parts.embedding_output is None or bool(self.tables(batch) or batch.media)
        return layers_read(read_at, output_count, first=1 if is_bypassed else 0)

    def _outputs_read(self, batch: Batch, reading: Reading) -> dict[Place, LayerOutput]:
        """Return the modules whose outputs a pass reads: at places, and for attention sinks above the lowest, too."""
        outputs, places = self.outputs(batch), set(reading.places) - {WORDS, SOURCE, MEDIA}
        if missing := places - outputs.keys():
            layer = min(missing).layer
            missing_name = f"the output of layer {layer}" if layer else "the embeddings"
            hint = "; read_at=0 needs no layer, and normxlogit and logat score layers in another way" if layer else ""
            raise UnsupportedModelError(
                f"no module of {self.name} returns {missing_name} as `hidden_states` has it, a state for each token, "
                f"so the frozen network cannot be read there{hint}"
            )
        if reading.sink_threshold is not None:
            lowest = {place.side: place for place in lowest_of_sides(reading.places)}
            places |= {place for place in outputs if place.layer and place > lowest.get(place.side, place)}
        return {place: outputs[place] for place in places}

    # --- entries -----------------------------------------------------------------------------------------------------

    @property
    def words(self) -> WordEmbeddings | None:
        """The word embeddings of a model; None if it has none, such as models of pictures, sounds or characters."""
        try:
            return self.model.embeddings
        except UnsupportedModelError:
            return None

    def signal(self, inputs: TensorInputs) -> SignalEntry:
        """Return the module at which pictures and sounds enter the model; it is searched for once."""
        self._signal = self._signal or find_signal_entry(private_clone(self.model.module), inputs)
        if self._signal is None:
            raise UnsupportedModelError(
                f"no convolution or linear layer of {self.name} is given the picture or the "
                "sound, so its parts cannot be scored"
            )
        return self._signal

    def tables(self, batch: Batch) -> list[str]:
        """Return the further tables of token ids beside the word embeddings, such as Gemma's for each layer."""
        if batch.has_source or (words := self.words) is None:
            return []
        adapter_path = words.path.rpartition(".")[0]  # of an adapter, which wraps the table and stands for it
        return [path for path in self.model.parts.tables if path not in (words.path, adapter_path)]


def _has_patches_of_tokens(batch: Batch) -> bool:
    """Return whether the patches behind each placeholder token of a batch's pictures are known."""
    return all(medium.by_token is not None for medium in batch.media)
