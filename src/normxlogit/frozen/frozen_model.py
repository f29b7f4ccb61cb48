"""`FrozenModel`: passes of a task model through its frozen network; the first pass of each kind is proved."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..copies.arithmetic import full_float32
from ..copies.checkpointing import checkpointed, without_cache
from ..copies.clone import clone
from ..copies.memory import GRAPH_MEMORY
from ..copies.run import Pool, constant_clone, run, without_autocast
from ..errors import UnsupportedModelError
from ..inputs.encoding import Batch
from ..model.model_copy import MAX_TOKENS, input_errors
from ..model.task_model import TaskModel, no_states
from ..parts.headpiece import Head, answer_of
from ..parts.model_proofs import FirstText
from ..parts.proofs import SUM_ERROR, batch_tolerance, largest_difference, proof, tolerance_for
from .conservation import Conservation
from .contributions import FrozenPass, Recording, answer_at, call_recorded, proved_by_random_sum, recorded
from .places import MEDIA, WORDS, ModelPlaces, Place, Reading, Readout, hold_sinks, masks_of

PROOF_TOKENS = 512  # most tokens of the text for the proof of a language model, which is not checkpointed


class FrozenModel:
    """A task model and the backward pass of its frozen network; every path to the answer passes one place of a side."""

    def __init__(self, model: TaskModel) -> None:
        self.model, self.module, self.name = model, model.module, type(model.module).__name__
        self._without_cache = without_cache(clone(model.module))
        self._pool = Pool(self._without_cache)
        self.places = ModelPlaces(model)
        self._proved: dict[tuple[bool, bool], Place] = {}  # from which place on, with pictures or sounds, with a source
        self.recorded: set[str] = set()  # modules that need a `Recording`, as passes that were proved show; "" for all

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
        return self.model.head.tokens

    @property
    def tokens_kept(self) -> int:
        """Most tokens of a pass whose graph is kept; longer ones use gradient checkpointing."""
        return self.model.batch_tokens // GRAPH_MEMORY

    # --- passes ------------------------------------------------------------------------------------------------------

    def run(self, batch: Batch, reading: Reading, *, predict: bool = True) -> FrozenPass:
        """Run the frozen network once over a batch; its outputs are the model's own; see `TaskModel.run`."""
        with input_errors(self.module, batch.inputs), without_autocast(batch.inputs):
            return self._first_pass(batch, reading, predict) or self._run_copy(batch, reading, predict)

    def _is_long(self, batch: Batch) -> bool:
        """Return whether the layers of a pass are checkpointed, as a picture adds hundreds of tokens and an encoder."""
        source = batch.inputs["source"].numel() if batch.has_source else 0
        return bool(batch.media) or batch.mask.numel() + source > self.tokens_kept

    def _run_copy(self, batch: Batch, reading: Reading, predict: bool, proof: Conservation | None = None) -> FrozenPass:
        """Run a recorded copy over a batch, with readouts at places; unproved, a long pass keeps its layers' inputs."""
        parts, head, readouts = self.model.parts, self.head, dict[Place, Readout]()
        long = proof is None and self._is_long(batch)
        everywhere = long or proof is not None or "" in self.recorded
        instead = {} if everywhere else dict.fromkeys(self.recorded, call_recorded)
        with ExitStack() as stack:
            # A long pass keeps its copy, as its layers run again in the backward pass.
            copy = constant_clone(self._without_cache) if long else stack.enter_context(self._pool.lease())
            stack.enter_context(recorded(copy, proof) if everywhere else torch.enable_grad())
            replaced = stack.enter_context(self.places.replaced(batch, reading, readouts))
            if long:
                layers = {output.path for place, output in self.places.outputs(batch).items() if place.layer}
                # Replacements inside a layer would not be applied when the layer runs again.
                if not any(site.path.startswith(f"{layer}.") for site in replaced for layer in layers):
                    stack.enter_context(checkpointed(copy, layers, Recording))
            stop = None if head is None else parts.trunk_site
            done = run(copy, batch.inputs, record=parts.sites, replace=replaced, instead=instead, stop=stop)
        if not readouts.keys() >= set(reading.places):
            raise no_states(self.module)
        if reading.sink_threshold is not None:
            hold_sinks(readouts, masks_of(batch), reading.sink_threshold)
        if head is None:
            answer = answer_of(done.output)
        else:
            with torch.enable_grad():
                answer = parts.hidden(self.module, done.last(parts.trunk_site))[:, : batch.mask.shape[1]]
        if answer is None:
            raise UnsupportedModelError(f"{self.name} returned no logits")
        with torch.no_grad():
            forward = self.model.read(batch, done, predict=predict)
        return FrozenPass(
            **vars(forward), readouts=readouts, answer=answer, head=head, is_recorded=everywhere, proof=proof
        )

    # --- the proof ---------------------------------------------------------------------------------------------------

    def _first_pass(self, batch: Batch, reading: Reading, predict: bool) -> FrozenPass | None:
        """Prove the first pass of a kind, over the first text's beginning; return it if it is one that explains.

        A short text alone is proved by the very passes that explain it. A lower place has more of the model in the
        graph.
        """
        kind, lowest = (bool(batch.media), batch.has_source), min(set(reading.places) - {MEDIA})
        if kind in self._proved and self._proved[kind] <= lowest:
            return None
        # A signal is one input, not a sequence of tokens that could be cut; a prompt with pictures is read by itself.
        is_cut = self.model.task.outputs.vocabulary and not batch.source_is_signal
        sample = batch if batch.media else batch.rows(slice(1), PROOF_TOKENS if is_cut else None)
        is_whole = all(sample.inputs[name].shape == value.shape for name, value in batch.inputs.items())
        sample = batch if is_whole else sample
        dtype = getattr(self.module, "dtype", torch.float32)
        conservation = Conservation(dtype, partial(self._proved.__setitem__, kind, lowest))
        with full_float32() as is_changed:
            run = self._run_copy(sample, replace(reading, baseline=None, point=1.0), predict, conservation)
            self.recorded |= conservation.recorded
            self.frozen_answers_as_the_model(run)
            at_text = reading.point == 1.0 and reading.baseline is None
            is_explained = is_whole and at_text and not (is_changed or self._is_long(batch))
            if self.model.parts.trunk is not None:
                self._prove_head(run, Conservation(dtype))
            if self.model.parts.trunk is None or not is_explained:
                run = proved_by_random_sum(run)
            return run if is_explained else None

    def _prove_head(self, run: FrozenPass, conservation: Conservation) -> None:
        """Prove all outputs of the head, on the states that it reads in a pass; of a vocabulary some."""
        readout = Readout()
        pool = Pool(cast(PreTrainedModel, self._without_cache), partial(recorded, proof=conservation))
        head = Head(pool, self.model.parts.head)
        with torch.enable_grad():
            states = readout.read(run.hidden, enters=True)
            if run.head is None:
                answer = head.texts(states, run.batch.inputs)
            else:
                answer = head.tokens(answer_at(states, run.positions), self._first_text.rows)
        proved_by_random_sum(replace(run, readouts={WORDS: readout}, answer=answer, head=None, proof=conservation))

    @property
    def _first_text(self) -> FirstText:
        """The text with which the model's parts were found."""
        return cast(FirstText, self.model.copy.first_text)

    def _compared(self, answer: Tensor, batch: Batch) -> Tensor:
        """Return the logits of a pass that are compared, (1, C) or (1, T, C), of a vocabulary some, (1, T, R)."""
        rows = self._first_text.rows
        if self.head is not None:
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
        first, inputs = self._first_text, run.batch.inputs
        with torch.no_grad():
            answer = self._compared(run.answer.detach(), run.batch)
            is_same_text = first.inputs.keys() == inputs.keys() and all(
                torch.equal(first.inputs[name], inputs[name]) for name in inputs
            )
            # Alone it has answered as the model did beside another text.
            if is_same_text and not first.draws and largest_difference(answer, first.logits) <= batch_tolerance(answer):
                self.model.copy.proved_alone = True
                return
            self.model.prove_alone()  # the model's weights may have been trained since
            own = self.model.answer(inputs) if self.head is None else self.model.states(run.batch)
            expected = self._compared(own, run.batch)
        difference = largest_difference(answer, expected.to(answer.device))
        if not difference <= SUM_ERROR * tolerance_for(expected):
            raise UnsupportedModelError(
                f"{self.name} cannot be frozen: the pass gives another answer than the model, by {difference:.2g}"
            )
