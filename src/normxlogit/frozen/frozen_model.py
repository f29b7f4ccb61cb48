"""`FrozenModel`: passes of a task model through its frozen network; the first pass of each kind is proved."""

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..copies.checkpointing import checkpointed, without_cache
from ..copies.clone import clone
from ..copies.memory import GRAPH_MEMORY
from ..copies.pool import Pool, constant_clone
from ..copies.precision import full_float32, without_autocast
from ..copies.run import Pass, Site, run
from ..errors import UnsupportedModelError
from ..inputs.batches import Batch
from ..model.forward_pass import no_states
from ..model.model_copy import MAX_TOKENS
from ..model.model_errors import input_errors
from ..model.task_model import TaskModel
from ..parts.headpiece import Head, answer_of
from ..parts.model_proofs import FirstText
from ..parts.proofs import SUM_ERROR, batch_tolerance, largest_difference, proof, tolerance_for
from .conservation import Conservation
from .contributions import FrozenPass, answer_at, proved_by_random_sum
from .model_places import ModelPlaces
from .places import MEDIA, WORDS, Place, Reading, masks_of
from .readouts import Readout, Readouts
from .recording import Recording, call_recorded, recorded
from .sinks import hold_sinks

PROOF_TOKENS = 512
"""Most tokens of the text for the proof of a language model, which is not checkpointed."""


class _PassKind(NamedTuple):
    """What is proved once for all passes of a kind."""

    has_media: bool  # whether pictures or sounds are beside the text
    has_source: bool  # whether an encoder reads a source for a decoder
    has_arguments: bool  # whether the model is given more than its inputs, such as a cache to fill
    lowest: Place  # the lowest place of the pass in a source or the text; that of media is always the same


