"""`FrozenModel`: passes of a task model through its frozen network; the first pass of each kind is proved."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from ..copies.arithmetic import full_float32
from ..copies.memory import reraise_out_of_memory
from ..copies.pool import Pool, kind_of, private_clone
from ..copies.run import run, states_of, without_autocast
from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..model.forward_pass import ForwardPass, no_states
from ..model.model_copy import input_errors
from ..model.task_model import TaskModel
from ..model.token_budget import GRAPH_MEMORY
from ..parts.headpiece import Head, answer_of
from ..parts.proofs import SUM_ERROR, frozen_answers_as_the_model, tolerance_for
from ..tasks.targets import BatchTargets
from .backward import nodes_with_gradient
from .contributions import Balance, FrozenPass, HeadAnswer, answer_at, balance, head_answers, prove_conservation
from .forward import Constants, checkpointed, recorded, with_constant_weights
from .places import MEDIA, WORDS, ModelPlaces, Place, Readout, Side, first_text, hold_sinks, masks_of

PROOF_ROWS = 7
"""Vocabulary entries that the proof reads."""


class PassGraph(NamedTuple):
    """The output of a frozen forward pass, with its graph.

    Attributes:
        readouts: As in `FrozenPass`.
        answer: As in `FrozenPass`.
        hidden: The head's input, (B, T, H); None without a head.
        embedded: The embedding layer's output, (B, T, H), or why it is not known; None if the model gives none.
    """

    readouts: dict[Place, Readout]
    answer: Tensor
    hidden: Tensor | None
    embedded: Tensor | UnsupportedModelError | None


RunCopy = Callable[..., PassGraph]
"""Runs a copy of the model once over a batch."""


class FrozenModel:
    """A task model and the backward pass of its frozen network.

    Every path from the input to the answer passes through one place of each side, so their contributions and the bias
    add up.
    """

    def __init__(self, model: TaskModel) -> None:
        self.model, self.module = model, model.module
        self.places = ModelPlaces(model)
        self.pool: Pool[nn.Module] = Pool(model.module, with_constant_weights)
        self._lock = threading.RLock()
        self._careful = False
        self._proved: dict[tuple[bool, bool], Place] = {}  # from which place on, with pictures or sounds, with a source

    @classmethod
    def of(cls, model: TaskModel) -> "FrozenModel":
        """Return the frozen form of a model, cached until the model is copied anew."""
        cached = model.__dict__.get("_frozen_model")
        if cached is None or cached.module is not model.module:
            cached = model.__dict__["_frozen_model"] = cls(model)
        return cast(FrozenModel, cached)

    @property
    def head(self) -> Callable[..., Tensor] | None:
        """The head of a language model, at which a pass ends, so that the logits of a vocabulary need no memory."""
        if not self.model.task.outputs.vocabulary or self.model.parts.trunk is None:
            return None
        return Head(cast(Any, self.pool), self.model.head.piece).tokens

    @property
    def tokens_kept(self) -> int:
        """Most tokens of a pass whose graph is kept; longer ones use gradient checkpointing."""
        return self.model.budget.tokens // GRAPH_MEMORY

    # --- passes ------------------------------------------------------------------------------------------------------

    def run(
        self,
        batch: Batch,
        places: Sequence[Place],
        *,
        baseline: Tensor | None = None,
        point: float = 1.0,
        sink_threshold: float | None = None,
        predict: bool = True,
    ) -> FrozenPass:
        """Run the frozen network once over a batch; its outputs are the model's own.

        A short text alone is proved by the very pass that is explained. For a batch, for a long text, whose layers are
        checkpointed, and for another point than the text, another pass proves it, over the beginning of the first text.

        Args:
            batch: The batch.
            places: Where contributions are read.
            baseline: The word embeddings from which contributions are differences, (B, T, H); None for zero.
            point: Where on the path from the baseline, 0, to the text, 1, the network is frozen.
            sink_threshold: From how many times the median of its layer on a hidden state counts as an attention sink,
                which is held where it leaves the layer; None holds none.
            predict: As for `TaskModel.run`.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or a module returns nothing at a place.
        """
        at_text = partial(self._run_copy, places=places, sink_threshold=sink_threshold)
        is_text = baseline is None and point == 1.0
        if not is_text and WORDS not in places:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} reads no word embeddings that could be replaced, so there is no path "
                "to them from a baseline; points=1.0 and baseline=zero need none"
            )
        with input_errors(self.module, batch.inputs), without_autocast(batch.inputs):
            graph = self._prove(batch, min(set(places) - {MEDIA}), at_text)
            if graph is None or not is_text:
                long = self._is_long(batch)
                with self._copy(batch, keep=long) as copy, recorded(copy, careful=self._careful):
                    graph = at_text(copy, batch, baseline=baseline, point=point, spare=long)
        head, predicted = self.head, list[HeadAnswer]()

        def predict_with_graph(states: Tensor) -> Tensor:
            """Return the logits that are shown, of the application of the head that is explained, too."""
            predicted.extend(head_answers(cast(Any, head), states))
            return torch.cat([logits.detach() for _, logits in predicted])  # (B, V)

        with torch.no_grad():
            hidden = None if graph.hidden is None else graph.hidden.detach()
            embedded = graph.embedded if graph.embedded is not None else no_states(self.module)
            logits, predictor = (None, predict_with_graph) if head else (graph.answer.detach(), None)
            forward = self.model.finish(batch, hidden, embedded, None, logits, predict, predictor)
        return FrozenPass(**vars(forward), readouts=graph.readouts, answer=graph.answer, head=head, predicted=predicted)

    def run_given(
        self, run: ForwardPass, outputs: Mapping[str, Any], places: Sequence[Place], sink_threshold: float | None
    ) -> FrozenPass | None:
        """Return the caller's pass, with outputs that have a graph, as a frozen pass, after proving the model.

        Returns:
            None if a place is none of the hidden states, or the answer was not computed from these tensors.
        """
        states = list[Tensor](states_of(outputs) or ())
        parts, lowest, head = self.model.parts, min(places), self.head
        first_layer = int(parts.states_lack_embeddings)  # of the hidden states
        # The last state is not a layer's output where modules follow the layers.
        last_layer = len(states) - (2 if parts.tail is not None or first_layer else 1)
        if any(place.side is not Side.TEXT or not first_layer <= place.layer <= last_layer for place in places):
            return None
        # The frozen network is proved on a pass of the model's copy, for the caller's has no leaves for constants.
        with input_errors(self.module, run.batch.inputs), without_autocast(run.batch.inputs):
            self._prove(run.batch, lowest, partial(self._run_copy, places=places, sink_threshold=sink_threshold))
        layers = range(lowest.layer, last_layer + 1) if sink_threshold is not None else [p.layer for p in places]
        read = {Place(Side.TEXT, layer): states[layer - first_layer] for layer in layers}
        answer = states[-1] if head else answer_of(outputs)
        nodes = {state.grad_fn for state in read.values()}
        if answer is None or None in nodes:
            return None
        readouts = {place: Readout(edges=[get_gradient_edge(s)], vectors=[s.detach()]) for place, s in read.items()}
        if sink_threshold is not None:
            hold_sinks(readouts, {Side.TEXT: run.batch.mask}, sink_threshold)
        if not nodes <= nodes_with_gradient(answer, readouts[lowest].edges):
            return None
        answer = self.model.copy.token_states(answer, run.batch.mask.shape[1]) if head else answer
        return FrozenPass(**vars(run), readouts=readouts, answer=answer, head=head)

    @contextmanager
    def _copy(self, batch: Batch, *, keep: bool = False) -> Iterator[nn.Module]:
        """Yield a copy for one pass; one to keep is the pass's own, as its layers run again in the backward pass."""
        if keep:
            yield with_constant_weights(private_clone(self.module))
        else:
            with self.pool.lease(kind_of(batch.inputs)) as copy:
                yield copy

    def _is_long(self, batch: Batch) -> bool:
        """Return whether the layers of a pass are checkpointed, as a picture adds hundreds of tokens and an encoder."""
        source = batch.inputs["source"].numel() if batch.has_source else 0
        return bool(batch.media) or batch.mask.numel() + source > self.tokens_kept

    def _run_copy(
        self,
        copy: nn.Module,
        batch: Batch,
        *,
        places: Sequence[Place],
        sink_threshold: float | None = None,
        baseline: Tensor | None = None,
        point: float = 1.0,
        spare: bool = False,
    ) -> PassGraph:
        """Run a recorded copy over a batch, with readouts at places; `spare` lets layers keep only their inputs."""
        parts, readouts = self.model.parts, dict[Place, Readout]()
        trunk, embeddings = parts.trunk_site, parts.embedding_site
        find_sinks = sink_threshold is not None
        reading = self.places.reading(batch, places, readouts, baseline=baseline, point=point, find_sinks=find_sinks)
        with reading as replaced:
            layers = self.places.layer_paths
            # Replacements inside a layer would not be applied when the layer runs again.
            spare = spare and not any(path.startswith(f"{layer}.") for path in replaced for layer in layers)
            with checkpointed(copy, layers) if spare else nullcontext():
                record = [site for site in (trunk, embeddings) if site is not None]
                done = run(copy, batch.inputs, record=record, replace=replaced, stop=trunk if self.head else None)
        if sink_threshold is not None:
            hold_sinks(readouts, masks_of(batch), sink_threshold)
        hidden = None if parts.trunk is None else parts.hidden(self.module, done.last(trunk))
        embedded = parts.embedded(done.last(embeddings), batch.mask.shape[1])
        if not readouts.keys() >= set(places):
            raise no_states(self.module)
        answer = answer_of(done.output) if self.head is None else hidden
        if answer is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} returned no logits")
        answer = self.model.copy.token_states(answer, batch.mask.shape[1]) if self.head else answer
        return PassGraph(readouts, answer, hidden, embedded.detach() if isinstance(embedded, Tensor) else embedded)

    # --- the proof ---------------------------------------------------------------------------------------------------

    def balance(self, run: ForwardPass, target: BatchTargets) -> Balance:
        """Return the contributions of the input and of each constant to the target of a text, whose pass proved it."""
        with input_errors(self.module, run.batch.inputs), without_autocast(run.batch.inputs):
            run_copy = partial(self._run_copy, places=self.places.read(run.batch, 0))
            graph, constants, answer = self._run_with_constants(run.batch, run_copy, run.positions)
            return balance(target.quantity(answer.float()).sum(), graph.readouts, constants)

    def _run_with_constants(
        self, batch: Batch, run_copy: RunCopy, positions: Tensor | None, rows: Tensor | None = None
    ) -> tuple[PassGraph, Constants, Tensor]:
        """Run a pass over one text whose constants are leaves; return its logits too, at positions (1,), of rows (R,).

        Without positions they are those of the whole text, (1, C), or of all tokens, (1, T, C).
        """
        with self._copy(batch) as copy:
            constants = Constants(copy)
            with recorded(copy, careful=self._careful, constants=constants):
                graph = run_copy(copy, batch)
                if self.head is not None and positions is not None:
                    answer = self.head(graph.answer[[0], positions.to(graph.answer.device)], rows)  # (1, R)
                else:
                    answer = answer_at(graph.answer, positions)  # (1, C), or (1, T, C) without positions
                    answer = answer if rows is None else answer[..., rows]  # (1, R)
        return graph, constants, answer

    def _prove(self, batch: Batch, lowest: Place, run_copy: RunCopy) -> PassGraph | None:
        """Prove the first pass of a kind; return it if it is of the whole batch and keeps all that it needs.

        A lower place has more of the model in the graph.
        """
        kind = bool(batch.media), batch.has_source
        with self._lock:
            if kind in self._proved and self._proved[kind] <= lowest:
                return None
            sample = first_text(self.model, batch)
            careful_before, errors = self._careful, list[Exception]()
            with full_float32() as is_changed:
                for self._careful in (careful_before, True):  # on a second try, see `recorded`
                    try:
                        graph = self._run_and_prove(sample, run_copy)
                        break
                    except Exception as error:
                        reraise_out_of_memory(error)
                        errors.append(error)
                else:
                    self._careful = careful_before
                    raise errors[0] from errors[1]
            self._proved[kind] = lowest
            return graph if sample is batch and not (is_changed or self._is_long(batch)) else None

    def _run_and_prove(self, batch: Batch, run_copy: RunCopy) -> PassGraph:
        """Run a pass over one text, and prove its output and that the contributions add up to it.

        A language model is read at the last token of the text, and at some entries of the vocabulary.
        """
        position, rows = None, None
        if self.model.task.outputs.vocabulary:
            position = batch.mask.int().cumsum(-1).argmax(-1)  # (1,), the last token
            rows = torch.arange(PROOF_ROWS, device=position.device)
            rows = rows * (self.model.vocabulary_size - 1) // (PROOF_ROWS - 1)  # (R,)
        graph, constants, answer = self._run_with_constants(batch, run_copy, position, rows)
        answer = answer.float()
        self._check_answer(answer.detach(), batch.inputs, position, rows)
        dtypes = (torch.float32, getattr(self.module, "dtype", torch.float32), graph.answer.dtype)
        floating = [dtype for dtype in dtypes if dtype.is_floating_point and dtype.itemsize > 1]
        coarsest = max(floating, key=lambda dtype: torch.finfo(dtype).eps)
        prove_conservation(type(self.module).__name__, answer, graph.readouts, constants, coarsest)
        return graph

    def _check_answer(
        self, answer: Tensor, inputs: Mapping[str, Tensor], position: Tensor | None, rows: Tensor | None
    ) -> None:
        """Compare the output of a frozen pass, (1, C), (1, T, C) or (1, R), with the model's own."""

        def difference(expected: Tensor) -> float | None:
            expected = expected.to(answer.device).float()
            return frozen_answers_as_the_model(answer, expected, SUM_ERROR * tolerance_for(expected))

        text, logits = self.model.copy.known_answer or ({}, answer)  # of the text on which the head was proved
        same_text = text.keys() == inputs.keys() and all(torch.equal(text[name], inputs[name]) for name in inputs)
        if same_text and difference(logits if rows is None else logits[:, -1, rows]) is None:
            return
        with torch.no_grad():  # its weights may have been trained since
            largest_difference = difference(self.model.answer(inputs, position, rows))
        if largest_difference is not None:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} cannot be frozen: the pass gives another answer than the model, "
                f"by {largest_difference:.2g}"
            )
