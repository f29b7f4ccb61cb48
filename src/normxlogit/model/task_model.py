"""`TaskModel`: the model with its task and parts, and its forward passes."""

import math
import threading
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..copies.arithmetic import finite_or_excluded
from ..copies.clone import unwrapped
from ..copies.forward_arguments import ForwardSettings
from ..copies.memory import tokens_that_fit
from ..copies.module_io import TensorInputs, embedded_of, states_of
from ..copies.non_finite import non_finite_error
from ..copies.precision import full_float32, without_autocast
from ..copies.run import Pass, Replacements
from ..errors import HeadMismatchError, MethodError, NormXLogitError, UnsupportedModelError
from ..inputs.batches import Batch, collate
from ..inputs.encoder import Encoder
from ..inputs.texts import positive_integer, whole_number
from ..loading.pipeline_settings import PipelineSettings
from ..parts.early_exit import exit_after
from ..parts.embeddings import WordEmbeddings
from ..parts.find_parts import find_parts
from ..parts.headpiece import TOKENS_AT_ONCE, Head, answer_of
from ..parts.layer_to_head import bring_to_head
from ..parts.main_input import MainInput
from ..parts.model_parts import Parts
from ..parts.model_proofs import prove_alone
from ..results.storage.schema import FloatArray, Strings
from ..tasks import Task, TaskName, as_task_model, choose_task, declared_tasks
from ..tasks.base import Generates, Pooling, check_answer
from ..tasks.targets import All, BatchTargets, Layers
from ..tasks.task_outputs import logits_at
from .forward_pass import ForwardPass, no_states
from .model_copy import ModelCopy, copy_answers_as_the_model, first_alone, sample_of
from .model_errors import input_errors
from .model_inputs import filler_id
from .version import read_model


def _at_token(hidden: Tensor, positions: Tensor) -> Tensor:
    """Return the hidden state of each text, (B, H) of (B, T, H), at one position, (B,)."""
    rows = torch.arange(len(hidden), device=hidden.device)  # (B,)
    return hidden[rows, positions.to(hidden.device)]


def _of_copy(name: str) -> Any:
    """Return a property of `TaskModel` that reads an attribute of its `copy`, which `refresh` may replace."""
    return property(lambda model: getattr(model.copy, name))


