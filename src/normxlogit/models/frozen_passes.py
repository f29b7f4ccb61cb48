"""Passes of the frozen form of a model, each kind proved on its first."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..surgery.autocast import without_autocast
from ..surgery.frozen import FrozenNetwork, Report
from ..surgery.pool import Pool
from ..surgery.proofs import SUMS, tolerance_for
from ..surgery.readout import Readout
from ..tasks.positions import at
from .forward_pass import ForwardPass, FrozenPass, no_states
from .proof import reading
from .task_model import TaskModel

LONG = 2048
"""Tokens of a pass beyond which its layers run again in the backward pass (gradient checkpointing)."""

PROOF_ROWS = 7
"""Vocabulary entries that the proof reads."""

PROOF_TOKENS = 512
"""Most tokens of a text that a language model is proved on: it backpropagates twice and keeps all hidden states."""


@dataclass(frozen=True)
class Flow:
    """What a pass of the frozen network left, with its graph.

    Attributes:
        readouts: By place, where contributions can be read.
        answer: What the head of a language model reads, (B, T, H), otherwise the logits.
        hidden: What the head reads, (B, T, H); None without a head.
        start: The embedding layer's output, (B, T, H), or why it is not known; None where the model does not give it.
    """

    readouts: dict[int, Readout]
    answer: Tensor
    hidden: Tensor | None
    start: Tensor | UnsupportedModelError | None


class RunsFrozen(Protocol):
    """Runs a frozen network once over a batch."""

    def __call__(
        self, network: FrozenNetwork, batch: Batch, report: Report, vectors: Sequence[Tensor] | None, *, sparing: bool
    ) -> Flow:
        """Run it.

        Args:
            network: Leased for the pass.
            batch: What to read.
            report: Filled by the pass.
            vectors: Replacements of the word embeddings; None for these themselves.
            sparing: Whether layers run again in the backward pass, see `FrozenNetwork.run`.
        """
        ...


class FrozenPasses:
    """Lends frozen networks for passes, and proves the first of each kind.

    Args:
        model: The model.
        make: Makes a network of a private copy.
    """

    def __init__(self, model: TaskModel, make: Callable[[nn.Module], FrozenNetwork]) -> None:
        self.model = model
        self.pool = Pool(model.module, make)
        self.lock = threading.RLock()
        self._opened = False
        self._proved: dict[bool, int] = {}  # from which place on: of texts alone, of texts with pictures or sounds

    def run(
        self, batch: Batch, begin: int, flow: RunsFrozen, vectors: Sequence[Tensor] | None, *, predict: bool
    ) -> ForwardPass:
        """Run a network that is leased until the gradients are read, proved on the first pass of its kind.

        A text alone is proved by the very pass that is explained, unless that keeps little; otherwise the beginning of
        the first text is.

        Args:
            batch: What to read.
            begin: The place from which it flows: a pass that begins lower goes through more of the model.
            flow: Runs a network over a batch, with the report that it is given, and vectors in the place of its own.
            vectors: The replacement; None for none.
            predict: As for `TaskModel.run`.
        """
        lease, flown, kind = self.pool.take(), None, bool(batch.media)
        # A picture brings hundreds of tokens, and the activations of its encoder.
        sparing = kind or batch.mask.numel() + (batch.inputs["source"].numel() if batch.has_source else 0) > LONG
        try:
            with reading(self.model.module, batch.inputs), without_autocast(batch.inputs):
                with self.lock:
                    if begin < self._proved.get(kind, begin + 1):
                        first = self.first_text(batch)
                        flown = self._prove(lease.lent, first, flow)
                        self._opened |= lease.lent.opened
                        self._proved[kind] = begin
                        if first is not batch or vectors is not None or sparing:
                            self.pool.release(lease)
                            lease, flown = self.pool.take(), None
                lease.lent.opened = self._opened
                flown = flown or flow(lease.lent, batch, Report(), vectors, sparing=sparing)
            with torch.no_grad():
                run = self.model.finish(
                    batch,
                    None if flown.hidden is None else flown.hidden.detach(),
                    flown.start if flown.start is not None else no_states(self.model.module),
                    None,
                    None if self.by_head else flown.answer.detach(),
                    predict,
                )
        except BaseException:
            self.pool.release(lease)
            raise
        return replace(run, frozen=FrozenPass(flown.readouts, flown.answer, lease))

    def first_text(self, batch: Batch) -> Batch:
        """Return the first text of a batch, of a language model its beginning; the batch itself if that is all."""
        task, length = self.model.task, PROOF_TOKENS if self.model.task.vocabulary else None
        whole = {name for name in batch.inputs if task.hears and name.startswith("source")}
        inputs = {n: v[:1] if n in whole else v[:1, :length] for n, v in batch.inputs.items()}
        if batch.media or all(inputs[name].shape == value.shape for name, value in batch.inputs.items()):
            return batch
        return Batch(inputs, batch.mask[:1, :length], batch.encodings[:1], [0])

    def _prove(self, network: FrozenNetwork, batch: Batch, flow: RunsFrozen) -> Flow:
        """Prove on a pass over one text that it gives the model's answer and is affine, and return what flowed."""
        position, rows, passes = None, None, list[Flow]()
        if self.model.task.vocabulary:
            position = batch.mask.int().cumsum(-1).argmax(-1)  # (1,), the last token
            rows = torch.arange(PROOF_ROWS, device=position.device)
            rows = rows * (self.model.vocabulary_size - 1) // (PROOF_ROWS - 1)  # (R,)

        def attempt(report: Report) -> tuple[Tensor, list[Tensor]]:
            passes.append(flow(network, batch, report, None, sparing=False))
            answer, readouts = passes[-1].answer, passes[-1].readouts.values()
            for readout in readouts:
                readout.detached = None  # what goes through attention sinks is proved, too
            if position is not None and rows is not None:
                places = position.to(answer.device)
                if self.by_head:
                    with network.frozen(report):
                        answer = self.model.head.tokens(answer[torch.zeros_like(places), places], rows)
                else:
                    answer = at(answer, places)[..., rows]
            return answer.float(), [readout.leaf for readout in readouts]

        def proved(model_answer: Tensor) -> Flow:
            network.prove(attempt, model_answer, SUMS * tolerance_for(model_answer))
            for readout in passes[-1].readouts.values():
                readout.detached = readout.sinks
            return passes[-1]

        first_answer = self._first_answer(batch.inputs, rows)
        if first_answer is not None:
            with suppress(UnsupportedModelError):  # its weights may have been trained since
                return proved(first_answer)
        with torch.no_grad():
            model_answer = self.model.answer(batch.inputs, position, rows)  # (1, C), (1, T, C) or (1, R)
        return proved(model_answer)

    def _first_answer(self, inputs: Mapping[str, Tensor], rows: Tensor | None) -> Tensor | None:
        """Return what the model has answered to a text if that was the first that it read, else None."""
        if self.model.copy.answered is None:
            return None
        text, logits = self.model.copy.answered
        if text.keys() != inputs.keys() or not all(torch.equal(text[name], value) for name, value in inputs.items()):
            return None
        return (logits if rows is None else logits[:, -1, rows]).float()

    @property
    def by_head(self) -> bool:
        """Whether a pass ends with what the head reads: the logits of a vocabulary are not kept."""
        return self.model.task.vocabulary and self.model.parts.trunk is not None
