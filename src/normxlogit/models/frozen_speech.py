"""An encoder-decoder model of speech, frozen: contributions of moments of the sound and of the decoder's tokens."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..surgery.pool import private_clone
from ..surgery.run import Replace, Site, in_turn, run
from .embeddings import table_of
from .frozen_seq2seq import FrozenSeq2Seq
from .layers import ReadAt, layers_read
from .task_model import TaskModel


class FrozenSpeech(FrozenSeq2Seq):
    """An encoder-decoder model whose answers are affine in its first convolution and in the decoder's word embeddings.

    At place 0 the source's parts are the frames of the first convolution; other places are outputs of encoder layers.
    """

    def encoder_layers(self, batch: Batch, read_at: ReadAt) -> tuple[int, ...]:
        """Return the layers of the encoder that a setting means, 0 for the first convolution.

        Args:
            batch: A sound to find the layers with.
            read_at: As in `FrozenGradient`; several layers begin with the first one's output.
        """
        if read_at == 0:
            return (0,)
        return layers_read(read_at, len(self._encoder_layers(batch)), 1)

    def sides(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the first convolution's output and the decoder's word embeddings, (1, N, H') and (1, T, H)."""
        entry, parts = self._entry(inputs), list[Tensor]()

        def keep(frames: Tensor) -> Tensor:
            parts.append(frames.detach().clone())
            return frames

        with torch.no_grad():
            run(private_clone(self.module), inputs, replace=entry.replaced(keep), stop=Site(entry.path))
            (table,) = self._tables_of_sides()
            return [parts[0], table(inputs["input_ids"]).detach().clone()]

    def _tables_of_sides(self) -> list[nn.Module]:
        table = table_of(cast(Any, self.module).get_decoder())
        if table is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} names no word embeddings of its decoder")
        return [table]

    @contextmanager
    def _replaced(self, inputs: Mapping[str, Tensor], vectors: Sequence[Tensor]) -> Iterator[dict[str, Replace]]:
        looked_up = 0

        def swap(output: Tensor, args: tuple[Any, ...], _: Any) -> Tensor | None:
            nonlocal looked_up
            if not args or not torch.equal(args[0], inputs["input_ids"]):
                return None
            looked_up += 1
            return vectors[1].clone()

        (path,) = self._table_paths
        yield in_turn({path: swap}, self._entry(inputs).replaced(lambda _: vectors[0]))
        if looked_up != 1:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} looks its decoder's tokens up {looked_up} times in one pass"
            )


def frozen_both(model: TaskModel) -> FrozenSeq2Seq:
    """Return the frozen form of an encoder-decoder model, of texts or of speech."""
    return FrozenSpeech.of(model) if model.task.hears else FrozenSeq2Seq.of(model)
