"""What is kept of one forward pass."""

from dataclasses import dataclass

from torch import Tensor

from ..inputs.batching import Batch
from ..surgery.readout import Readout

__all__ = ["ForwardPass", "FrozenPass"]


@dataclass(frozen=True)
class FrozenPass:
    """A pass of the frozen network, with the graph to backpropagate through.

    Attributes:
        readouts: By place, where contributions can be read: 0 the word embeddings, l the output of layer l; the source
            of an encoder-decoder model has negative places, see `frozen_seq2seq.SOURCE`.
        answer: What the model answers, (B, C) or (B, T, C); of a language model what the head reads, (B, T, H).
    """

    readouts: dict[int, Readout]
    answer: Tensor


@dataclass(frozen=True)
class ForwardPass:
    """What one run of the trunk left behind.

    Attributes:
        batch: What was read.
        hidden: Final representations, what the head reads, (B, T, H).
        embedded: The embedding layer's output, (B, T, H).
        states: The embedding layer's output and every layer's, L + 1 of (B, T, H); None unless layers were asked for.
        logits: The model's answer, (B, C), for heads that answer at every token at the position explained.
        token_logits: The head's answer at each of the N real tokens, (N, C), in the order of `batch.mask`; None for
            vocabulary heads, of which only the wanted rows are ever computed.
        positions: The position whose prediction is explained, (B,), or (B, 2) for start and end of an answer; None
            for heads that answer for the whole text.
        everywhere: What the model answers at every token, (B, T, C); None for whole-text and vocabulary heads.
        frozen: What flowed, where the pass was made by the frozen network.
    """

    batch: Batch
    hidden: Tensor
    embedded: Tensor
    states: tuple[Tensor, ...] | None
    logits: Tensor
    token_logits: Tensor | None
    positions: Tensor | None
    everywhere: Tensor | None = None
    frozen: FrozenPass | None = None

    def row(self, index: int) -> "ForwardPass":
        """Return the part of one text, padding included."""
        part = slice(index, index + 1)
        batch = self.batch
        return ForwardPass(
            Batch({k: v[part] for k, v in batch.inputs.items()}, batch.mask[part], batch.encodings[part], [index]),
            self.hidden[part],
            self.embedded[part],
            None if self.states is None else tuple(state[part] for state in self.states),
            self.logits[part],
            None if self.token_logits is None else self.token_logits[batch.texts == index],
            None if self.positions is None else self.positions[part],
            None if self.everywhere is None else self.everywhere[part],
            # What flowed belongs to the whole batch: a row is passed through anew.
        )
