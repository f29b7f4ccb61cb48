"""`ModelPlaces`: which module of a model returns what is read at each place."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..copies.module_io import TensorInputs, tensor_of, with_tensor
from ..copies.pool import private_clone
from ..copies.run import Replacements, Site
from ..errors import MethodError, UnsupportedModelError
from ..inputs.batches import Batch
from ..model.task_model import TaskModel
from ..parts.embeddings import Lookup, WordEmbeddings, changed_lookups, decoder_table
from ..parts.layer_outputs import LayerOutput, LayerOutputs, encoder_outputs
from ..parts.signal_entry import SignalEntry, find_signal_entry
from ..results.storage.schema import Indices
from .places import MEDIA, SOURCE, WORDS, Place, ReadAt, Reading, Side, lowest_of_sides, masks_of
from .readouts import Readout, Readouts


def layers_read(read_at: ReadAt, count: int, first: int = 0) -> Indices:
    """Return the layers at whose outputs `read_at` reads.

    Args:
        read_at: The layers, see `FrozenGradient`.
        count: How many layers there are.
        first: The lowest one: 1 if some of the input does not pass the embeddings' output, otherwise 0.

    Returns:
        Their numbers, from 1 to `count`, and 0 for the output of the embeddings.

    Raises:
        MethodError: If there is no such layer.
    """
    if read_at == "middle":
        return (count // 2,)  # of a model of one layer the embeddings, 0
    if isinstance(read_at, str):  # "first-half" or "all"
        last_of_first_half = max(count // 2, 1)
        last_read = count - 1  # the contributions are read in what layers read, and none reads the last one's output
        last = last_read if read_at == "all" else min(last_of_first_half, last_read)
        return tuple(range(first, last + 1)) or (0,)  # a model of one layer reads the embeddings alone
    layer = count + read_at if read_at < 0 else read_at  # from the end, as an index of Python
    if not 0 <= layer <= count:
        raise MethodError(f"read_at={read_at}: there are layers 1 to {count}")
    return (layer,)


def _read_layer(readouts: Readouts, place: Place, readout: Readout, enters: bool, returned: Any, _: Any) -> Any:
    """Read the output of a layer: the hook of a layer, which `run` calls with the last two arguments.

    Args:
        readouts: Where the readout is entered.
        place: The place of the layer.
        readout: An empty one.
        enters: Whether the input enters the graph here.
        returned: What the layer's module returned.
        _: The arguments of its call.

    Returns:
        What the module returns instead; None for its own output, if that has no state.
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
    with torch._C.DisableTorchFunction():  # as in `_read_layer`
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

    def places_read(self, batch: Batch, read_at: ReadAt, layers: Indices = ()) -> tuple[Place, ...]:
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
        # Without word embeddings, the embedding layer's output, layer 0, is what stands for them.
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
                # The lookups above have the words of a source that is a text.
                if place in reading.places and (place == MEDIA or batch.source_is_signal):
                    replaced |= self._signal_entry(batch.inputs).replaced(partial(_read_entry, readouts, place))
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
            # What further tables hold for the ids of the tokens is the tokens' contribution, too, however often they
            # are looked up.
            lookups += [Lookup(path, ids, read_words, mask, once=False) for path in self._further_tables(batch)]
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
        # Named layers become the entry where layers are not known; a layer by its number is refused.
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
        if isinstance(read_at, int):  # if no module returns this layer's output, `_outputs_read` refuses it
            return layers_read(read_at, output_count or self.model.layer_count())
        # At layers, a picture is read through its placeholder tokens.
        if output_count == 0 or not _has_patches_of_tokens(batch):
            return (0,)
        # Pictures are inserted after the embeddings, and further tables may be looked up by later layers: their
        # contributions are not in the embeddings' output, so that the lowest layer read is the first.
        is_bypassed = parts.embedding_output is None or bool(self._further_tables(batch) or batch.media)
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
            # A side of which nothing is read has no lowest place, and its sinks are not looked for.
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

    def _signal_entry(self, inputs: TensorInputs) -> SignalEntry:
        """Return the module at which pictures and sounds enter the model; it is searched for once."""
        self._signal = self._signal or find_signal_entry(private_clone(self.model.module), inputs)
        if self._signal is None:
            raise UnsupportedModelError(
                f"no convolution or linear layer of {self.name} is given the picture or the "
                "sound, so its parts cannot be scored"
            )
        return self._signal

    def _further_tables(self, batch: Batch) -> list[str]:
        """Return the paths of tables of token ids beside the word embeddings, as Gemma has one for each layer."""
        if batch.has_source or (words := self.words) is None:
            return []
        adapter_path = words.path.rpartition(".")[0]  # if an adapter wraps the table, it is found as a table itself
        return [path for path in self.model.parts.tables if path not in (words.path, adapter_path)]


def _has_patches_of_tokens(batch: Batch) -> bool:
    """Return whether the patches that each placeholder token of a batch's pictures stands for are known."""
    return all(medium.by_token is not None for medium in batch.media)
