"""The frozen form of a task model: each token's contribution to its logits, proved on the first text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from ..frozen.conservation import Balance
from ..frozen.readout import Readout, read_out, readers
from ..inputs.batching import Batch
from ..surgery.autocast import without_autocast
from ..surgery.headpiece import answer_of
from ..surgery.layer_outputs import LayerOutput
from ..surgery.pool import private_clone
from ..surgery.run import Replace, in_turn
from ..surgery.signal_entry import SignalEntry, find_signal_entry
from ..tasks.positions import at
from ..tasks.targets import Target
from .contributions import Contributions, contributions, logits_read, read_once
from .embeddings import WordEmbeddings
from .forward_pass import ForwardPass, FrozenPass, no_states
from .frozen_passes import Flow, FrozenPasses
from .task_model import TaskModel
from .token_tables import replaced_rows, token_tables

if TYPE_CHECKING:
    from typing_extensions import Self


WORDS = -1
"""The lowest place that a pass can begin at: the word embeddings, before the embedding layer's output."""

PARTS = -2_000_000
"""The place at which pictures and sounds enter: what their patch embedding, or first convolution, returns."""


class FrozenModel:
    """A task model and the backward pass of its frozen network, which begins at the word embeddings or at a layer."""

    def __init__(self, model: TaskModel) -> None:
        self.model = model
        self.module = model.module
        self._embeddings = _word_embeddings(model)
        self._passes = FrozenPasses(model)
        self._entrance: SignalEntry | None = None
        self._token_tables: tuple[str, ...] | None = None

    @classmethod
    def of(cls, model: TaskModel) -> "Self":
        """Return the frozen form of a model, cached until the model is copied anew."""
        cached = model.__dict__.get("_frozen_model")
        if cached is None or type(cached) is not cls or cached.module is not model.module:
            cached = model.__dict__["_frozen_model"] = cls(model)
        return cached

    def vectors(self, batch: Batch) -> Tensor:
        """Return the word embeddings of a batch, (B, T, H)."""
        if self._embeddings is None:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} reads no word embeddings that could be replaced, so there is no path "
                "to them from a baseline; points=1.0 and baseline=zero need none"
            )
        ids = batch.inputs["input_ids"].clone()
        if batch.stand_ins is not None:
            ids = ids.masked_fill(batch.stand_ins, 0)  # the table need not have a row for what is never read
        with torch.no_grad():
            return self._embeddings(ids)

    def run(
        self,
        batch: Batch,
        places: Sequence[int],
        vectors: Tensor | None = None,
        *,
        sink_threshold: float | None = None,
        predict: bool = True,
    ) -> ForwardPass:
        """Run the frozen network once over a batch; its answers are the model's own.

        Args:
            batch: What to read.
            places: Where contributions will be read: layers, or 0; alone, it is the word embeddings with the `PARTS`
                of pictures and sounds, beside layers the embedding layer's output.
            vectors: Replacement of the word embeddings, (B, T, H); None for the embeddings themselves.
            sink_threshold: From how many times the median of its layer on a hidden state counts as an attention sink,
                which is held where it leaves the layer; None holds none.
            predict: As for `TaskModel.run`.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or a layer's output does not pass by.
        """
        begin = WORDS if self._embeddings is not None and tuple(places) == (0,) else min(places)
        flow = partial(self._flow, places=places, sink_threshold=sink_threshold)
        return self._passes.run(batch, begin, flow, None if vectors is None else [vectors], predict=predict)

    def balance(self, run: ForwardPass, target: Target) -> Balance:
        """Add up what the word embeddings of a text and each constant of the model contribute to its answer.

        Args:
            run: A pass of the frozen network over one text, which proved it.
            target: What is explained, one for the text.
        """
        positions = run.positions

        def quantity(flown: Flow) -> Tensor:
            answer = flown.answer
            if self._passes.by_head:
                states = self.model.copy.by_token(answer, run.batch.mask.shape[1])  # (1, T, H)
                place = 0 if positions is None else int(positions[0])
                answer = self._passes.head.tokens(states[:, place])  # (1, V)
            elif positions is not None:
                answer = at(answer, positions.to(answer.device).clone())  # (1, C)
            return target.quantity(answer.float()).sum()

        return self._passes.balance(run.batch, partial(self._flow, places=(0,), sink_threshold=None), quantity)

    def _flow(
        self,
        copy: nn.Module,
        batch: Batch,
        vectors: Sequence[Tensor] | None,
        *,
        places: Sequence[int],
        sink_threshold: float | None,
    ) -> Flow:
        """Run a copy over a batch, see `run`."""
        parts, by_head = self.model.parts, self._passes.by_head
        trunk, tap = parts.trunk_site, None if parts.embedding_tap is None else parts.embedding_tap.site
        readouts: dict[int, Readout] = {}
        words = None if tuple(places) != (0,) else self._embeddings
        replacing = self._readers(places if words is None else (), batch, sink_threshold, readouts)
        with ExitStack() as stack:
            if words is not None:
                flowing, readouts[0] = read_out((vectors[0] if vectors else self.vectors(batch)).detach())
                leaf, ids = readouts[0].leaf, batch.inputs["input_ids"]
                table = stack.enter_context(words.replaced(flowing, ids, batch.stand_ins))
                # What else is looked up for a token belongs to it: one leaf reads both contributions.
                rows = replaced_rows(self._tables(batch), ids, lambda rows: read_out(rows.detach(), leaf=leaf)[0])
                replacing = in_turn(table, rows, replacing)  # XLNet's table is also where its embeddings are read
                if batch.media:
                    replacing = in_turn(replacing, self._entry(batch.inputs).replaced(_reading(readouts, PARTS)))
            done = self._passes.forward(
                copy,
                batch,
                record=[site for site in (trunk, tap) if site is not None],
                replace=replacing,
                stop=trunk if by_head else None,
            )
        hidden = None if parts.trunk is None else parts.hidden(self.module, done.last(trunk))
        start = parts.embedded(done.last(tap), batch.mask.shape[1])
        if not readouts.keys() >= set(places):
            raise no_states(self.module)
        answer = hidden if by_head else answer_of(done.output)
        if answer is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} returned no logits")
        entries = [place for place in (min(places), PARTS) if place in readouts]
        return Flow(readouts, entries, answer, hidden, start.detach() if isinstance(start, Tensor) else start)

    def first_input(self, batch: Batch) -> int:
        """Return the first layer whose output is read as the next one's input: 0, the embedding layer, or 1.

        It is 1 where no module returns the embedding layer's output, where pictures are put among the words, or where
        later layers look up more for each token, which flows past it.

        Args:
            batch: A text to find with what is looked up.
        """
        return 1 if self.model.parts.embedding_output is None or self._tables(batch) or batch.media else 0

    def contributions(self, run: ForwardPass, target: Target, places: Sequence[int]) -> Contributions:
        """Backpropagate through a frozen pass once for each target.

        Args:
            run: What `run` returned; it can be backpropagated through once.
            target: What is explained; of a vocabulary, each logit minus the contrast's, or minus the mean over
                the vocabulary.
            places: Where contributions are read.
        """
        frozen, positions = _frozen(run), run.positions
        single = (
            None if positions is None or positions.ndim > 1 else positions[:, None].expand(target.ids.shape)
        )  # (B, K)
        if target.task.vocabulary and single is not None and self.model.parts.trunk is not None:
            return self.contributions_each(run, target, places, single)
        answer = frozen.answer
        with without_autocast(run.batch.inputs), self._released(frozen):
            if positions is not None:
                # A copy, because autograd keeps no tensor that was made in inference mode.
                answer = at(answer, positions.to(answer.device).clone())  # (B, C)
            return contributions(target.quantity(answer.float()), frozen, places, single)

    def contributions_each(
        self,
        run: ForwardPass,
        target: Target,
        places: Sequence[int],
        read: Tensor,
        weights: Tensor | None = None,
    ) -> Contributions:
        """Backpropagate through a frozen pass of a language model, once for each place of the answers.

        Args:
            run: What `run` returned for B texts; it can be backpropagated through once.
            target: The G vocabulary entries read, (B, G); each logit minus the contrast's, or minus the mean over
                the vocabulary.
            places: Where contributions are read.
            read: Where the model answers, (B, G); negative where a text has fewer places, which count nothing.
            weights: Sums of the G quantities that are explained instead of each, (B, K, G).

        Returns:
            The contributions to G quantities, or to K sums.
        """
        frozen = _frozen(run)
        states = self.model.copy.by_token(frozen.answer, run.batch.mask.shape[1])  # (B, T, H)
        with without_autocast(run.batch.inputs), self._released(frozen):
            answer = self.read_each(states, target, read, weights)  # (B, K)
            return contributions(answer, frozen, places, read if weights is None else read_once(read, weights))

    def read_each(self, states: Tensor, target: Target, read: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return what `contributions_each` explains, (B, K), of states that the head reads, (B, T, H)."""
        is_read = (read >= 0).to(states.device)  # (B, G)
        texts, order = is_read.nonzero(as_tuple=True)  # (N,), the N places of all texts
        each = logits_read(
            self._passes.head.tokens,
            states[texts, read.to(states.device)[is_read]],
            target.ids.to(states.device)[is_read],
            None if target.contrast is None else target.contrast.to(states.device)[texts],
        )
        answer = each.new_zeros(is_read.shape).index_put((texts, order), each)  # (B, G)
        return answer if weights is None else torch.einsum("bkg,bg->bk", weights.to(answer), answer)  # (B, K)

    def _output(self, layer: int) -> LayerOutput:
        outputs, embedded = self.model.parts.outputs, self.model.parts.embedding_output
        if layer == 0 and embedded is not None:
            return embedded
        if outputs is None or layer == 0:
            what = f"the output of layer {layer}" if layer else "the embeddings"
            hint = "; read_at=0 needs no layer, and normxlogit and logat score layers in another way" if layer else ""
            raise UnsupportedModelError(
                f"no module of {type(self.module).__name__} returns {what} as `hidden_states` has it, a state for each "
                f"token, so the frozen network cannot be read there{hint}"
            )
        return outputs[layer - 1]

    def _entry(self, inputs: Mapping[str, Tensor]) -> SignalEntry:
        """Return where pictures and sounds enter the model, found once."""
        if self._entrance is None:
            self._entrance = find_signal_entry(private_clone(self.module), inputs)
        if self._entrance is None:
            raise UnsupportedModelError(
                f"no convolution or linear layer of {type(self.module).__name__} is given the picture or the sound, so "
                "its parts cannot be scored"
            )
        return self._entrance

    def _tables(self, batch: Batch) -> tuple[str, ...]:
        """Return the tables beside the word embeddings that token ids are looked up in, tried once."""
        with self._passes.lock:
            if self._token_tables is None:
                self._token_tables = ()
                if self._embeddings is not None:
                    self._token_tables, untried = token_tables(self.model, self._passes.first_text(batch).inputs)
                    self.model.copy.note_untried(untried)
            return self._token_tables

    def _readers(
        self, places: Sequence[int], batch: Batch, threshold: float | None, readouts: dict[int, Readout]
    ) -> dict[str, Replace]:
        """Return the `replace=` that reads contributions at places, and at all layers above if sinks are to be held."""
        outputs, layers = self.model.parts.outputs, set(places)
        if threshold is not None and outputs is not None:
            layers |= set(range(max(min(places, default=0), 1), len(outputs) + 1))
        outputs_read = {layer: self._output(layer) for layer in layers}
        return readers(outputs_read, {False: batch.mask}, threshold, readouts, min(places, default=None))

    @contextmanager
    def _released(self, frozen: FrozenPass) -> Iterator[None]:
        """Release the network of a frozen pass when its gradients were read."""
        try:
            yield
        finally:
            self._passes.pool.release(frozen.lease)


def _reading(readouts: dict[int, Readout], place: int) -> Callable[[Tensor], Tensor]:
    """Return what reads the contributions of all parts of a signal, (1, N, H)."""

    def read(parts: Tensor) -> Tensor:
        flowing, readouts[place] = read_out(parts.detach())
        return flowing

    return read


def _frozen(run: ForwardPass) -> FrozenPass:
    if run.frozen is None:
        raise ValueError("the pass was not made by the frozen network")
    return run.frozen


def _word_embeddings(model: TaskModel) -> WordEmbeddings | None:
    """Return the word embeddings of a model; None if it has none, such as models of pictures, sounds or characters."""
    try:
        return model.embeddings
    except UnsupportedModelError:
        return None
