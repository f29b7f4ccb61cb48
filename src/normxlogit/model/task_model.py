"""`TaskModel`: the model with its task and parts, and its forward passes."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..copies.answer_form import ForwardSettings
from ..copies.arithmetic import full_float32, is_finite, non_finite_error
from ..copies.clone import unwrapped
from ..copies.memory import tokens_that_fit
from ..copies.run import Pass, Replace, Site, embedded_of, states_of, without_autocast
from ..errors import HeadMismatchError, InputError, MethodError, NormXLogitError, UnsupportedModelError
from ..inputs.encoder import Encoder
from ..inputs.encoding import Batch, collate
from ..inputs.texts import positive_integer, whole_number
from ..loading.pipeline_settings import PipelineSettings
from ..parts.embeddings import WordEmbeddings
from ..parts.find_parts import find_parts
from ..parts.headpiece import TOKENS_AT_ONCE, Head, Parts, answer_of
from ..parts.layer_to_head import bring_to_head, exit_after
from ..parts.main_input import MainInput
from ..parts.model_proofs import prove_alone
from ..parts.proofs import outputs_beyond_rounding
from ..results.storage.schema import FloatArray
from ..tasks import Task, TaskName, as_task_model, choose_task, declared_tasks
from ..tasks.base import Generates, Pooling, check_answer
from ..tasks.targets import All, BatchTargets, Layers
from ..tasks.task_outputs import logits_at
from .input_limits import filler_id
from .model_copy import ModelCopy, copy_answers_as_the_model, first_alone, input_errors, sample_of
from .version import read_model


@dataclass(frozen=True)
class ForwardPass:
    """The inputs, states and logits of one run of the model; in the place of a missing state is the error for it."""

    batch: Batch
    final: Tensor | NormXLogitError  # what the head reads, (B, T, H), or why there is nothing; see `hidden`
    embedding_output: Tensor | NormXLogitError  # the embedding layer's output, (B, T, H); see `embedded`
    states: tuple[Tensor, ...] | None  # the embedding layer's output and every layer's, (B, T, H) each, if requested
    logits: Tensor  # the model's answer, (B, C), for heads that answer at every token at the position explained
    read_tokens: Callable[[], Tensor] | None  # returns `token_logits`; None for vocabulary heads, and without a head
    positions: Tensor | None  # where it is read, (B,), or (B, 2) for a span; None for answers about the whole text
    logits_by_position: Tensor | None = None  # (B, T, C); None for whole-text and vocabulary heads
    outputs: Mapping[str, Any] | None = None  # the outputs of the model, if the caller ran it

    @cached_property
    def token_logits(self) -> Tensor | None:
        """The head's answer at each of the N real tokens, (N, C), in the order of `batch.mask`."""
        return None if self.read_tokens is None else self.read_tokens()

    @property
    def hidden(self) -> Tensor:
        """The final hidden states, which the head reads, (B, T, H)."""
        return _tensor_or_raise(self.final)

    @property
    def embedded(self) -> Tensor:
        """The embedding layer's output, (B, T, H)."""
        return _tensor_or_raise(self.embedding_output)

    @property
    def dtype(self) -> torch.dtype | None:
        """The precision of the pass; None if it recorded no state."""
        return next((state.dtype for state in (self.final, self.embedding_output) if isinstance(state, Tensor)), None)

    def row(self, index: int) -> "ForwardPass":
        """Return the pass of one text of the batch, padding included."""
        rows = slice(index, index + 1)
        batch = self.batch
        return ForwardPass(
            batch.rows(rows),
            self.final[rows] if isinstance(self.final, Tensor) else self.final,
            self.embedding_output[rows] if isinstance(self.embedding_output, Tensor) else self.embedding_output,
            None if self.states is None else tuple(state[rows] for state in self.states),
            self.logits[rows],
            None if self.read_tokens is None else lambda: cast(Tensor, self.token_logits)[batch.texts == index],
            None if self.positions is None else self.positions[rows],
            None if self.logits_by_position is None else self.logits_by_position[rows],
        )


def to_host(*tensors: Tensor | None) -> list[Any]:
    """Bring tensors from the device as float32 arrays, in one transfer; None stays None, indices below 2^24 exact."""
    on_device = [t for t in tensors if t is not None and t.device.type != "cpu"]
    if not on_device:
        return [None if t is None else t.float().numpy() for t in tensors]
    flat = torch.cat([t.float().to(on_device[0].device).flatten() for t in tensors if t is not None]).cpu()
    parts = iter(flat.split([t.numel() for t in tensors if t is not None]))
    return [None if t is None else next(parts).view(t.shape).numpy() for t in tensors]