class FrozenModel:
    """A task model and the backward pass of its frozen network; every path to the answer passes one place of a side."""

    def __init__(self, model: TaskModel) -> None:
        self.model = model
        self.module = model.module
        self.name = model.class_name
        # No cache of keys: the layers of a long pass run again, and would find in it what they wrote at first.
        self._without_cache = without_cache(clone(model.module))
        self._pool = Pool(self._without_cache)
        self.places = ModelPlaces(model)
        self._proved: set[_PassKind] = set()
        # Paths of modules that need a `Recording`, as passes that were proved show; "" for the whole model.
        self.modules_to_record: set[str] = set()

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
        # Of few logits, or without a proved head, the pass runs to the model's own logits.
        if not self.model.task.outputs.vocabulary or self.model.parts.trunk is None:
            return None
        return self.model.head.tokens

    @property
    def tokens_kept(self) -> int:
        """Most tokens of a pass whose graph is kept; longer ones use gradient checkpointing."""
        return self.model.batch_tokens // GRAPH_MEMORY

    # --- passes ------------------------------------------------------------------------------------------------------

    def run(self, batch: Batch, reading: Reading, *, predict: bool = True) -> FrozenPass:
        """Run the frozen network once over a batch; its outputs are the model's own; see `TaskModel.run`.

        Args:
            batch: B inputs. Of the first batch of a kind, the first input's pass is proved.
            reading: Where contributions are read, and at which point of the path to the inputs.
            predict: Whether the pass has logits at the position that is explained; see `TaskModel.run`.

        Returns:
            The pass with its graph, for one call of `contributions`.

        Raises:
            UnsupportedModelError: If the model has no such places, or its frozen network does not give its answer.
            InputError: If the inputs do not fit the model.
        """
        main_input = self.model.copy.main_input
        with input_errors(self.module, batch.inputs, main_input), without_autocast(batch.inputs):
            # The pass that is proved may be this very one; otherwise the batch has a pass of its own.
            return self._first_pass(batch, reading, predict) or self._run_copy(batch, reading, predict)

    def _is_long(self, batch: Batch) -> bool:
        """Return whether a pass is too long to keep its graph, so that its layers are checkpointed."""
        if batch.media:  # a picture adds hundreds of tokens, and the graph of its encoder
            return True
        source_size = batch.inputs["source"].numel() if batch.has_source else 0
        return batch.mask.numel() + source_size > self.tokens_kept

    def _run_copy(self, batch: Batch, reading: Reading, predict: bool, proof: Conservation | None = None) -> FrozenPass:
        """Run a copy over a batch, with readouts at places.

        Args:
            batch: B inputs.
            reading: Where contributions are read.
            predict: As in `run`.
            proof: What proves the pass, which then keeps its whole graph; None for a pass that is not proved.

        Returns:
            The pass with its graph and the readouts, which were filled while it ran.
        """
        readouts = Readouts()
        is_long = proof is None and self._is_long(batch)
        # A pass is recorded whole if it is proved, which finds the modules to record, or if it is long: its layers run
        # again in a `Recording` when `instead` has ended, and must save the same tensors as the first time.
        is_recorded = is_long or proof is not None or "" in self.modules_to_record
        with ExitStack() as stack:
            # A long pass keeps its copy, as its layers run again in the backward pass.
            copy = constant_clone(self._without_cache) if is_long else stack.enter_context(self._pool.lease())
            stack.enter_context(recorded(copy, proof) if is_recorded else torch.enable_grad())
            replaced = stack.enter_context(self.places.replaced(batch, reading, readouts))
            if is_long:
                stack.enter_context(checkpointed(copy, self._layers_to_checkpoint(batch, replaced), Recording))
            parts = self.model.parts
            recorded_pass = run(
                copy,
                {**batch.inputs, **batch.arguments},
                record=parts.sites,
                replace=replaced,
                instead={} if is_recorded else dict.fromkeys(self.modules_to_record, call_recorded),
                stop=None if self.head is None else parts.trunk_site,
            )
        self._check_and_hold(batch, reading, readouts)
        answer = self._answer(batch, recorded_pass)
        with torch.no_grad():
            forward = self.model.read(batch, recorded_pass, predict=predict)
        return FrozenPass(  # the fields of the forward pass, and those of its graph
            **vars(forward), readouts=readouts, answer=answer, head=self.head, is_recorded=is_recorded, proof=proof
        )

    def _check_and_hold(self, batch: Batch, reading: Reading, readouts: Readouts) -> None:
        """Refuse a pass without a readout at each place, and hold the attention sinks of others."""
        # There may be more readouts, where attention sinks are looked for above the lowest place.
        if not readouts.keys() >= set(reading.places):
            raise no_states(self.module)
        if reading.sink_threshold is not None:
            hold_sinks(readouts, masks_of(batch), reading.sink_threshold)

    def _layers_to_checkpoint(self, batch: Batch, replaced: Collection[Site]) -> set[str]:
        """Return the paths of the layers that save nothing in a long pass; none if what they hold is replaced."""
        # Not the modules of places 0, which return embeddings.
        layers = {output.path for place, output in self.places.outputs(batch).items() if place.layer}
        # Replacements inside a layer would not be applied when the layer runs again.
        replaced_inside = any(site.path.startswith(f"{layer}.") for site in replaced for layer in layers)
        return set() if replaced_inside else layers

    def _answer(self, batch: Batch, recorded_pass: Pass) -> Tensor:
        """Return what a pass answers, (B, C) or (B, T, C), or what the head of a language model reads, (B, T, H)."""
        if self.head is not None:
            parts = self.model.parts
            width = batch.mask.shape[1]
            with torch.enable_grad():
                hidden = parts.hidden(self.module, recorded_pass.last(parts.trunk_site))
                return hidden[:, :width]  # without the positions that a trunk pads a text with
        answer = answer_of(recorded_pass.output)
        if answer is None:
            raise UnsupportedModelError(f"{self.name} returned no logits")
        return answer

    # --- the proof ---------------------------------------------------------------------------------------------------

    def _first_pass(self, batch: Batch, reading: Reading, predict: bool) -> FrozenPass | None:
        """Prove the first pass of a kind, over the first text's beginning; return it if it is one that explains.

        A short text alone is proved by the very passes that explain it. A pass that begins at another place is proved
        by itself: that all paths lead through the states there does not follow from those of a lower one.

        Args:
            batch: B inputs.
            reading: Where contributions are read, and at which point of the path to the inputs.
            predict: As in `run`.

        Returns:
            The pass of this batch, whose trunk its own `contributions` prove if the model has a head. None if passes
            of this kind were proved before, or are proved now by another pass than that of this batch.
        """
        lowest_place = min({*reading.places} - {MEDIA})
        kind = _PassKind(
            has_media=bool(batch.media),
            has_source=batch.has_source,
            has_arguments=bool(batch.arguments),
            lowest=lowest_place,
        )
        if kind in self._proved:
            return None
        sample = self._proof_sample(batch)
        conservation = Conservation(accept=partial(self._proved.add, kind))
        with full_float32() as is_precision_changed:
            at_inputs = replace(reading, baseline=None, point=1.0)  # the end of the path from a baseline
            run = self._run_copy(sample, at_inputs, predict, conservation)
            self.modules_to_record |= conservation.modules_to_record
            self.frozen_answers_as_the_model(run)
            # Not where the text was cut, the point of the path moved, or the caller's precision set to the full one.
            is_same_pass = sample is batch and reading.is_at_text and not is_precision_changed
            explains_batch = is_same_pass and not self._is_long(batch)
            has_head = self.model.parts.trunk is not None
            if has_head:
                self._prove_head(run)
            # With a head, whose outputs are all proved, the quantity that `contributions` explains proves the trunk.
            # Without one it would prove the output that is explained, and none of the others.
            if not (has_head and explains_batch):
                run = proved_by_random_sum(run)
            return run if explains_batch else None

    def _proof_sample(self, batch: Batch) -> Batch:
        """Return the first text's beginning, over which a pass is proved; the batch itself if that is all of it."""
        if batch.media:  # a prompt with pictures is read by itself
            return batch
        # A signal is one input, not a sequence of tokens that could be cut.
        is_cut = self.model.task.outputs.vocabulary and not batch.source_is_signal
        sample = batch.rows(slice(1), PROOF_TOKENS if is_cut else None)
        is_whole = all(sample.inputs[name].shape == value.shape for name, value in batch.inputs.items())
        return batch if is_whole else sample

    def _prove_head(self, run: FrozenPass) -> None:
        """Prove all outputs of the head, on the states that it reads in a pass; of a vocabulary some."""
        conservation = Conservation()
        readout = Readout()
        # Each pass of a copy of this pool is recorded for the proof.
        pool = Pool(cast(PreTrainedModel, self._without_cache), partial(recorded, proof=conservation))
        head = Head(pool, self.model.parts.head)
        with torch.enable_grad():
            states = readout.read(run.hidden, enters=True)
            if run.head is None:
                answer = head.texts(states, run.batch.inputs)
            else:
                answer = head.tokens(answer_at(states, run.positions), self._first_text.rows)
        # A pass of the head alone: the states that it reads are the input, whose place stands for any.
        proved_by_random_sum(replace(run, readouts={WORDS: readout}, answer=answer, head=None, proof=conservation))

    @property
    def _first_text(self) -> FirstText:
        """The text with which the model's parts were found."""
        return cast(FirstText, self.model.copy.first_text)

    def _compared(self, answer: Tensor, batch: Batch) -> Tensor:
        """Return the logits of a pass that are compared, (1, C) or (1, T, C), of a vocabulary some, (1, T, R)."""
        rows = self._first_text.rows
        if self.head is not None:
            # Few tokens, as logits are as wide as the vocabulary: the last, which in a decoder read all the others.
            return self.head(batch.real(answer)[-MAX_TOKENS:], rows)[None].float()
        return (answer if rows is None else answer[..., rows]).float()

    @proof(
        compares="the frozen pass and the model's own logits, on the first text",
        tolerance=f"{SUM_ERROR} times rounding",
        why="every operation that is held constant gives its own value",
        when="first use of frozen-gradient; nothing more for a short text that was the model's first, alone; otherwise "
        "a plain pass, and a frozen one over the first of several texts",
    )
    def frozen_answers_as_the_model(self, run: FrozenPass) -> None:
        """Compare the answer of a frozen pass over one text with the model's own."""
        first = self._first_text
        inputs = run.batch.inputs
        with torch.no_grad():
            answer = self._compared(run.answer.detach(), run.batch)
            is_same_text = first.inputs.keys() == inputs.keys() and all(
                torch.equal(first.inputs[name], inputs[name]) for name in inputs
            )
            # This pass reads the text alone, and the model read it beside another: both proofs are one comparison.
            if is_same_text and not first.draws and largest_difference(answer, first.logits) <= batch_tolerance(answer):
                self.model.copy.proved_alone = True
                return
            self.model.prove_alone()  # the model's weights may have been trained since
            model_answer = self.model.answer(inputs) if self.head is None else self.model.states(run.batch)
            expected = self._compared(model_answer, run.batch)
        difference = largest_difference(answer, expected.to(answer.device))
        if not difference <= SUM_ERROR * tolerance_for(expected):  # written so that NaN is refused
            raise UnsupportedModelError(
                f"{self.name} cannot be frozen: the pass gives another answer than the model, by {difference:.2g}"
            )
