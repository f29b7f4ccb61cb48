"""`FrozenModel`: passes of a task model through its frozen network; the first pass of each kind is proved."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ..copies.arithmetic import full_float32
from ..copies.memory import reraise_out_of_memory
from ..copies.pool import Pool, kind_of, private_clone
from ..copies.run import merge_replacements, run, states_of, without_autocast
from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..model.forward_pass import ForwardPass, no_states
from ..model.model_copy import input_errors
from ..model.task_model import TaskModel
from ..model.token_budget import GRAPH_MEMORY
from ..parts.headpiece import Head, answer_of
from ..parts.proofs import SUM_ERROR, frozen_answers_as_the_model, tolerance_for
from ..tasks.positions import logits_at
from ..tasks.targets import BatchTargets
from .backward import nodes_with_gradient
from .contributions import (
    Balance,
    Contributions,
    FrozenPass,
    HeadAnswer,
    balance,
    contrasted_logits,
    contributions,
    entries_of,
    head_answers,
    prove_conservation,
    single_read_position,
)
from .forward import Constants, checkpointed, recorded, with_constant_weights
from .places import (
    MEDIA,
    WORDS,
    ModelPlaces,
    Place,
    Readout,
    Side,
    first_text,
    hold_sinks,
    layer_readers,
    lowest_of_sides,
)

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
                with self._copy(batch, keep=self._is_long(batch)) as copy, recorded(copy, careful=self._careful):
                    graph = at_text(copy, batch, baseline=baseline, point=point, spare=self._is_long(batch))
        predicted: list[HeadAnswer] = []

        def predict_with_graph(states: Tensor) -> Tensor:
            """Return the logits that are shown, of the application of the head that is explained, too."""
            predicted.extend(head_answers(self.head.tokens, states))
            return torch.cat([logits.detach() for _, logits in predicted])  # (B, V)

        with torch.no_grad():
            forward = self.model.finish(
                batch,
                None if graph.hidden is None else graph.hidden.detach(),
                graph.embedded if graph.embedded is not None else no_states(self.module),
                None,
                None if self.ends_at_head else graph.answer.detach(),
                predict,
                predict_with_graph if self.ends_at_head else None,
            )
        return FrozenPass(
            **vars(forward), readouts=graph.readouts, answer=graph.answer, predicted=predicted if predicted else None
        )

    def run_given(
        self, run: ForwardPass, outputs: Mapping[str, Any], places: Sequence[Place], sink_threshold: float | None
    ) -> FrozenPass | None:
        """Return the caller's pass with gradients as a frozen pass, after proving the model.

        Args:
            run: The caller's pass, as it was read from `outputs`.
            outputs: The outputs of the model, with a graph and hidden states.
            places: Where contributions are read.
            sink_threshold: As for `run`.

        Returns:
            None if a place is none of the hidden states, or the answer was not computed from these tensors.
        """
        states = list[Tensor](states_of(outputs) or ())
        parts, lowest = self.model.parts, min(places)
        first_layer = int(parts.states_lack_embeddings)  # of the hidden states
        # The last state is not a layer's output where modules follow the layers.
        last_layer = len(states) - (2 if parts.tail is not None or first_layer else 1)
        if any(place.side is not Side.TEXT or not first_layer <= place.layer <= last_layer for place in places):
            return None
        # The frozen network is proved on a pass of the model's copy, for the caller's has no leaves for constants.
        with input_errors(self.module, run.batch.inputs), without_autocast(run.batch.inputs):
            self._prove(run.batch, lowest, partial(self._run_copy, places=places, sink_threshold=sink_threshold))
        layers = range(lowest.layer, last_layer + 1) if sink_threshold is not None else [p.layer for p in places]
        answer = states[-1] if self.ends_at_head else answer_of(outputs)
        read = {layer: states[layer - first_layer] for layer in layers}
        if answer is None or any(state.grad_fn is None for state in read.values()):
            return None
        readouts = {
            Place(Side.TEXT, layer): Readout(
                edges=[torch.autograd.graph.get_gradient_edge(state)],
                vectors=[state.detach()],
            )
            for layer, state in read.items()
        }
        if sink_threshold is not None:
            hold_sinks(readouts, {Side.TEXT: run.batch.mask}, sink_threshold)
        if not nodes_with_gradient(answer, readouts[lowest].edges).issuperset(s.grad_fn for s in read.values()):
            return None
        return FrozenPass(**vars(run), readouts=readouts, answer=answer)

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
        parts = self.model.parts
        trunk, tap = parts.trunk_site, None if parts.embedding_tap is None else parts.embedding_tap.site
        readouts: dict[Place, Readout] = {}
        entries = lowest_of_sides(places)
        masks = {Side.TEXT: batch.mask}  # the real tokens
        if batch.has_source:
            masks[Side.SOURCE] = batch.inputs["source_mask"][..., 0].bool()
        outputs = self.places.outputs(batch, places, find_sinks=sink_threshold is not None)
        read_layers = layer_readers(outputs, masks, readouts, entries)
        read_entry = partial(_read_entry, readouts)
        read_words = partial(read_entry, baseline=baseline, point=point)
        with self.places.replaced_entries(batch, places, read_words, read_entry) as read_entries:
            replaced = merge_replacements(read_entries, read_layers)
            layers = self.places.layer_paths
            # Replacements inside a layer would not be applied when the layer runs again.
            spare = spare and not any(path.startswith(f"{layer}.") for path in replaced for layer in layers)
            with checkpointed(copy, layers) if spare else nullcontext():
                record = [site for site in (trunk, tap) if site is not None]
                stop = trunk if self.ends_at_head else None
                done = run(copy, batch.inputs, record=record, replace=replaced, stop=stop)
        if sink_threshold is not None:
            hold_sinks(readouts, masks, sink_threshold)
        hidden = None if parts.trunk is None else parts.hidden(self.module, done.last(trunk))
        embedded = parts.embedded(done.last(tap), batch.mask.shape[1])
        if not readouts.keys() >= set(places):
            raise no_states(self.module)
        answer = hidden if self.ends_at_head else answer_of(done.output)
        if answer is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} returned no logits")
        return PassGraph(readouts, answer, hidden, embedded.detach() if isinstance(embedded, Tensor) else embedded)

    # --- answers -----------------------------------------------------------------------------------------------------

    def contributions(
        self,
        run: FrozenPass,
        target: BatchTargets,
        places: Sequence[Place],
        read_positions: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Contributions:
        """Return the contributions of a frozen pass to each target, from a backward pass for each.

        Args:
            run: What `run` returned for B texts; it can be backpropagated through once.
            target: What is explained, K targets for each text; of a vocabulary, each logit minus the contrast's, or
                minus the mean over the vocabulary.
            places: Where contributions are read.
            read_positions: Where a language model answers each of G targets, (B, G); negative where a text has fewer,
                which counts nothing. None for the position of the pass.
            weights: Sums of the G quantities that are explained instead of each, (B, K, G).
        """
        positions = run.positions
        by_target = None if positions is None or positions.ndim > 1 else positions[:, None].expand(target.ids.shape)
        if read_positions is None and target.task.vocabulary and self.ends_at_head:
            read_positions = by_target  # (B, K)
        with without_autocast(run.batch.inputs):
            if read_positions is not None:
                states = self.model.copy.token_states(run.answer, run.batch.mask.shape[1])  # (B, T, H)
                if run.predicted is not None and read_positions is by_target and weights is None:
                    read_states = states[range(len(states)), read_positions[:, 0].to(states.device)]  # (B, H)
                    answer = contrasted_logits(run.predicted, read_states, target.ids, target.contrast)  # (B, K)
                else:
                    answer = self.quantities(states, target, read_positions, weights)  # (B, K)
                by_target = read_positions if weights is None else single_read_position(read_positions, weights)
            else:
                answer = target.quantity(self._at_positions(run.answer, positions).float())  # (B, K)
            return contributions(answer, run, places, by_target)

    def quantities(
        self, states: Tensor, target: BatchTargets, read_positions: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Return the explained quantities of a language model, (B, K), from the head's input, (B, T, H)."""
        on_host = read_positions.cpu()  # on a GPU, each question for the places would wait for it
        found = (on_host >= 0).nonzero()  # (N, 2), the N places of all texts
        rows = torch.cat([found, on_host[found[:, 0], found[:, 1], None]], 1).to(states.device)  # (N, 3)
        texts, columns, places = rows.T  # (N,) each
        read_states = states[texts, places]  # (N, H)
        values = contrasted_logits(
            head_answers(self.head.tokens, read_states, gradients=states.requires_grad),
            read_states,
            target.ids.to(states.device)[texts, columns, None],
            None if target.contrast is None else target.contrast.to(states.device)[texts],
        )[:, 0]
        answer = values.new_zeros(on_host.shape).index_put((texts, columns), values)  # (B, G)
        return answer if weights is None else torch.einsum("bkg,bg->bk", weights.to(answer), answer)  # (B, K)

    @staticmethod
    def _at_positions(answer: Tensor, positions: Tensor | None) -> Tensor:
        """Return the logits at the position explained; a copy, for autograd keeps nothing of inference mode."""
        return answer if positions is None else logits_at(answer, positions.to(answer.device).clone())

    def balance(self, run: ForwardPass, target: BatchTargets) -> Balance:
        """Return the contributions of the input and of each constant to the output for a text.

        Args:
            run: A pass of the frozen network over one text, which proved it.
            target: The target, one for the text.
        """
        with input_errors(self.module, run.batch.inputs), without_autocast(run.batch.inputs):
            run_copy = partial(self._run_copy, places=self.places.read(run.batch, 0))
            graph, constants, answer = self._run_with_constants(run.batch, run_copy, run.positions)
            return balance(target.quantity(answer.float()).sum(), entries_of(graph.readouts), constants)

    # --- the proof ---------------------------------------------------------------------------------------------------

    def _run_with_constants(
        self, batch: Batch, run_copy: RunCopy, positions: Tensor | None, rows: Tensor | None = None
    ) -> tuple[PassGraph, Constants, Tensor]:
        """Run a pass over one text whose constants are leaves; return its logits, (1, C), at positions or of all.

        Args:
            batch: The text.
            run_copy: Runs a copy.
            positions: Where it is read, (1,) or (1, 2); None for heads that answer for the whole text.
            rows: The vocabulary entries that are read there, (R,); None for all.
        """
        with self._copy(batch) as copy:
            constants = Constants(copy)
            with recorded(copy, careful=self._careful, constants=constants):
                graph = run_copy(copy, batch)
                if self.ends_at_head and positions is not None:
                    states = self.model.copy.token_states(graph.answer, batch.mask.shape[1])  # (1, T, H)
                    answer = self.head.tokens(states[[0], positions.to(states.device)], rows)  # (1, R)
                else:
                    answer = self._at_positions(graph.answer, positions)  # (1, C), or (1, T, C) without positions
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
            with full_float32() as is_changed:
                try:
                    graph = self._run_and_prove(sample, run_copy)
                except Exception as error:
                    reraise_out_of_memory(error)
                    self._careful = True  # a second try, see `recorded`
                    try:
                        graph = self._run_and_prove(sample, run_copy)
                    except Exception as second_error:
                        reraise_out_of_memory(second_error)
                        self._careful = False
                        raise error from second_error
            self._proved[kind] = lowest
            return graph if sample is batch and not (is_changed or self._is_long(batch)) else None

    def _run_and_prove(self, batch: Batch, run_copy: RunCopy) -> PassGraph:
        """Run a pass over one text, and prove its output and that the contributions add up to it.

        A language model is read at the last token of the text, and at some entries of the vocabulary.
        """
        position, rows = None, None
        if self.model.task.vocabulary:
            position = batch.mask.int().cumsum(-1).argmax(-1)  # (1,), the last token
            rows = torch.arange(PROOF_ROWS, device=position.device)
            rows = rows * (self.model.vocabulary_size - 1) // (PROOF_ROWS - 1)  # (R,)
        graph, constants, answer = self._run_with_constants(batch, run_copy, position, rows)
        answer = answer.float()
        self._check_answer(answer.detach(), batch.inputs, position, rows)
        dtypes = (torch.float32, getattr(self.module, "dtype", torch.float32), graph.answer.dtype)
        floating = [dtype for dtype in dtypes if dtype.is_floating_point and dtype.itemsize > 1]
        coarsest = max(floating, key=lambda dtype: torch.finfo(dtype).eps)
        prove_conservation(type(self.module).__name__, answer, entries_of(graph.readouts), constants, coarsest)
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


def _read_entry(
    readouts: dict[Place, Readout],
    place: Place,
    embeddings: Tensor,
    baseline: Tensor | None = None,
    point: float = 1.0,
) -> Tensor:
    """Read the embeddings at an entry of the input, or at a point on a path to them from a baseline.

    Args:
        readouts: The readouts by place. Several tables at one place share one.
        place: The place of the entry.
        embeddings: What enters, (B, T, H).
        baseline: Where the path begins, (B, T, H); None for zero.
        point: Which point of the path replaces the embeddings: 0 is the baseline, 1 the embeddings.
    """
    with torch._C.DisableTorchFunction():
        embeddings = embeddings.detach()
        direction = embeddings if baseline is None else embeddings - baseline.to(embeddings)
        state = embeddings if point == 1.0 else embeddings - (1 - point) * direction
        return readouts.setdefault(place, Readout()).read(state, direction, enters=True)