def check_same_pass(theirs: ForwardPass, ours: ForwardPass) -> None:
    """Refuse to explain the caller's pass by a second pass with other hidden states."""
    if not isinstance(theirs.final, Tensor):
        return
    if outputs_beyond_rounding(theirs.batch.real(theirs.final), ours.batch.real(ours.hidden)) is not None:
        raise InputError(
            "the model gives other hidden states than these outputs hold when it is run again; have its weights "
            "changed, and was it in evaluation mode?"
        )


def no_states(module: nn.Module) -> UnsupportedModelError:
    """Return the error for a model that does not return the outputs of its layers."""
    return UnsupportedModelError(f"{type(module).__name__} does not give its layers' outputs")


def _tensor_or_raise(state: Tensor | NormXLogitError) -> Tensor:
    """Return a state, or raise the error that is in its place."""
    if isinstance(state, NormXLogitError):
        raise type(state)(*state.args)  # a new one each time: an error keeps its traceback
    return state


def _of_copy(name: str) -> Any:
    """Return a property of a task model: an attribute of its `copy`."""
    return property(lambda model: getattr(model.copy, name))


class TaskModel:
    """A task model with its trunk and head, which are found without changing it; the arguments are `Explainer`'s."""

    caller_model: nn.Module = _of_copy("caller_model")  # as a task model, see `ModelCopy`
    config: PretrainedConfig = _of_copy("config")
    task: Task = _of_copy("task")
    encoder: Encoder = _of_copy("encoder")
    pad_left: bool = _of_copy("pad_left")
    pad_id: int = _of_copy("pad_id")
    module: PreTrainedModel = _of_copy("module")  # the copy that is explained
    unmodified: PreTrainedModel = _of_copy("unmodified")  # another one, which answers as the caller's model does
    notes: tuple[str, ...] = _of_copy("notes")

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
        self.reader, self.tokenizer = tokenizer, task_class.tokenizer_of(tokenizer)
        self._tokens_asked = None if batch_tokens is None else positive_integer(batch_tokens, "batch_tokens")
        self.batches_fitted = 0
        self.pipeline = pipeline = pipeline or PipelineSettings()
        self.forward = forward = forward or ForwardSettings()
        self.extra_inputs = forward.extra_inputs  # beside the text, (1, ...) each, of texts without
        # Reads the caller's model as it is when this is called.
        self._read_model = partial(read_model, model, task, labels, self.reader, self.tokenizer, pipeline, forward)
        self._lock = threading.RLock()
        self._sides: dict[str, TaskModel] = {}  # the models of the two sides of a model such as CLIP
        self._thread = threading.local()  # with the copy that its call began with
        self._newest_copy = self._read_model(previous=caller_model)
        self.name = (name and str(name)) or getattr(self.config, "_name_or_path", None) or class_name

    def __repr__(self) -> str:
        layers = getattr(self.config.get_text_config(), "num_hidden_layers", None)
        return ", ".join([repr(self.name), repr(self.task)] + ([] if layers is None else [f"layers={layers}"]))

    @cached_property
    def most_tokens(self) -> int:
        """Most tokens of a pass, padding included: the caller's number, or what fits into memory at first use."""
        vocabulary = self.vocabulary_size if self.task.outputs.vocabulary else 0
        return self._tokens_asked or tokens_that_fit(self.module, self.device, vocabulary)

    @cached_property
    def batch_tokens(self) -> int:
        """The same now: it is halved when memory runs out, and doubled again after many batches that fitted."""
        return self.most_tokens

    @property
    def copy(self) -> ModelCopy:
        """The copies of the caller's model with which this thread's call began; another thread may refresh them."""
        return getattr(self._thread, "copy", None) or self._newest_copy

    @property
    def embeddings(self) -> WordEmbeddings:
        """The word embeddings, which can be replaced in a pass."""
        if self.task.reads == "signal":
            raise UnsupportedModelError(
                f"{type(self.module).__name__} reads no word embeddings, which this method works on; normxlogit, logat "
                "and frozen-gradient explain pictures and sounds"
            )
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
        return self.copy.outputs or int(self.config.get_text_config().vocab_size)

    @property
    def output_count(self) -> int:
        """The number of outputs that can be a target: labels, or entries of the vocabulary."""
        return self.vocabulary_size if self.task.outputs.vocabulary else len(self.task.outputs.labels)

    @property
    def answer_limit(self) -> int | None:
        """The most tokens of a prompt with its answer, or of a decoder beside an encoder; None for any number."""
        limit = self.copy.decoder_limit
        if limit is None:
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
            if self._newest_copy is copy:
                self._newest_copy = self._read_model(previous=copy.caller_model)
            self._thread.copy = self._newest_copy
        return True

    def batch(self, encodings: Sequence[Any], indices: list[int], *, encode_sources: bool = True) -> Batch:
        """Return encodings, with their indices in the caller's list, as tensors; `encode_sources`: encoders run now."""
        changed = self.refresh()
        if changed or (not encode_sources and self.copy.parts is None):
            self.prepare(self._collate(encodings, indices))  # parts that were found earlier belong to the earlier copy
        return self._collate(encodings, indices, encode_sources=encode_sources)

    def _collate(self, encodings: Sequence[Any], indices: list[int], *, encode_sources: bool = True) -> Batch:
        batch = collate(encodings, indices, pad_id=self.pad_id, left=self.pad_left, device=self.device)
        return self.task.add_inputs(batch, self, encode_sources=encode_sources)

    def prepare(self, batch: Batch, *, alone: bool = True) -> ModelCopy:
        """Find the parts of the model and prove the head, on the first batch only; `alone`: also `prove_alone`."""
        copy = self.copy
        if copy.parts is None:
            with copy.lock, full_float32():
                if copy.parts is None:
                    self._find_parts(copy, batch)
        if alone:
            self.prove_alone()
        return copy

    def _find_parts(self, copy: ModelCopy, batch: Batch) -> None:
        """Find the parts of the model with the first text of a batch."""
        sample, unverified = sample_of(batch, self.task), None
        main_input = MainInput(copy.main_input, self.filler, tuple(batch.inputs[copy.main_input].shape[2:]))
        with input_errors(copy.module, batch.inputs), without_autocast(sample):
            if copy.is_adapted:
                first_inputs = first_alone(batch)
                caller_inputs = self.task.caller_inputs(first_inputs, batch, self.device)
                unverified = copy_answers_as_the_model(copy, first_inputs, caller_inputs)
            try:
                parts, copy.first_text = find_parts(copy.pool, sample, main_input, tuple(self.extra_inputs))
            except (TypeError, ValueError):  # it reads no words without their pictures
                whole = dict(batch.inputs)
                parts, copy.first_text = find_parts(copy.pool, whole, main_input, tuple(self.extra_inputs))
        copy.parts = self.task.finalise_parts(parts, copy.pool, self)
        copy.notes += copy.parts.unverified if unverified is None else (*copy.parts.unverified, unverified)

    def prove_alone(self) -> None:
        """Prove that the first text is answered alone as beside another, unless that is proved."""
        copy = self.copy
        if copy.proved_alone or copy.first_text is None:
            return
        with copy.lock, full_float32(), input_errors(copy.module, copy.first_text.inputs):
            copy.first_text = prove_alone(copy.pool, copy.first_text)
            copy.proved_alone = True

    def run(self, batch: Batch, *, layers: bool = False, predict: bool = True) -> ForwardPass:
        """Run the trunk over a batch, with all layers' outputs if `layers`, what a language model says if `predict`."""
        copy = self.prepare(batch)
        parts = self.parts
        layers = layers and parts.early_exit is None and parts.trunk is not None
        keep = layers or parts.embedding_site is None
        stop = parts.trunk_site if self.task.outputs.vocabulary and (not keep or parts.trunk_gives_states) else None
        return self.read(batch, copy.run(batch.inputs, record=parts.sites, stop=stop, states=keep), layers, predict)

    def read(self, batch: Batch, recorded_pass: Pass, layers: bool = False, predict: bool = True) -> ForwardPass:
        """Return a `ForwardPass` made from a run of a copy that recorded its parts; see `run` and `finish`."""
        parts, outputs, returned = self.parts, recorded_pass.output or {}, recorded_pass.last(self.parts.trunk_site)
        states = states_of(outputs or returned)
        if layers and not states:
            raise no_states(self.module)
        embedded: Tensor | NormXLogitError | None = parts.embedded(
            recorded_pass.last(parts.embedding_site), batch.mask.shape[1]
        )
        if embedded is None and states and parts.trunk is not None:
            embedded = embedded_of(outputs or returned)
        if embedded is None:
            embedded = no_states(self.module)
        if states and parts.states_lack_embeddings and isinstance(embedded, Tensor):
            states = (embedded, *states[:-1])
        hidden = None if parts.trunk is None else parts.hidden(self.module, returned)
        logits = answer_of(outputs)
        logits = None if logits is None else logits.detach()
        return self.finish(batch, hidden, embedded, states if layers else None, logits, predict)

    def answer(
        self,
        inputs: Mapping[str, Tensor],
        positions: Tensor | None = None,
        *,
        replace: Mapping[Site, Replace] | None = None,
    ) -> Tensor:
        """Return the logits of the model, (B, C), at positions (B,) or (B, 2), differentiable with gradients on."""
        answer = answer_of(self.copy.run(inputs, replace=replace).output)
        if answer is None:
            raise HeadMismatchError(f"{type(self.module).__name__} returned no logits")
        return (answer if positions is None else logits_at(answer, positions)).float()

    def measure(
        self,
        target: BatchTargets,
        inputs: Mapping[str, Tensor],
        positions: Tensor | None,  # where a head that answers at every token is read, (N,) or (N, 2)
        texts: Tensor,  # which of the B texts each of the N belongs to, (N,)
        *,
        replace: Mapping[Site, Replace] | None = None,
    ) -> Tensor:
        """Return the explained quantity of targets for inputs, (N, K), differentiable where gradients are on."""
        if not self.task.outputs.vocabulary or positions is None or self.parts.trunk is None:
            logits = self.answer(inputs, positions, replace=replace)  # (N, C)
            return target.quantity(logits, texts.to(logits.device))
        hidden = self.run_trunk(inputs, replace=replace)  # (N, T, H)
        indices = torch.arange(len(hidden), device=hidden.device)  # (N,)
        hidden, texts = hidden[indices, positions.to(hidden.device)], texts.to(hidden.device)  # (N, H), (N,)
        # With a contrast, only the logits of the targets and the contrast are needed.
        rows, target = (None, target) if target.contrast is None else target.vocabulary_rows()
        values = []
        for states, texts_of_states in zip(hidden.split(TOKENS_AT_ONCE), texts.split(TOKENS_AT_ONCE), strict=True):
            logits = self.head.tokens(states, rows).float()  # (n, V) or (n, R)
            values.append(target.quantity(logits, texts_of_states))
        return torch.cat(values)

    def states(self, batch: Batch) -> Tensor:
        """Return the hidden states that the head reads, (B, T, H)."""
        self.prepare(batch)
        return self.run_trunk(batch.inputs)[:, : batch.mask.shape[1]]

    def run_trunk(self, inputs: Mapping[str, Tensor], *, replace: Mapping[Site, Replace] | None = None) -> Tensor:
        """Run the model up to the end of its trunk, and return the hidden states, (B, T, H); see `answer`."""
        _ = self.parts.head  # without one, its error says why there is no trunk
        trunk = self.parts.trunk_site
        result = self.copy.run(inputs, replace=replace, stop=trunk)
        return self.parts.hidden(self.module, result.last(trunk))

    def finish(
        self,
        batch: Batch,
        hidden: Tensor | None,  # the head's input, (B, T, H); None if there is no head
        embedded: Tensor | NormXLogitError,  # the embedding layer's output, (B, T, H), or why there is none
        states: tuple[Tensor, ...] | None,
        logits: Tensor | None,  # the model's answer; None if the head has not run
        predict: bool = True,
    ) -> ForwardPass:
        """Return a `ForwardPass` made from the output of a run of the model."""
        parts, length, vocabulary = self.parts, batch.mask.shape[1], self.task.outputs.vocabulary
        if hidden is not None and logits is None and not vocabulary:
            logits = self.head.texts(hidden, batch.inputs)  # (B, C) or (B, T, C)
        logits_by_position = logits if self.task.position.at != "text" and not vocabulary else None
        if logits is not None and not vocabulary:
            check_answer(self.task, logits, type(self.module).__name__)
        positions = self.task.position.of_batch(batch, logits)
        read_tokens = None
        if hidden is not None:
            hidden = hidden[:, :length]  # (B, T, H)
            read_tokens = None if vocabulary else partial(self.head_logits, hidden, batch)
        if hidden is not None and vocabulary and positions is not None:
            rows = torch.arange(len(positions), device=hidden.device)
            logits = self.head.tokens(hidden[rows, positions]) if predict else hidden[:, 0, :0]  # (B, V)
        elif positions is not None and logits is not None:
            logits = logits_at(logits, positions)  # (B, C)
        if logits is None:
            raise HeadMismatchError(f"{type(self.module).__name__} returned no logits")
        final_states = parts.head_mismatch if hidden is None else hidden
        return ForwardPass(
            batch, final_states, embedded, states, logits.float(), read_tokens, positions, logits_by_position
        )

    def check_finite(self, values: FloatArray, batch: Batch) -> None:
        """Refuse scores or logits of a batch that are NaN or infinite, checked on the host to avoid a transfer."""
        if not np.isfinite(values).all() and not is_finite(torch.from_numpy(values)):  # -inf may be an excluded answer
            raise non_finite_error(self.module, batch.inputs)

    def head_logits(self, hidden: Tensor, batch: Batch, rows: Tensor | None = None) -> Tensor:
        """Return the head's logits at the N real tokens of states (B, T, H): (N, C), or (N, R) for rows (R,)."""
        head = self.head
        if self.parts.tokenwise:
            inputs = {name: batch.inputs[name][batch.texts] for name in batch.beside_text}
            return head.tokens(batch.real(hidden), rows, inputs).float()  # (N, C)
        return batch.real(head.texts(hidden, batch.inputs)).float()  # (N, C)

    def layer_as_final(self, run: ForwardPass, layer: int) -> Tensor:
        """Return the output of a layer, 1 to L, as a hidden state for the head, (B, T, H)."""
        parts, pool, inputs, trunk = self.parts, self.copy.pool, run.batch.inputs, str(self.parts.trunk)
        if layer == parts.layers:
            return run.hidden
        if parts.early_exit is not None:
            hidden = parts.head.swap_if_time_first(exit_after(pool, trunk, parts.early_exit, inputs, layer))
        else:
            hidden = (run.states or ())[layer]
            if parts.tail is not None:
                hidden = bring_to_head(pool, trunk, parts.tail, hidden, inputs)
        return hidden[:, : run.batch.mask.shape[1]]  # BigBird's trunk returns more states

    def generating(self) -> "TaskModel":
        """Return the model with a task that generates, as a BART class is both masked and encoder-decoder."""
        if isinstance(self.task, Generates) or "seq2seq-lm" not in declared_tasks(self.caller_model):
            return self
        return TaskModel(self.caller_model, self.reader, self.name, batch_tokens=self._tokens_asked, task="seq2seq-lm")

    def side(self, module: nn.Module, reader: Any) -> "TaskModel":
        """Return one of the two towers of the model as a model of its own, made once for each reader."""
        tower = self._sides.get(type(reader).__name__)
        tower = tower or TaskModel(module, reader, self.name, batch_tokens=self._tokens_asked)
        return self._sides.setdefault(type(reader).__name__, tower)

    def layer_numbers(self, layers: Layers) -> tuple[int, ...]:
        """Return the caller's layers as numbers from 1; () for the model's answer as it is."""
        if layers is None:
            return ()
        if isinstance(layers, All):
            return tuple(range(1, self.layer_count() + 1))
        choices: Any = layers
        choices = choices.tolist() if getattr(choices, "ndim", 0) == 1 else choices  # of an array or a tensor
        choices = choices if isinstance(choices, list | tuple | range) else [choices]
        if not choices:
            raise MethodError("the list of layers is empty; None explains the model's answer as it is")
        count, numbers = self.layer_count(), []
        for layer in choices:
            if (number := whole_number(layer)) is None:
                raise MethodError(f"layers must be ALL, a number or several numbers, not {layer!r}")
            numbers.append(number + count + 1 if -count <= number < 0 else number)  # -1 is the last
            if not 1 <= numbers[-1] <= count:
                raise MethodError(f"no layer {number}; the model has layers 1 to {count}")
        return tuple(numbers)

    def layer_count(self) -> int:
        """Return L, the number of layers whose output the head can read."""
        if self.parts.layers is None:
            _ = self.parts.head  # without one, its error says why
            raise UnsupportedModelError(
                f"the layers of {type(self.module).__name__} cannot be read one by one: no way was found that "
                "brings a layer's output to the head as the last layer's is brought there"
            )
        return self.parts.layers
