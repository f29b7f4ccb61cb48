"""The entries of the input into the graph of a frozen pass: word embeddings, pictures and sounds."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from ..copies.memory import reraise_out_of_memory
from ..copies.pool import private_clone
from ..copies.run import Replace, main_input, merge_replacements
from ..copies.trace import path_of
from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..model.task_model import TaskModel
from ..parts.embeddings import Lookup, WordEmbeddings, changed_lookups, table_of
from ..parts.find_parts import same_ids
from ..parts.signal_entry import SignalEntry, find_signal_entry
from .readouts import MEDIA, SOURCE, WORDS, Place

PROOF_TOKENS = 512
"""Most tokens of the text for the proof of a language model, which is not checkpointed."""

ReadOut = Callable[[Place, Tensor], Tensor]
"""Called with a place and the embeddings that enter there, (B, T, H); returns their replacement."""


class EntryPoints:
    """The modules at which the input enters a model."""

    def __init__(self, model: TaskModel) -> None:
        self.model = model
        self._signal: SignalEntry | None = None
        self._tables: tuple[str, ...] | None = None

    @property
    def words(self) -> WordEmbeddings | None:
        """The word embeddings of a model; None if it has none, such as models of pictures, sounds or characters."""
        try:
            return self.model.embeddings
        except UnsupportedModelError:
            return None

    @contextmanager
    def replacements(
        self, batch: Batch, places: Collection[Place], read_entry: ReadOut, read_lookup: ReadOut
    ) -> Iterator[dict[str, Replace]]:
        """Yield the `replace=` for one pass in which contributions are read at the entries.

        Args:
            batch: The batch.
            places: Some of `WORDS`, `SOURCE` and `MEDIA`.
            read_entry: Called with a place and the embeddings that enter there.
            read_lookup: Called with a place and the rows of further tables in which the ids of the tokens are looked
                up; what these contribute is the tokens'.

        Yields:
            The `replace=` of `run`, for a pass in this block.
        """
        lookups, signal_places = list[Lookup](), list[Place]()
        ids = batch.inputs["input_ids"] if WORDS in places else None
        if SOURCE in places and not batch.source_is_signal:
            source_ids = batch.inputs["source"][..., 0]
            lookups.append(Lookup(self._word_embedding_path("encoder"), source_ids, partial(read_entry, SOURCE)))
        if ids is not None:
            path = self._word_embedding_path("decoder") if batch.has_source else self.model.embeddings.path
            lookups.append(Lookup(path, ids, partial(read_entry, WORDS), batch.placeholder_mask))
            lookups += [
                Lookup(path, ids, partial(read_lookup, WORDS), batch.placeholder_mask, once=False)
                for path in self.tables(batch)
            ]
        if batch.source_is_signal and SOURCE in places:
            signal_places.append(SOURCE)
        if MEDIA in places:
            signal_places.append(MEDIA)
        signal_replacements = [
            self.signal(batch.inputs).replaced(partial(read_entry, place)) for place in signal_places
        ]
        with changed_lookups(type(self.model.module).__name__, lookups) as lookup_replacements:
            yield merge_replacements(lookup_replacements, *signal_replacements)

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

    def _word_embedding_path(self, stack: str) -> str:
        """Return the path of the word embeddings of an encoder or a decoder."""
        module = cast(Any, self.model.module)
        table = table_of(module.get_encoder() if stack == "encoder" else module.get_decoder())
        if table is None:
            raise UnsupportedModelError(
                f"{type(module).__name__} names no table of word embeddings for its {stack}, from which something "
                "would flow; normxlogit scores the decoder's tokens, and occlusion the sources"
            )
        return str(path_of(module, table))

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


def first_text(model: TaskModel, batch: Batch) -> Batch:
    """Return the first text of a batch, for a language model its beginning; the batch itself if it has no more."""
    if batch.media:  # a prompt with pictures, which is read by itself
        return batch
    length = PROOF_TOKENS if model.task.vocabulary else None
    # A signal is one input, not a sequence of tokens that could be cut.
    uncut_names = {name for name in batch.inputs if batch.source_is_signal and name.startswith("source")}
    inputs = {name: value[:1] if name in uncut_names else value[:1, :length] for name, value in batch.inputs.items()}
    if all(inputs[name].shape == value.shape for name, value in batch.inputs.items()):
        return batch
    return Batch(inputs, batch.mask[:1, :length], batch.encodings[:1], [0])
