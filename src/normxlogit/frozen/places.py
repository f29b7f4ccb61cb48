"""Places: where the input enters the graph of a frozen pass, and at which layers contributions are read."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ..copies.memory import reraise_out_of_memory
from ..copies.pool import private_clone
from ..copies.run import Replace, main_input, merge_replacements
from ..copies.trace import Axes, path_of, trace
from ..errors import MethodError, UnsupportedModelError
from ..inputs.batching import Batch
from ..model.task_model import TaskModel
from ..parts.embeddings import Lookup, WordEmbeddings, changed_lookups, table_of
from ..parts.find_parts import same_ids
from ..parts.layer_outputs import LayerOutput, layer_outputs
from ..parts.signal_entry import SignalEntry, find_signal_entry

ReadAt = int | Literal["first-half", "middle", "all"]
"""The layers at which contributions are read, see `FrozenGradient`."""

PROOF_TOKENS = 512
"""Most tokens of the text for the proof of a language model, which is not checkpointed."""


class Side(IntEnum):
    """A part of the input, in the order in which models read them."""

    MEDIA = 0
    """Pictures and sounds beside a text."""
    SOURCE = 1
    """What the encoder of an encoder-decoder model reads."""
    TEXT = 2
    """A text, or whatever else the layers with the answer read; of encoder-decoder models the decoder's."""


class Place(NamedTuple):
    """Where contributions are read: the output of a layer, or where the input enters; ordered as they are computed.

    Attributes:
        side: Whose contributions.
        layer: l for the output of layer l, 0 for the embedding layer's, -1 for the word embeddings of a text.
    """

    side: Side
    layer: int

    @classmethod
    def of_text(cls, layers: Iterable[int]) -> "tuple[Place, ...]":
        """Return the places of a text's layers."""
        return tuple(cls(Side.TEXT, layer) for layer in layers)


WORDS = Place(Side.TEXT, -1)
"""The word embeddings of a text."""

SOURCE = Place(Side.SOURCE, 0)
"""The entry of what an encoder reads: its word embeddings, or its first module with weights."""

MEDIA = Place(Side.MEDIA, 0)
"""The entry of pictures and sounds: the output of their patch embedding or first convolution."""

BATCH_FIRST: Axes = (0, 1, 2)
"""The axes of a state of shape (B, T, H)."""


def lowest_of_sides(places: Collection[Place]) -> list[Place]:
    """Return the lowest place of each side, where the input enters the graph."""
    return [min(place for place in places if place.side is side) for side in sorted({p.side for p in places})]


