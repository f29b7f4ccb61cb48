"""The word embeddings of a model: read them, and replace them in a forward pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..errors import UnsupportedModelError
from ..surgery.run import Replace
from ..surgery.trace import path_of, tensor_of, with_tensor


class WordEmbeddings:
    """The embedding table of a model.

    Vectors take the place of what the embedding module returns, so that positions, types and everything else that the
    model derives from the token ids stay as they are; models that take no `inputs_embeds` need none.

    Attributes:
        table: The module that looks them up.

    Raises:
        UnsupportedModelError: If the model has no table of them.
    """

    def __init__(self, model: nn.Module) -> None:
        self._name = type(model).__name__
        table = _table(model)
        if table is None:
            raise UnsupportedModelError(
                f"{self._name} has no table of word embeddings, which this method works on; "
                "frozen-gradient and occlusion need none"
            )
        self.table = table
        self.path = str(path_of(model, table))

    def __call__(self, ids: Tensor) -> Tensor:
        """Return the embedding of each token, as the model scales it, (B, T, H) for ids of (B, T)."""
        vectors = tensor_of(self.table(ids))
        if vectors is None:
            raise UnsupportedModelError(f"the word embeddings of {self._name} are not returned as a tensor")
        return vectors

    @contextmanager
    def replaced(self, vectors: Tensor, ids: Tensor, stand_ins: Tensor | None = None) -> Iterator[dict[str, Replace]]:
        """Replace the embeddings of ids by other vectors in one pass.

        Args:
            vectors: (B, T, H); brought to the embedding's precision.
            ids: The token ids that the model is called with, (B, T).
            stand_ins: Tokens that stand for a picture or a sound, (B, T), for which it may look any id up.

        Yields:
            What `run` is to replace in a pass in this block.
        """
        times = 0

        def swap(returned: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            nonlocal times
            output, lookup_ids = tensor_of(returned), args[0] if args else next(iter(kwargs.values()))
            if stand_ins is not None and lookup_ids.shape == ids.shape:
                lookup_ids = torch.where(stand_ins, ids.to(lookup_ids), lookup_ids)
            placed = None if output is None else self._placed(output, vectors, ids.to(lookup_ids), lookup_ids)
            if placed is None:
                return None
            times += 1
            return with_tensor(returned, placed.clone())  # some models work on it in place

        yield {self.path: swap}
        if times != 1:
            raise UnsupportedModelError(
                f"{self._name} looks its token ids up {times} times in one pass; vectors can only be put in the "
                "place of word embeddings that are read once"
            )

    def _placed(self, output: Tensor, vectors: Tensor, ids: Tensor, indices: Tensor) -> Tensor | None:
        """Return the replacement for a lookup of indices, None if these are not the token ids."""
        vectors, width = vectors.to(output.device, output.dtype), ids.shape[1]
        if torch.equal(indices, ids):
            placed = vectors  # (B, T, H)
        elif torch.equal(indices, ids.T):  # time first, as in XLNet
            placed = vectors.transpose(0, 1)  # (T, B, H)
        elif torch.equal(indices[..., :width], ids):  # padded by the model itself
            placed = torch.cat((vectors, output[:, width:]), 1)  # (B, T', H)
        elif torch.equal(indices[..., -width:], ids):  # after a prompt of the model's own
            placed = torch.cat((output[:, :-width], vectors), 1)  # (B, T', H)
        else:
            return None
        if placed.shape != output.shape:
            raise UnsupportedModelError(
                f"{self._name} reads vectors of width {output.shape[-1]} for each token, not {placed.shape[-1]}"
            )
        return placed


def table_of(side: nn.Module) -> nn.Module | None:
    """Return the embedding table of an encoder or a decoder, None if it names none."""
    try:
        table = side.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):  # FSMT's sides are plain modules
        table = getattr(side, "embed_tokens", None)
    return table if isinstance(table, nn.Module) else None


def _table(model: nn.Module) -> nn.Module | None:
    try:
        table = model.get_input_embeddings()  # type: ignore[operator]
        config = getattr(model, "config", None)
        stack = getattr(getattr(model, "base_model", None), "encoder", None)
        # The encoder's own table, which may scale what it gives; T5's is its own also where there is no decoder.
        if getattr(config, "is_encoder_decoder", False):
            table = table_of(model.get_encoder())  # type: ignore[operator]
        elif isinstance(stack, PreTrainedModel):
            table = stack.get_input_embeddings()
    except NotImplementedError:  # Canine hashes its characters
        return None
    return table if isinstance(table, nn.Module) else None  # Perceiver gives its latents
