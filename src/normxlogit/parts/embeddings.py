"""The word embeddings of a model, to look up or to replace in a forward pass."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..compat import decoder_of, encoder_of
from ..copies.module_io import CallArguments, tensor_of, with_tensor
from ..copies.run import Replacements, Site
from ..copies.trace import path_of
from ..errors import UnsupportedModelError


class WordEmbeddings:
    """The table of word embeddings of a model: the one that the model names, or the only one in which it looks up ids.

    Args:
        model: The model.
        lookup_tables: The paths of all tables in which it looked up token ids.

    Attributes:
        table: The module, which returns vectors, (B, T, H), for ids, (B, T).
        path: Where it is in the model.
    """

    def __init__(self, model: nn.Module, lookup_tables: Sequence[str] = ()) -> None:
        self._name = type(model).__name__
        table = _word_embedding_table(model)
        if table is None and len(lookup_tables) == 1:
            table = model.get_submodule(lookup_tables[0])
        if table is None:
            raise UnsupportedModelError(
                f"{self._name} has no table of word embeddings, which this method works on; "
                "frozen-gradient and occlusion need none"
            )
        self.table = table
        self.path = str(path_of(model, table))

    def __call__(self, ids: Tensor) -> Tensor:
        """Return the embedding of each token, as the model scales it, (B, T, H) for ids of (B, T)."""
        if (vectors := tensor_of(self.table(ids))) is None:
            raise UnsupportedModelError(f"the word embeddings of {self._name} are not returned as a tensor")
        return vectors

    @contextmanager
    def replaced(self, vectors: Tensor, ids: Tensor) -> Iterator[Replacements]:
        """Replace the embeddings of ids by vectors in one pass; yield the `replace=` of `run` that does so.

        Args:
            vectors: The replacement, (B, T, H).
            ids: The token ids that are looked up, (B, T).

        Raises:
            UnsupportedModelError: After the pass, if the ids were not looked up exactly once.
        """
        with changed_lookups(self._name, [Lookup(self.path, ids, lambda rows: vectors.to(rows))]) as lookups:
            yield lookups


@dataclass(frozen=True)
class Lookup:
    """A lookup of token ids in a table, whose rows are changed in a pass."""

    path: str  # the table
    ids: Tensor  # the token ids that the model is called with, (B, T)
    change: Callable[[Tensor], Tensor]  # a function of the rows, (B, T, H), that returns their replacement
    placeholder_mask: Tensor | None = None  # tokens of a picture or a sound, (B, T), for which any id may be looked up
    once: bool = True  # whether they must be looked up exactly once, as word embeddings that vectors take the place of

    def replacement(self, output: Tensor, indices: Tensor) -> Tensor | None:
        """Return the output of a lookup of these ids, transposed or padded too, with rows changed; None of others.

        Args:
            output: The rows that were looked up, (..., H).
            indices: The indices that the table was given.
        """
        ids = self.ids.to(indices.device)
        width = self.ids.shape[1]
        if self.placeholder_mask is not None and indices.shape == ids.shape:
            # Compared as if the model had looked placeholders up by their own ids.
            indices = torch.where(self.placeholder_mask, ids.to(indices), indices)
        if torch.equal(indices, ids):
            return self.change(output)
        if torch.equal(indices, ids.T):  # time first, as in XLNet
            return self.change(output.transpose(0, 1)).transpose(0, 1)
        if torch.equal(indices[..., :width], ids):  # padded by the model itself
            return torch.cat((self.change(output[:, :width]), output[:, width:]), 1)
        if torch.equal(indices[..., -width:], ids):  # after a prompt of the model's own
            return torch.cat((output[:, :-width], self.change(output[:, -width:])), 1)
        return None


@contextmanager
def changed_lookups(name: str, lookups: Sequence[Lookup]) -> Iterator[Replacements]:
    """Change the rows of several lookups in one pass; yield the `replace=` of `run` that does so.

    Args:
        name: The model's class, for errors.
        lookups: The lookups. Several may be of one table and of equal ids, as where encoder and decoder share it.

    Raises:
        UnsupportedModelError: After the block, if a lookup that must happen once did not.
    """
    times_changed = [0] * len(lookups)

    def replace_rows(path: str, returned: Any, arguments: CallArguments) -> Any:
        output = tensor_of(returned)
        indices = arguments.main_input
        if output is None or not isinstance(indices, Tensor):
            return None  # the output stays, as below for other indices
        # Lookups of equal ids in one table take turns: the one that was changed the fewest times is next.
        for index in sorted(range(len(lookups)), key=times_changed.__getitem__):
            replacement = lookups[index].replacement(output, indices) if lookups[index].path == path else None
            if replacement is not None:
                times_changed[index] += 1
                return with_tensor(returned, replacement.clone())  # some models work on it in place
        return None

    yield {Site(lookup.path, call=0): partial(replace_rows, lookup.path) for lookup in lookups}
    for lookup, count in zip(lookups, times_changed, strict=True):
        if lookup.once and count != 1:
            raise UnsupportedModelError(
                f"{name} looks its token ids up {count} times in one pass; vectors can only be put in the place of "
                "word embeddings that are read once"
            )


def table_of(model: nn.Module) -> nn.Module | None:
    """Return the embedding table of a model, an encoder or a decoder, None if it names none."""
    try:
        table = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):  # FSMT's sides are plain modules; Canine hashes its characters
        table = getattr(model, "embed_tokens", None)
    return table if isinstance(table, nn.Module) else None  # Perceiver gives its latents


def decoder_table(model: PreTrainedModel) -> str:
    """Return the path of the word embeddings of an encoder-decoder model's decoder."""
    table = table_of(decoder_of(model))
    if table is None:
        raise UnsupportedModelError(
            f"{type(model).__name__} names no table of word embeddings for its decoder; normxlogit scores the "
            "decoder's tokens, and occlusion the sources"
        )
    return str(path_of(model, table))


def _word_embedding_table(model: nn.Module) -> nn.Module | None:
    """Return the word embedding table, in an encoder-decoder model that of the encoder; None if there is none."""
    # The encoder's own table, which may scale its output. T5's encoder without a decoder has one as well: it is a model
    # of transformers, where BERT's `encoder` is a list of layers.
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return table_of(encoder_of(model))
    stack = getattr(getattr(model, "base_model", None), "encoder", None)
    return table_of(stack if isinstance(stack, PreTrainedModel) else model)
