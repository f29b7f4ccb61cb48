"""Passes of the frozen network; the first pass of each kind is proved."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.arithmetic import full_float32
from ..copies.memory import reraise_out_of_memory
from ..copies.pool import Lease, Pool, kind_of
from ..copies.run import Pass, Replace, Site, run, without_autocast
from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..model.forward_pass import ForwardPass, no_states
from ..model.model_copy import input_errors
from ..model.task_model import TaskModel
from ..model.token_budget import GRAPH_MEMORY
from ..parts.headpiece import Head
from ..parts.proofs import SUM_ERROR, frozen_answers_as_the_model, tolerance_for
from ..tasks.positions import logits_at
from .conservation import Balance, balance, constants_as_leaves, prove_conservation
from .differentiable import differentiable, with_constant_weights
from .head_answers import HeadAnswer, head_answers
from .readout import Place, Readout

PROOF_ROWS = 7
"""Vocabulary entries that the proof reads."""

PROOF_TOKENS = 512
"""Most tokens of the text for the proof of a language model, which is not checkpointed."""


@dataclass(frozen=True)
class PassGraph:
    """The output of a frozen forward pass, with its graph.

    Attributes:
        readouts: By place, where contributions can be read.
        entries: The places at which the input enters the graph.
        answer: The head's input for a language model, (B, T, H), otherwise the logits.
        hidden: The head's input, (B, T, H); None without a head.
        embedded: The embedding layer's output, (B, T, H), or why it is not known; None if the model gives none.
    """

    readouts: dict[Place, Readout]
    entries: Sequence[Place]
    answer: Tensor
    hidden: Tensor | None
    embedded: Tensor | UnsupportedModelError | None

    @property
    def leaves(self) -> list[Tensor]:
        """The leaves at the entries of the input; their gradients are the contributions."""
        return list({id(leaf): leaf for leaf in (self.readouts[place].leaf for place in self.entries)}.values())


@dataclass(frozen=True, kw_only=True)
class FrozenPass(ForwardPass):
    """A frozen forward pass with its graph.

    Attributes:
        readouts: By place, where contributions can be read.
        answer: What the model answers, (B, C) or (B, T, C); of a language model with a head what that reads, (B, T, H).
        entries: By what leaves the input enters the graph.
        lease: The copy that was run, held until the gradients are read: its layers may run again for them; None for a
            pass that the caller ran.
        predicted: Of a language model the head's answers at the position of each text; None if they were not asked
            for.
    """

    readouts: dict[Place, Readout]
    answer: Tensor
    entries: list[Tensor]
    lease: Lease[nn.Module] | None
    predicted: Sequence[HeadAnswer] | None = None

    @classmethod
    def of(cls, run: ForwardPass, **graph: Any) -> "FrozenPass":
        """Return a forward pass with its graph, the fields of this class by name."""
        return cls(**{field.name: getattr(run, field.name) for field in fields(ForwardPass)}, **graph)


RunCopy = Callable[[nn.Module, Batch], PassGraph]
"""Runs a copy of a model once over a batch."""


class FrozenRunner:
    """Runs passes on leased copies of a model, and proves the first pass of each kind."""

    def __init__(self, model: TaskModel) -> None:
        self.model = model
        self.pool: Pool[nn.Module] = Pool(model.module, with_constant_weights)
        self.lock = threading.RLock()
        self.encoder_layers: set[str] = set()
        self._careful = False
        self._proving: nn.Module | None = None
        self._proved: dict[tuple[bool, bool], Place] = {}  # from which place on, with pictures or sounds, with a source

    @property
    def head(self) -> Head:
        """The model's head on copies whose weights are constants."""
        return Head(self.pool, self.model.head.piece)  # type: ignore[arg-type]

    @property
    def ends_at_head(self) -> bool:
        """Whether a pass ends with the head's input, so that the logits of a vocabulary need no memory."""
        return self.model.task.vocabulary and self.model.parts.trunk is not None

    @property
    def tokens_kept(self) -> int:
        """Most tokens of a pass whose graph is kept; longer ones use gradient checkpointing."""
        return self.model.budget.tokens // GRAPH_MEMORY

    @property
    def layers(self) -> set[str]:
        """Paths of the layers, which may be checkpointed."""
        return self.encoder_layers | {output.path for output in self.model.parts.outputs or ()}

    def run(
        self, batch: Batch, entry_place: Place, run_copy: RunCopy, run_at_text: RunCopy | None = None, *, predict: bool
    ) -> FrozenPass:
        """Run a copy that stays leased until the gradients are computed; the first pass of each kind is proved.

        A short text alone is proved by the very pass that is explained. For a batch, for a long text, whose layers are
        checkpointed, and for another point than the text, another pass proves it, over the beginning of the first text.

        Args:
            batch: The batch.
            entry_place: The place at which the input enters the graph; a lower one has more of the model in the graph.
            run_copy: Runs a copy over a batch.
            run_at_text: Runs a copy over the text itself, where `run_copy` runs it at another point of a path.
            predict: As for `TaskModel.run`.
        """
        lease, graph = self.pool.take(), None
        try:
            with input_errors(self.model.module, batch.inputs), without_autocast(batch.inputs):
                with self.lock:
                    if not self.is_proved(batch, entry_place):
                        sample = first_text(self.model, batch)
                        with full_float32() as is_changed:
                            graph = self._prove(lease.leased, sample, run_at_text or run_copy)
                        self._proved[bool(batch.media), batch.has_source] = entry_place
                        if is_changed or sample is not batch or run_at_text is not None or self._is_long(batch):
                            self.pool.release(lease)
                            lease, graph = self.pool.take(), None
                graph = graph or run_copy(lease.leased, batch)
            predicted: list[HeadAnswer] = []  # kept with their graphs, for the backward passes

            def head(states: Tensor) -> Tensor:
                predicted.extend(head_answers(self.head.tokens, states))
                return torch.cat([logits.detach() for _, logits in predicted])

            with torch.no_grad():
                forward = self.model.finish(
                    batch,
                    None if graph.hidden is None else graph.hidden.detach(),
                    graph.embedded if graph.embedded is not None else no_states(self.model.module),
                    None,
                    None if self.ends_at_head else graph.answer.detach(),
                    predict,
                    head,
                )
        except BaseException:
            self.pool.release(lease)
            raise
        return FrozenPass.of(
            forward,
            readouts=graph.readouts,
            answer=graph.answer,
            entries=graph.leaves,
            lease=lease,
            predicted=predicted or None,
        )

    def is_proved(self, batch: Batch, entry_place: Place) -> bool:
        """Return whether passes of a kind that begin at a place were proved."""
        proved = self._proved.get((bool(batch.media), batch.has_source))
        return proved is not None and proved <= entry_place

    def release(self, run: FrozenPass) -> None:
        """Return the copy of a finished pass to the pool."""
        if run.lease is not None:
            self.pool.release(run.lease, kind_of(run.batch.inputs))

    def forward(
        self,
        copy: nn.Module,
        batch: Batch,
        *,
        record: Iterable[Site] = (),
        replace: Mapping[str, Replace],
        stop: Site | None = None,
    ) -> Pass:
        """Run a copy over a batch with a graph for the backward pass.

        Args:
            copy: The copy.
            batch: The batch.
            record: As for `copies.run`.
            replace: As for `copies.run`.
            stop: As for `copies.run`.
        """
        # Replacements inside a layer would not be applied when the layer runs again.
        layers = self.layers if self._is_long(batch) and copy is not self._proving else set()
        inside = any(path.startswith(f"{layer}.") for path in replace for layer in layers)
        with differentiable(copy, () if inside else layers, careful=self._careful):
            return run(copy, batch.inputs, record=record, replace=replace, stop=stop)

    def balance(self, batch: Batch, run_copy: RunCopy, quantity: Callable[[PassGraph], Tensor]) -> Balance:
        """Return the contributions of the input and of each constant to a quantity of one text.

        Args:
            batch: The text.
            run_copy: Runs a copy over it.
            quantity: A function of the pass that returns a scalar.
        """
        lease = self.pool.take()
        try:
            with self.lock, input_errors(self.model.module, batch.inputs), without_autocast(batch.inputs):
                self._proving = lease.leased  # no other pass is run on it
                with constants_as_leaves(lease.leased) as constants:
                    graph = run_copy(lease.leased, batch)
                    with differentiable(lease.leased, careful=self._careful):
                        answer = quantity(graph)
                return balance(answer, graph.leaves, constants)
        finally:
            self._proving = None
            self.pool.release(lease)

    def _is_long(self, batch: Batch) -> bool:
        """Return whether the layers of a pass are checkpointed, as a picture adds hundreds of tokens and an encoder."""
        source = batch.inputs["source"].numel() if batch.has_source else 0
        return bool(batch.media) or batch.mask.numel() + source > self.tokens_kept

    def _prove(self, copy: nn.Module, batch: Batch, run_copy: RunCopy) -> PassGraph:
        """Prove on a pass over one text that its output is the model's, and that the contributions add up to it."""
        position, rows = None, None
        if self.model.task.vocabulary:
            position = batch.mask.int().cumsum(-1).argmax(-1)  # (1,), the last token
            rows = torch.arange(PROOF_ROWS, device=position.device)
            rows = rows * (self.model.vocabulary_size - 1) // (PROOF_ROWS - 1)  # (R,)
        self._proving = copy  # no other pass is run on it
        try:
            return self._run_and_prove(copy, batch, run_copy, position, rows)
        except Exception as error:
            reraise_out_of_memory(error)
            self._careful = True  # a second try, see `differentiable`
            try:
                return self._run_and_prove(copy, batch, run_copy, position, rows)
            except Exception as second_error:
                reraise_out_of_memory(second_error)
                self._careful = False
                raise error from second_error
        finally:
            self._proving = None

    def _run_and_prove(
        self, copy: nn.Module, batch: Batch, run_copy: RunCopy, position: Tensor | None, rows: Tensor | None
    ) -> PassGraph:
        """Run a copy over one text, and prove its output and that the contributions add up to it.

        Args:
            copy: The copy.
            batch: The text.
            run_copy: Runs the copy.
            position: Where a language model is read, (1,); None for others.
            rows: The vocabulary entries that are read there, (R,); None for others.
        """
        with constants_as_leaves(copy) as constants:
            graph = run_copy(copy, batch)
            answer = graph.answer
            if position is not None and rows is not None:
                position_on_device = position.to(answer.device)
                if self.ends_at_head:
                    with differentiable(copy, careful=self._careful):
                        states = answer[torch.zeros_like(position_on_device), position_on_device]  # (1, H)
                        answer = self.head.tokens(states, rows)  # (1, R)
                else:
                    answer = logits_at(answer, position_on_device)[..., rows]  # (1, R)
        answer = answer.float()
        self._check_answer(answer.detach(), batch.inputs, position, rows)
        for readout in graph.readouts.values():
            readout.detached = None  # the proof includes what flows through attention sinks
        prove_conservation(type(self.model.module).__name__, answer, graph.leaves, constants, self._precision(graph))
        for readout in graph.readouts.values():
            readout.detached = readout.sinks
        return graph

    def _precision(self, graph: PassGraph) -> torch.dtype:
        """Return the coarsest precision that the model computes in."""
        model_dtype = getattr(self.model.module, "dtype", torch.float32)
        dtypes = [
            dtype
            for dtype in (torch.float32, model_dtype, graph.answer.dtype)
            if dtype.is_floating_point and dtype.itemsize > 1
        ]
        return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)

    def _check_answer(
        self, answer: Tensor, inputs: Mapping[str, Tensor], position: Tensor | None, rows: Tensor | None
    ) -> None:
        """Compare the output of a frozen pass with the model's own; the arguments are as for `_run_and_prove`."""

        def difference(expected: Tensor) -> float | None:
            expected = expected.to(answer.device).float()
            return frozen_answers_as_the_model(answer, expected, SUM_ERROR * tolerance_for(expected))

        known_answer = self._known_answer(inputs, rows)
        if known_answer is not None and difference(known_answer) is None:
            return
        with torch.no_grad():  # its weights may have been trained since
            largest_difference = difference(self.model.answer(inputs, position, rows))  # (1, C), (1, T, C) or (1, R)
        if largest_difference is not None:
            raise UnsupportedModelError(
                f"{type(self.model.module).__name__} cannot be frozen: the pass gives another answer than the model, "
                f"by {largest_difference:.2g}"
            )

    def _known_answer(self, inputs: Mapping[str, Tensor], rows: Tensor | None) -> Tensor | None:
        """Return the model's logits for a text, (1, C) or (1, R), if its head was proved on this text."""
        if self.model.copy.known_answer is None:
            return None
        text, logits = self.model.copy.known_answer
        if text.keys() != inputs.keys() or not all(torch.equal(text[name], value) for name, value in inputs.items()):
            return None
        return (logits if rows is None else logits[:, -1, rows]).float()


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