class TaskModel:
    """A task model with its trunk and head, which are found without changing it; the arguments are `Explainer`'s.

    Attributes:
        name: The name of the model in results.
        reader: What reads inputs: a tokenizer or a processor.
        tokenizer: The tokenizer in it; None if it has none.
        pipeline: Settings of the pipeline that the model came with.
        forward: How a module of the caller's is called, and what it returns.
        extra_inputs: Inputs beside the text, (1, ...) each, of texts that are given none of their own.
        batches_fitted: How many batches in a row have fitted into memory, see `batch_attempts`.
    """

    caller_model: nn.Module = _of_copy("caller_model")  # as a task model, see `ModelCopy`
    config: PretrainedConfig = _of_copy("config")
    task: Task = _of_copy("task")
    encoder: Encoder = _of_copy("encoder")
    pad_left: bool = _of_copy("pad_left")
    pad_id: int = _of_copy("pad_id")
    module: PreTrainedModel = _of_copy("module")  # the copy that is explained
    unmodified: PreTrainedModel = _of_copy("unmodified")  # another one, which answers as the caller's model does
    notes: Strings = _of_copy("notes")

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        name: str | None = None,
        *,
        batch_tokens: int | None = None,
        task: TaskName | None = None,
        labels: Sequence[str] | None = None,
        pooling: Pooling | None = None,
        pipeline: PipelineSettings | None = None,
        forward: ForwardSettings | None = None,
    ) -> None:
        task_class = choose_task(model, task)
        caller_model = as_task_model(task_class, model, pooling)
        class_name = type(unwrapped(caller_model)).__name__
        self.reader = tokenizer
        self.tokenizer = task_class.tokenizer_of(tokenizer)
        self._requested_tokens = None if batch_tokens is None else positive_integer(batch_tokens, "batch_tokens")
        self.batches_fitted = 0
        self.pipeline = pipeline = pipeline or PipelineSettings()
        self.forward = forward = forward or ForwardSettings()
        self.extra_inputs = forward.extra_inputs
        # Copies the caller's model as it is whenever this is called, with its task and encoder.
        self._read_model = partial(read_model, model, task, labels, self.reader, self.tokenizer, pipeline, forward)
        self._lock = threading.RLock()
        self._sides: dict[str, TaskModel] = {}  # the models of the two sides of a model such as CLIP
        self._thread = threading.local()  # its `copy` is the one with which the call in this thread began
        self._newest_copy = self._read_model(previous=caller_model)
        self.name = str(name or getattr(self.config, "_name_or_path", None) or class_name)

    @property
    def class_name(self) -> str:
        """The class of the model, for errors."""
        return type(self.module).__name__

    def __repr__(self) -> str:
        layers = getattr(self.config.get_text_config(), "num_hidden_layers", None)
        described = f"{self.name!r}, {self.task!r}"
        return described if layers is None else f"{described}, layers={layers}"

    @cached_property
    def most_tokens(self) -> int:
        """Most tokens of a pass, padding included: the caller's number, or what fits into memory at first use."""
        # The logits of a whole vocabulary take memory, too.
        vocabulary = self.vocabulary_size if self.task.outputs.vocabulary else 0
        return self._requested_tokens or tokens_that_fit(self.module, self.device, vocabulary)

    @cached_property
    def batch_tokens(self) -> int:
        """Most tokens of a pass now: halved when memory runs out, doubled again after many batches that fitted."""
        return self.most_tokens

    @property
    def copy(self) -> ModelCopy:
        """The copies of the caller's model with which this thread's call began; another thread may refresh them."""
        return getattr(self._thread, "copy", None) or self._newest_copy

    @property
    def embeddings(self) -> WordEmbeddings:
        """The word embeddings, which can be replaced in a pass."""
        self.task.check_input(self, "words")
        return self.copy.embeddings

    @property
    def filler(self) -> int:
        """A token id for one-token sequences: the end-of-sequence token unless that is also the padding."""
        return filler_id(self.config, self.pad_id)

    @property
    def device(self) -> torch.device:
        """The device of the inputs."""
        weight = next(self.module.parameters(), None)
        if weight is None or weight.device.type == "meta":  # offloaded: its hook will move the inputs
            return torch.device("cpu")
        return weight.device

    @property
    def vocabulary_size(self) -> int:
        """Number of outputs of a language model's head."""
        # A plain module has no configuration that says it; its answer to a short text does.
        return self.copy.outputs or int(self.config.get_text_config().vocab_size)

    @property
    def output_count(self) -> int:
        """The number of outputs that can be a target: labels, or entries of the vocabulary."""
        return self.vocabulary_size if self.task.outputs.vocabulary else len(self.task.outputs.labels)

    @property
    def answer_limit(self) -> int | None:
        """The most tokens of a prompt with its answer, or of a decoder beside an encoder; None for any number."""
        limit = self.copy.decoder_limit
        if limit is None:  # no encoder reads the prompt: it stands before the answer
            return self.encoder.limit
        return None if limit == math.inf else int(limit)

    @property
    def parts(self) -> Parts:
        """The parts of the model; they are found on the first batch."""
        if self.copy.parts is None:
            raise UnsupportedModelError("the model has not read anything yet")
        return self.copy.parts

    @property
    def head(self) -> Head:
        """The proved head, known after the first batch."""
        return Head(self.copy.pool, self.parts.head)

    def refresh(self) -> bool:
        """Copy the model anew if its modules, hooks, adapters or settings have changed; return whether it was."""
        copy = self._thread.copy = self.copy
        if copy.current:
            return False
        with self._lock:
            if self._newest_copy is copy:  # no other thread has copied it while this one waited
                self._newest_copy = self._read_model(previous=copy.caller_model)
            self._thread.copy = self._newest_copy
        return True

    def batch(
        self, encodings: Sequence[Any], indices: list[int] | None = None, *, encode_sources: bool = True
    ) -> Batch:
        """Return encodings as tensors.

        Args:
            encodings: The B texts.
            indices: Those of the texts in the caller's list; by default counted from 0.
            encode_sources: Whether encoders run now.
        """
        is_new_copy = self.refresh()
        # The parts of a copy are found now if it is new, as callers may use them before they run the batch, or if this
        # batch does not hold what an encoder returns, without which the model could not be run to find them.
        if is_new_copy or (not encode_sources and self.copy.parts is None):
            self.prepare(self._collate(encodings, indices))
        return self._collate(encodings, indices, encode_sources=encode_sources)

    def _collate(self, encodings: Sequence[Any], indices: list[int] | None, *, encode_sources: bool = True) -> Batch:
        numbered = list(range(len(encodings))) if indices is None else indices
        batch = collate(encodings, numbered, pad_id=self.pad_id, left=self.pad_left, device=self.device)
        return self.task.add_inputs(batch, self, encode_sources=encode_sources)

    def prepare(self, batch: Batch, *, alone: bool = True) -> ModelCopy:
        """Find the parts of the model and prove the head, on the first batch only.

        Args:
            batch: The texts that are about to be read.
            alone: Whether to `prove_alone`, too; not where a pass of the method's own may show it.
        """
        copy = self.copy
        if copy.parts is None:
            with copy.lock, full_float32():
                if copy.parts is None:  # no other thread has found them while this one waited
                    self._find_parts(copy, batch)
        if alone:
            self.prove_alone()
        return copy

    def _find_parts(self, copy: ModelCopy, batch: Batch) -> None:
        """Find the parts of the model with the first text of a batch, and prove the copy if it was adapted.

        A copy is adapted where it is called otherwise than the caller's model is; it must give the same logits.
        """
        shape = batch.inputs[copy.main_input].shape  # (B, T), or (B, T, ...) of numbers that are not token ids
        main_input = MainInput(copy.main_input, self.filler, token_shape=tuple(shape[2:]))
        find = partial(
            find_parts,
            copy.pool,
            main_input=main_input,
            further=tuple(self.extra_inputs),
            over_vocabulary=self.task.outputs.vocabulary,
        )
        sample = sample_of(batch, self.task)
        notes: Strings = ()
        with input_errors(copy.module, batch.inputs, copy.main_input), without_autocast(sample):
            if copy.is_adapted:
                first_inputs = first_alone(batch)
                caller_inputs = self.task.caller_inputs(first_inputs, batch, self.device)
                notes = copy_answers_as_the_model(copy, first_inputs, caller_inputs)
            try:
                parts, copy.first_text = find(sample)
            except (TypeError, ValueError):  # the model does not read the words of a prompt without its pictures
                parts, copy.first_text = find(dict(batch.inputs))
        copy.parts = self.task.finalise_parts(parts, copy.pool, self)
        copy.notes += copy.parts.unverified + notes

    def prove_alone(self) -> None:
        """Prove that the first text is answered alone as beside another, unless that is proved."""
        copy = self.copy
        if copy.proved_alone or copy.first_text is None:  # it is found with the parts: None is for type checkers
            return
        with copy.lock, full_float32(), input_errors(copy.module, copy.first_text.inputs, copy.main_input):
            copy.first_text = prove_alone(copy.pool, copy.first_text)
            copy.proved_alone = True

    def run(self, batch: Batch, *, layers: bool = False, predict: bool = True) -> ForwardPass:
        """Run the model over a batch of B texts; a language model up to the end of its trunk.

        Args:
            batch: The texts.
            layers: Whether to record the outputs of all layers, unless the trunk can be left early, see `Parts`.
            predict: Whether a language model's head is called; without it, the logits are empty, (B, 0).

        Raises:
            UnsupportedModelError: If the model does not return its layers' outputs, and `layers` asks for them.
            InputError: If the model cannot read the batch.
        """
        copy = self.prepare(batch)
        parts = self.parts
        has_head = parts.trunk is not None  # which the states of layers are brought to
        # Where the trunk can be left early, `layer_as_final` runs it up to a layer instead of reading recorded states.
        reads_layers = layers and has_head and parts.early_exit is None
        # Where no module returns the embeddings, they are the first of the hidden states.
        needs_states = reads_layers or parts.embedding_site is None
        trunk_is_enough = parts.trunk_gives_states or not needs_states
        # A language model's head is left out of the pass: `finish` calls it only for the token that is explained.
        stop = parts.trunk_site if self.task.outputs.vocabulary and trunk_is_enough else None
        recorded_pass = copy.run(batch.inputs, record=parts.sites, stop=stop, states=needs_states)
        return self.read(batch, recorded_pass, reads_layers, predict)

    def read(self, batch: Batch, recorded_pass: Pass, layers: bool = False, predict: bool = True) -> ForwardPass:
        """Return a `ForwardPass` made from a run of a copy that recorded its parts.

        Args:
            batch: The B texts that the copy has read.
            recorded_pass: Its run, stopped behind the trunk or not.
            layers: As in `run`.
            predict: As in `run`.

        Raises:
            UnsupportedModelError: If `layers` asks for layers' outputs, and the run has none.
            HeadMismatchError: If neither the run nor the head gives logits.
        """
        parts = self.parts
        trunk_output = recorded_pass.last(parts.trunk_site)
        output = recorded_pass.output or {}  # {} of a pass that was stopped behind the trunk
        last_output = output or trunk_output  # the one that holds the hidden states, if any does
        states = states_of(last_output)
        if layers and not states:
            raise no_states(self.module)
        embedded = parts.embedded(recorded_pass.last(parts.embedding_site), batch.mask.shape[1])
        hidden = None
        if parts.trunk is not None:
            hidden = parts.hidden(self.module, trunk_output)
            if embedded is None and states:
                embedded = embedded_of(last_output)
        states = self.with_embeddings(states, embedded) if layers else None
        return self.finish(batch, hidden, embedded, states, answer_of(output), predict)

    def with_embeddings(self, states: tuple[Tensor, ...] | None, embedded: Any) -> tuple[Tensor, ...] | None:
        """Return the states of all layers with the embedding layer's output in front, where the model leaves it out.

        Such a model's last state is the last layer's output once more, behind the final norm, which the head reads.

        Args:
            states: The hidden states that the model returned, (B, T, H) each; None for none.
            embedded: The embedding layer's output, (B, T, H). Without one, as of layers that read fewer positions than
                tokens, see `Parts.embedded`, the states stay as they are: no head reads states of several tokens.
        """
        if states and self.parts.states_lack_embeddings and isinstance(embedded, Tensor):
            return (embedded, *states[:-1])
        return states

    def answer(
        self,
        inputs: TensorInputs,
        positions: Tensor | None = None,
        *,
        replace: Replacements | None = None,
    ) -> Tensor:
        """Return the logits of the model, differentiable where gradients are on.

        Args:
            inputs: The arguments of its forward, of B texts.
            positions: Where a head that answers at every token is read, (B,) or (B, 2); None for the whole answer.
            replace: What takes the place of a module's input or output, see `copies.run`.

        Returns:
            The logits in float32: (B, C), or of the whole answer (B, T, C) where the head answers at every token.

        Raises:
            HeadMismatchError: If the model returns none.
            InputError: If it cannot read the inputs.
        """
        return self._at_positions(answer_of(self.copy.run(inputs, replace=replace).output), positions)

    def _at_positions(self, logits: Tensor | None, positions: Tensor | None) -> Tensor:
        """Return the logits at positions in float32, (B, C); refuse a model that returned no logits."""
        if logits is None:
            raise HeadMismatchError(f"{self.class_name} returned no logits")
        return (logits if positions is None else logits_at(logits, positions)).float()

    def measure(
        self,
        target: BatchTargets,
        inputs: TensorInputs,
        positions: Tensor | None,
        texts: Tensor,
        *,
        replace: Replacements | None = None,
    ) -> Tensor:
        """Return the explained quantity of targets for inputs, differentiable where gradients are on.

        Args:
            target: What is explained of B texts, K targets of each.
            inputs: The arguments of the model's forward, for N variants of the texts.
            positions: Where a head that answers at every token is read, (N,) or (N, 2); None for whole texts.
            texts: Which of the B texts each variant belongs to, (N,).
            replace: What takes the place of a module's input or output, see `copies.run`.

        Returns:
            The quantity of each target, (N, K): a logit, a difference of two or a log-probability, see `BatchTargets`.

        Raises:
            HeadMismatchError: If the model returns no logits.
            InputError: If it cannot read the inputs.
        """
        if not self.task.outputs.vocabulary or positions is None or self.parts.trunk is None:
            logits = self.answer(inputs, positions, replace=replace)  # (N, C)
            return target.quantity(logits, texts.to(logits.device))
        # A vocabulary's logits are computed at the explained positions alone.
        hidden = _at_token(self.run_trunk(inputs, replace=replace), positions)  # (N, H)
        rows = None  # the whole vocabulary, for its mean or its normaliser
        if target.contrast is not None:  # then only the logits of the targets and the contrast are needed
            rows, target = target.vocabulary_rows()
        states_in_parts = hidden.split(TOKENS_AT_ONCE)  # (n, H) each
        texts_in_parts = texts.to(hidden.device).split(TOKENS_AT_ONCE)  # (n,) each
        return torch.cat(
            [
                target.quantity(self.head.tokens(states, rows).float(), texts_of_states)  # (n, K)
                for states, texts_of_states in zip(states_in_parts, texts_in_parts, strict=True)
            ]
        )

    def states(self, batch: Batch) -> Tensor:
        """Return the hidden states that the head reads, (B, T, H)."""
        self.prepare(batch)
        return self.run_trunk(batch.inputs)[:, : batch.mask.shape[1]]

    def run_trunk(self, inputs: TensorInputs, *, replace: Replacements | None = None) -> Tensor:
        """Run the model up to the end of its trunk.

        Args:
            inputs: The arguments of its forward, of B texts.
            replace: What takes the place of a module's input or output, see `copies.run`.

        Returns:
            The hidden states that the head reads, (B, T, H).

        Raises:
            HeadMismatchError: If no head was proved, so that no trunk is known.
            InputError: If the model cannot read the inputs.
        """
        _ = self.parts.head  # without one, its error says why there is no trunk
        trunk = self.parts.trunk_site
        recorded_pass = self.copy.run(inputs, replace=replace, stop=trunk)
        return self.parts.hidden(self.module, recorded_pass.last(trunk))

    def finish(
        self,
        batch: Batch,
        hidden: Tensor | None,
        embedded: Tensor | NormXLogitError | None,
        states: tuple[Tensor, ...] | None,
        logits: Tensor | None,
        predict: bool = True,
    ) -> ForwardPass:
        """Return a `ForwardPass` made from what a run of the model recorded; call the head where it has not run.

        Args:
            batch: The B texts.
            hidden: The head's input, (B, T, H), or longer; None if there is no head.
            embedded: The embedding layer's output, (B, T, H); why there is none, or None if the model does not tell.
            states: The embedding layer's output and those of all layers, (B, T, H) each, if they were requested.
            logits: The model's answer, (B, C) or (B, T, C); None if the head has not run.
            predict: As in `run`.

        Raises:
            HeadMismatchError: If there are no logits, and no head to compute them.
            UnsupportedModelError: If the answer does not fit the task.
        """
        if logits is not None:  # their graph, of a pass with gradients, is not what a `ForwardPass` is read for
            logits = logits.detach()
        vocabulary = self.task.outputs.vocabulary
        if not vocabulary:
            logits = self._checked_answer(batch, hidden, logits)  # (B, C) or (B, T, C)
        positions = self.task.position.of_batch(batch, logits)
        if hidden is not None:
            hidden = hidden[:, : batch.mask.shape[1]]  # (B, T, H)
        return ForwardPass(
            batch,
            final=self.parts.head_mismatch if hidden is None else hidden,
            embedding_output=no_states(self.module) if embedded is None else embedded,
            states=states,
            logits=self._read_logits(hidden, logits, positions, predict),
            # A vocabulary's logits at every token may not fit into memory; without a head there are none.
            read_tokens=None if vocabulary or hidden is None else partial(self.head_logits, hidden, batch),
            positions=positions,
            logits_by_position=None if vocabulary or self.task.position.pooled else logits,
        )

    def _read_logits(
        self, hidden: Tensor | None, logits: Tensor | None, positions: Tensor | None, predict: bool
    ) -> Tensor:
        """Return the logits that answer, (B, C): read from the model's own, or a vocabulary's computed by its head.

        Args:
            hidden: The head's input, (B, T, H); None if there is no head.
            logits: The model's answer, (B, C) or (B, T, C); None if the head has not run.
            positions: Where the answer is read, (B,) or (B, 2); None for whole texts.
            predict: Whether a vocabulary's logits are computed at all; without, none are returned, (B, 0).
        """
        if hidden is None or positions is None or not self.task.outputs.vocabulary:
            return self._at_positions(logits, positions)
        if not predict:
            return hidden[:, 0, :0].float()  # (B, 0)
        return self.head.tokens(_at_token(hidden, positions)).float()  # (B, V)

    def _checked_answer(self, batch: Batch, hidden: Tensor | None, logits: Tensor | None) -> Tensor | None:
        """Return the answer of a head other than a vocabulary's, (B, C) or (B, T, C), which fits the task.

        Args:
            batch: The texts.
            hidden: The head's input, (B, T, H); None if there is no head.
            logits: The model's own answer; None if its head has not run.

        Returns:
            The model's answer, or that of its head; None if it has neither, which is refused where the answer is read.
        """
        if logits is None and hidden is not None:
            logits = self.head.texts(hidden, batch.inputs)
        if logits is not None:
            check_answer(self.task, logits, self.class_name)
        return logits

    def check_finite(self, values: FloatArray, batch: Batch) -> None:
        """Refuse scores or logits of a batch that are NaN or infinite, checked on the host to avoid a transfer."""
        if not finite_or_excluded(torch.from_numpy(values)):  # -inf may be an excluded answer
            raise non_finite_error(self.module, batch.inputs)

    def head_logits(self, hidden: Tensor, batch: Batch, rows: Tensor | None = None) -> Tensor:
        """Return the head's logits at the N tokens of B texts, padding left out.

        Args:
            hidden: Hidden states in the place of the last, (B, T, H).
            batch: The texts.
            rows: Which outputs of a vocabulary head are computed, (R,); None for all. Such a head must be tokenwise.

        Returns:
            The logits in float32, (N, C) or (N, R), in the order of `batch.mask`.
        """
        if not self.parts.tokenwise:  # the head reads a text as a whole, such as Splinter's, which compares tokens
            return batch.real(self.head.texts(hidden, batch.inputs)).float()  # (N, C)
        # An input of a whole text is repeated for each of its tokens, as the head reads each as a text of its own.
        inputs = {name: batch.inputs[name][batch.texts] for name in batch.beside_text}
        return self.head.tokens(batch.real(hidden), rows, inputs).float()  # (N, C) or (N, R)

    def layer_as_final(self, run: ForwardPass, layer: int) -> Tensor:
        """Return the output of a layer as the hidden states that the head reads for it.

        Args:
            run: A pass over B texts that recorded the layers.
            layer: The layer, 1 to L.

        Returns:
            The states, (B, T, H), after what the trunk does to its last layer's output, such as a final norm.
        """
        parts = self.parts
        pool = self.copy.pool
        inputs = run.batch.inputs
        trunk = str(parts.trunk)  # its path; where layers can be read there is one
        if layer == parts.layers:
            return run.hidden
        if parts.early_exit is not None:
            hidden = parts.head.swap_if_time_first(exit_after(pool, trunk, parts.early_exit, inputs, layer))
        else:
            hidden = (run.states or ())[layer]  # the first of them are the embeddings; `or ()` is for type checkers
            if parts.tail is not None:
                hidden = bring_to_head(pool, trunk, parts.tail, hidden, inputs)
        return hidden[:, : run.batch.mask.shape[1]]  # BigBird's trunk returns more states

    def generating(self) -> "TaskModel":
        """Return the model with a task that generates, as a BART class is both masked and encoder-decoder."""
        if isinstance(self.task, Generates) or "seq2seq-lm" not in declared_tasks(self.caller_model):
            return self
        return TaskModel(
            self.caller_model, self.reader, self.name, batch_tokens=self._requested_tokens, task="seq2seq-lm"
        )

    def side(self, module: nn.Module, reader: Any) -> "TaskModel":
        """Return one of the two towers of a model such as CLIP as a model of its own, which is made once.

        Args:
            module: The tower.
            reader: What reads its inputs: a tokenizer, or an image processor or feature extractor. Its class tells the
                two towers apart.
        """
        reader_class = type(reader).__name__
        if reader_class not in self._sides:
            self._sides[reader_class] = TaskModel(module, reader, self.name, batch_tokens=self._requested_tokens)
        return self._sides[reader_class]

    def layer_numbers(self, layers: Layers) -> tuple[int, ...]:
        """Return the caller's layers as numbers from 1; () for the model's answer as it is.

        Args:
            layers: ALL, a number, several in a list, range, array or tensor, or None. -1 is the last layer.

        Raises:
            MethodError: If there is no such layer, or what is given is not a number.
            UnsupportedModelError: If the layers of the model cannot be read one by one.
        """
        if layers is None:
            return ()
        if isinstance(layers, All):
            return tuple(range(1, self.layer_count() + 1))
        choices: Any = layers  # any type that counts as one or several numbers: `_layer_number` refuses others
        if getattr(choices, "ndim", 0) == 1:  # an array or a tensor of several
            choices = choices.tolist()
        if not isinstance(choices, list | tuple | range):
            choices = [choices]
        if not choices:
            raise MethodError("the list of layers is empty; None explains the model's answer as it is")
        return tuple(map(self._layer_number, choices))

    def _layer_number(self, layer: Any) -> int:
        """Return the number of a layer, from 1; negative ones count from the last."""
        number, count = whole_number(layer), self.layer_count()
        if number is None:
            raise MethodError(f"layers must be ALL, a number or several numbers, not {layer!r}")
        from_first = number + count + 1 if number < 0 else number
        if not 1 <= from_first <= count:
            raise MethodError(f"no layer {number}; the model has layers 1 to {count}")
        return from_first

    def layer_count(self) -> int:
        """Return L, the number of layers whose output the head can read."""
        if self.parts.layers is None:
            _ = self.parts.head  # without one, its error says why
            raise UnsupportedModelError(
                f"the layers of {self.class_name} cannot be read one by one: no way was found that "
                "brings a layer's output to the head as the last layer's is brought there"
            )
        return self.parts.layers