def layers_read(read_at: ReadAt, count: int, first: int = 0) -> tuple[int, ...]:
    """Return the layers of `count` at whose outputs `read_at` reads, 0 for the embeddings; `first` is 0 or 1.

    Raises:
        MethodError: If there is no such layer.
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


class ModelPlaces:
    """The places of a model, each with the module that returns what is read there."""

    def __init__(self, model: TaskModel) -> None:
        self.model = model
        self._signal: SignalEntry | None = None
        self._tables: tuple[str, ...] | None = None
        self._source_layers: tuple[LayerOutput, ...] | None = None

    # --- layers ------------------------------------------------------------------------------------------------------

    def read(self, batch: Batch, read_at: ReadAt, layers: tuple[int, ...] = ()) -> tuple[Place, ...]:
        """Return where the contributions of a batch are read.

        Args:
            batch: A text to find them with.
            read_at: As in `FrozenGradient`; for encoder-decoder models, it applies to the source.
            layers: Requested layers, which are read instead.

        Raises:
            MethodError: If there is no such layer.
            UnsupportedModelError: If no module returns the outputs of layers.
        """
        if batch.has_source:
            return (*(Place(Side.SOURCE, layer) for layer in self._layers_of_source(batch, read_at)), WORDS)
        text_layers = layers or self._layers_of_text(batch, read_at)
        if text_layers != (0,) or self.words is None:
            return Place.of_text(text_layers)
        return (WORDS, MEDIA) if batch.media else (WORDS,)

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
        bypassed = parts.embedding_output is None or self.tables(batch) or batch.media
        return layers_read(read_at, len(parts.outputs), 1 if bypassed else 0)

    def _layers_of_source(self, batch: Batch, read_at: ReadAt) -> tuple[int, ...]:
        """Return the encoder layers at which `read_at` reads contributions of the source, 0 for its entry."""
        if read_at == 0:
            return (0,)
        count = len(self._source_outputs(batch))
        if not count and isinstance(read_at, int):
            raise UnsupportedModelError(
                f"no module of the encoder of {type(self.model.module).__name__} returns its layers' outputs, so the "
                "source can be read at its word embeddings alone: read_at=0"
            )
        # A sound has no word embeddings among its layers.
        return layers_read(read_at, count, int(self.model.task.is_speech)) if count else (0,)

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

    @property
    def layer_paths(self) -> set[str]:
        """The modules that return the outputs of layers."""
        return {output.path for output in (*(self.model.parts.outputs or ()), *(self._source_layers or ()))}

    def outputs(self, batch: Batch, places: Sequence[Place], *, find_sinks: bool) -> dict[Place, LayerOutput]:
        """Return the modules whose outputs a pass reads: at places, and for attention sinks above the lowest, too."""
        parts = self.model.parts
        outputs = {Place(Side.TEXT, layer): output for layer, output in enumerate(parts.outputs or (), 1)}
        if batch.has_source:
            outputs |= {Place(Side.SOURCE, layer): out for layer, out in enumerate(self._source_outputs(batch), 1)}
        if parts.embedding_output is not None:
            outputs[Place(Side.TEXT, 0)] = parts.embedding_output
        wanted = set(places) - {WORDS, SOURCE, MEDIA}
        if missing := wanted - outputs.keys():
            layer = min(missing).layer
            what = f"the output of layer {layer}" if layer else "the embeddings"
            hint = "; read_at=0 needs no layer, and normxlogit and logat score layers in another way" if layer else ""
            raise UnsupportedModelError(
                f"no module of {type(self.model.module).__name__} returns {what} as `hidden_states` has it, a state for "
                f"each token, so the frozen network cannot be read there{hint}"
            )
        if find_sinks:
            lowest = {place.side: place for place in lowest_of_sides(places)}
            wanted |= {place for place in outputs if place.layer and place > lowest.get(place.side, place)}
        return {place: outputs[place] for place in wanted}

    # --- entries -----------------------------------------------------------------------------------------------------

    @property
    def words(self) -> WordEmbeddings | None:
        """The word embeddings of a model; None if it has none, such as models of pictures, sounds or characters."""
        try:
            return self.model.embeddings
        except UnsupportedModelError:
            return None

    @contextmanager
    def replaced_entries(
        self,
        batch: Batch,
        places: Collection[Place],
        read_entry: Callable[[Place, Tensor], Tensor],
        read_lookup: Callable[[Place, Tensor], Tensor],
    ) -> Iterator[dict[str, Replace]]:
        """Yield the `replace=` of `run` for a pass in this block in which contributions are read at the entries.

        Args:
            batch: The batch.
            places: Some of `WORDS`, `SOURCE` and `MEDIA`.
            read_entry: Called with a place and the embeddings that enter there, (B, T, H); returns their replacement.
            read_lookup: The same for the rows of further tables in which the ids of the tokens are looked up; what
                these contribute is the tokens'.
        """
        lookups, module, is_speech = list[Lookup](), self.model.module, self.model.task.is_speech
        if SOURCE in places and not is_speech:
            ids = batch.inputs["source"][..., 0]
            lookups.append(Lookup(_word_embedding_path(module, "encoder"), ids, partial(read_entry, SOURCE)))
        if WORDS in places:
            ids, mask = batch.inputs["input_ids"], batch.placeholder_mask
            path = _word_embedding_path(module, "decoder") if batch.has_source else self.model.embeddings.path
            lookups.append(Lookup(path, ids, partial(read_entry, WORDS), mask))
            further = partial(read_lookup, WORDS)
            lookups += [Lookup(path, ids, further, mask, once=False) for path in self.tables(batch)]
        signals = [
            self.signal(batch.inputs).replaced(partial(read_entry, place))
            for place in (SOURCE, MEDIA)
            if place in places and (place == MEDIA or is_speech)
        ]
        with changed_lookups(type(module).__name__, lookups) as lookup_replacements:
            yield merge_replacements(lookup_replacements, *signals)

    def signal(self, inputs: Mapping[str, Tensor]) -> SignalEntry:
        """Return the module at which pictures and sounds enter the model; it is searched for once."""
        if self._signal is None:
            self._signal = find_signal_entry(private_clone(self.model.module), inputs)
        if self._signal is None:
            raise UnsupportedModelError(
                f"no convolution or linear layer of {type(self.model.module).__name__} is given the picture or the "
                "sound, so its parts cannot be scored"
            )
        return self._signal

    def tables(self, batch: Batch) -> tuple[str, ...]:
        """Return the further tables of token ids beside the word embeddings, such as Gemma's for each layer.

        They are tried once, with a second text: positions or segments may happen to be a first text's token ids.
        """
        if self._tables is None:
            self._tables = ()
            if not batch.has_source and (words := self.words) is not None:
                word_embedding_paths = (words.path, words.path.rpartition(".")[0])
                if paths := tuple(path for path in self.model.parts.tables if path not in word_embedding_paths):
                    self._tables = self._tables_of_tokens(paths, batch)
        return self._tables

    @torch.no_grad()
    def _tables_of_tokens(self, paths: tuple[str, ...], batch: Batch) -> tuple[str, ...]:
        """Return the tables in which a model looks up token ids, found by changing the ids."""
        looked_up = set[str]()
        inputs = first_text(self.model, batch).inputs
        ids = inputs["input_ids"]
        reversed_ids = ids.flip(1)
        is_palindrome = torch.equal(reversed_ids, ids)
        other_ids = torch.full_like(ids, self.model.filler) if is_palindrome else reversed_ids  # (B, T)

        def note_lookup(path: str, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if same_ids(main_input(args, kwargs), other_ids):
                looked_up.add(path)

        try:
            watchers = {path: partial(note_lookup, path) for path in paths}
            stop = self.model.parts.trunk_site
            self.model.copy.run({**inputs, "input_ids": other_ids}, replace=watchers, stop=stop)
        except Exception as error:  # the model may refuse the same tokens in another order
            reraise_out_of_memory(error)
            self.model.copy.note_unverified(
                f"frozen-gradient takes what {', '.join(paths)} holds for the tokens', which was not tried on a second "
                "text: the model does not read this one's tokens in another order"
            )
            return paths
        return tuple(path for path in paths if path in looked_up)


def _word_embedding_path(module: nn.Module, stack: str) -> str:
    """Return the path of the word embeddings of an encoder or a decoder."""
    either: Any = module
    table = table_of(either.get_encoder() if stack == "encoder" else either.get_decoder())
    if table is None:
        raise UnsupportedModelError(
            f"{type(module).__name__} names no table of word embeddings for its {stack}, from which something would "
            "flow; normxlogit scores the decoder's tokens, and occlusion the sources"
        )
    return str(path_of(module, table))


def first_text(model: TaskModel, batch: Batch) -> Batch:
    """Return the first text of a batch, for a language model its beginning; the batch itself if it has no more."""
    if batch.media:  # a prompt with pictures, which is read by itself
        return batch
    task, length = model.task, PROOF_TOKENS if model.task.vocabulary else None
    # A sound is one input, not a sequence of tokens that could be cut.
    uncut_names = {name for name in batch.inputs if task.is_speech and name.startswith("source")}
    inputs = {name: value[:1] if name in uncut_names else value[:1, :length] for name, value in batch.inputs.items()}
    if all(inputs[name].shape == value.shape for name, value in batch.inputs.items()):
        return batch
    return Batch(inputs, batch.mask[:1, :length], batch.encodings[:1], [0])
