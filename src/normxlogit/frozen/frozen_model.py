"""`FrozenModel`: passes of a task model through its frozen network; the first pass of each kind is proved."""

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from ..copies.arithmetic import full_float32
from ..copies.clone import clone
from ..copies.pool import Pool, constant_clone
from ..copies.run import run, without_autocast
from ..errors import UnsupportedModelError
from ..inputs.encoding import Batch
from ..model.forward_pass import no_states
from ..model.model_copy import input_errors
from ..model.task_model import TaskModel
from ..model.token_budget import GRAPH_MEMORY
from ..parts.headpiece import answer_of
from ..parts.proofs import SUM_ERROR, largest_difference, proof, tolerance_for
from .contributions import FrozenPass, HeadAnswer, answer_at, head_answers, prove_conservation
from .forward import Constants, Recording, call_recorded, checkpointed, recorded, without_cache
from .places import MEDIA, WORDS, ModelPlaces, Place, Reading, Readout, hold_sinks, masks_of

PROOF_ROWS = 7
"""Vocabulary entries that the proof reads."""

PROOF_TOKENS = 512
"""Most tokens of the text for the proof of a language model, which is not checkpointed."""


class FrozenModel:
    """A task model and the backward pass of its frozen network.

    Every path from the input to the answer passes through one place of each side, so their contributions and the bias
    add up.
    """

    def __init__(self, model: TaskModel) -> None:
        self.model, self.module = model, model.module
        self._without_cache = without_cache(clone(model.module))
        self._pool = Pool(self._without_cache)
        self.places = ModelPlaces(model)
        self._lock = threading.RLock()
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
        """Run the frozen network once over a batch; its outputs are the model's own.

        A short text alone is proved by the very pass that is explained. For a batch, for a long text, whose layers are
        checkpointed, and for another point than the text, another pass proves it, over the beginning of the first text.

        Args:
            batch: The batch.
            reading: What is read.
            predict: As for `TaskModel.run`.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or a module returns nothing at a place.
        """
        if not reading.is_of_the_text and WORDS not in reading.places:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} reads no word embeddings that could be replaced, so there is no path "
                "to them from a baseline; points=1.0 and baseline=zero need none"
            )
        with input_errors(self.module, batch.inputs), without_autocast(batch.inputs):
            proved = self._prove(batch, reading, predict)
            return proved if proved and reading.is_of_the_text else self._run_copy(batch, reading, predict)

    def _is_long(self, batch: Batch) -> bool:
        """Return whether the layers of a pass are checkpointed, as a picture adds hundreds of tokens and an encoder."""
        source = batch.inputs["source"].numel() if batch.has_source else 0
        return bool(batch.media) or batch.mask.numel() + source > self.tokens_kept

    def _run_copy(
        self, batch: Batch, reading: Reading, predict: bool, constants: Constants | None = None
    ) -> FrozenPass:
        """Run a recorded copy over a batch, with readouts at places; `constants` are those of a pass that is proved.

        The layers of a long pass keep only their inputs, except in a pass that is proved.
        """
        parts, head, readouts = self.model.parts, self.head, dict[Place, Readout]()
        trunk, embeddings = parts.trunk_site, parts.embedding_site
        long = constants is None and self._is_long(batch)
        everywhere = long or constants is not None or "" in self.recorded
        instead = {} if everywhere else dict.fromkeys(self.recorded, call_recorded)
        # A long pass keeps its copy, as its layers run again in the backward pass.
        reads = self.places.replaced(batch, reading, readouts)
        own = nullcontext(constant_clone(self._without_cache)) if long else self._pool.lease()
        with own as copy, recorded(copy, constants) if everywhere else torch.enable_grad(), reads as replaced:
            layers = self.places.layer_paths
            # Replacements inside a layer would not be applied when the layer runs again.
            long = long and not any(path.startswith(f"{layer}.") for path in replaced for layer in layers)
            with checkpointed(copy, layers) if long else nullcontext():
                record, stop = [site for site in (trunk, embeddings) if site is not None], trunk if head else None
                done = run(copy, batch.inputs, record=record, replace=replaced, instead=instead, stop=stop)
        if not readouts.keys() >= set(reading.places):
            raise no_states(self.module)
        if reading.sink_threshold is not None:
            hold_sinks(readouts, masks_of(batch), reading.sink_threshold)
        hidden = None if parts.trunk is None else parts.hidden(self.module, done.last(trunk))
        embedded = parts.embedded(done.last(embeddings), batch.mask.shape[1])
        answer = answer_of(done.output) if head is None else hidden
        if answer is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} returned no logits")
        with torch.enable_grad():
            answer = answer[:, : batch.mask.shape[1]] if head else answer
        predicted = list[HeadAnswer]()

        def predict_with_graph(states: Tensor) -> Tensor:
            """Return the logits that are shown, of the application of the head that is explained, too."""
            predicted.extend(head_answers(cast(Any, head), states))
            return torch.cat([logits.detach() for _, logits in predicted])  # (B, V)

        with torch.no_grad():
            hidden = None if hidden is None else hidden.detach()
            embedded = embedded.detach() if isinstance(embedded, Tensor) else embedded or no_states(self.module)
            logits, predictor = (None, predict_with_graph) if head else (answer.detach(), None)
            forward = self.model.finish(batch, hidden, embedded, None, logits, predict, predictor)
        return FrozenPass(
            **vars(forward),
            readouts=readouts,
            answer=answer,
            head=head,
            predicted=predicted,
            is_recorded=everywhere,
        )

    # --- the proof ---------------------------------------------------------------------------------------------------

    def _prove(self, batch: Batch, reading: Reading, predict: bool) -> FrozenPass | None:
        """Prove the first pass of a kind; return it if it is of the whole batch and keeps all that it needs.

        A lower place has more of the model in the graph.
        """
        kind, lowest = (bool(batch.media), batch.has_source), min(set(reading.places) - {MEDIA})
        with self._lock:
            if kind in self._proved and self._proved[kind] <= lowest:
                return None
            sample, constants = first_text(self.model, batch), Constants()
            with full_float32() as is_changed:
                graph = self._run_copy(sample, replace(reading, baseline=None, point=1.0), predict, constants)
                self._prove_graph(sample, graph, constants)
            self._proved[kind] = lowest
            self.recorded |= constants.recorded
            return graph if sample is batch and not (is_changed or self._is_long(batch)) else None

    def _prove_graph(self, batch: Batch, graph: FrozenPass, constants: Constants) -> None:
        """Prove the output of a pass over one text, and that the contributions add up to it.

        A language model is read at the last token of the text, and at some entries of the vocabulary.
        """
        answer, position, rows = graph.answer, None, None
        if self.model.task.outputs.vocabulary:
            position = batch.mask.int().cumsum(-1).argmax(-1)  # (1,), the last token
            rows = torch.arange(PROOF_ROWS, device=position.device)
            rows = rows * (self.model.vocabulary_size - 1) // (PROOF_ROWS - 1)  # (R,)
            if self.head is None:
                answer = answer_at(answer, position)[..., rows]  # (1, R)
            else:
                with torch.enable_grad(), Recording(constants):
                    answer = self.head(answer[[0], position.to(answer.device)], rows)  # (1, R)
        answer = answer.float()
        self.frozen_answers_as_the_model(answer.detach(), batch.inputs, position, rows)
        dtypes = (torch.float32, getattr(self.module, "dtype", torch.float32), graph.answer.dtype)
        floating = [dtype for dtype in dtypes if dtype.is_floating_point and dtype.itemsize > 1]
        coarsest = max(floating, key=lambda dtype: torch.finfo(dtype).eps)
        prove_conservation(type(self.module).__name__, answer, graph.readouts, constants.leaves, coarsest)

    @proof(
        compares="the frozen pass and the model's own logits, on the first text",
        tolerance=f"{SUM_ERROR} times rounding",
        why="every operation that is held constant gives its own value",
        when="first use of frozen-gradient; nothing more for a short text that was the model's first, alone; otherwise "
        "a plain pass, and a frozen one over the first of several texts",
    )
    def frozen_answers_as_the_model(
        self, answer: Tensor, inputs: Mapping[str, Tensor], position: Tensor | None, rows: Tensor | None
    ) -> None:
        """Compare the output of a frozen pass, (1, C), (1, T, C) or (1, R), with the model's own."""

        def difference(expected: Tensor) -> float | None:
            expected = expected.to(answer.device).float()
            found = largest_difference(answer, expected)
            return None if found <= SUM_ERROR * tolerance_for(expected) else found

        text, logits = self.model.copy.known_answer or ({}, answer)  # of the text on which the head was proved
        same_text = text.keys() == inputs.keys() and all(torch.equal(text[name], inputs[name]) for name in inputs)
        if same_text and difference(logits if rows is None else logits[:, -1, rows]) is None:
            return
        with torch.no_grad():  # its weights may have been trained since
            beyond = difference(self.model.answer(inputs, position, rows))
        if beyond is not None:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} cannot be frozen: the pass gives another answer than the model, "
                f"by {beyond:.2g}"
            )


def first_text(model: TaskModel, batch: Batch) -> Batch:
    """Return the first text of a batch, for a language model its beginning; the batch itself if it has no more."""
    if batch.media:  # a prompt with pictures, which is read by itself
        return batch
    length = PROOF_TOKENS if model.task.outputs.vocabulary else None
    # A signal is one input, not a sequence of tokens that could be cut.
    uncut_names = {name for name in batch.inputs if batch.source_is_signal and name.startswith("source")}
    inputs = {name: value[:1] if name in uncut_names else value[:1, :length] for name, value in batch.inputs.items()}
    if all(inputs[name].shape == value.shape for name, value in batch.inputs.items()):
        return batch
    return Batch(inputs, batch.mask[:1, :length], batch.encodings[:1], [0])
