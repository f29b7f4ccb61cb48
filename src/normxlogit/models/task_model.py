"""A task model, taken apart, and its forward passes."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..errors import HeadMismatchError, InputError, UnsupportedModelError
from ..inputs.batching import Batch, collate
from ..inputs.encoder import Encoder
from ..surgery.clone import clone, one_choice_each, unwrapped
from ..surgery.headpiece import answer_of
from ..surgery.layer_to_head import TrunkDone
from ..surgery.parts import Parts, find_parts, tolerance_for
from ..surgery.trace import embedded_of, hidden_of, states_of, tensor_of
from .embeddings import WordEmbeddings
from .forward_pass import ForwardPass
from .given_outputs import check_layer_count, check_same, check_shapes
from .input_limits import position_limit, vocabulary_limit
from .tasks import Task, at, causal, task_of

__all__ = ["ForwardPass", "TaskModel"]

PROOF_TEXTS = 2
PROOF_TOKENS = 64
"""Tokens of a text that the proof of a vocabulary head reads: its full logits are as wide as the vocabulary."""


class _Record(threading.local):
    """What the hooks of the current thread's forward pass saw."""

    active = False
    stop = False
    stop_early = False
    trunk: Any = None
    embedded: Tensor | None = None


class TaskModel:
    """A Hugging Face task model, taken apart into trunk and head without being touched.

    Args:
        model: The user's model; only read.
        tokenizer: Its tokenizer.
        name: What to call it in results.
        batch_tokens: Most tokens (padding included) in one forward pass.

    Raises:
        UnsupportedModelError: If the model is no task model of a supported kind.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        name: str | None = None,
        *,
        batch_tokens: int = 8192,
    ) -> None:
        if batch_tokens < 1:
            raise ValueError("batch_tokens must be positive")
        plain = unwrapped(model)
        self.batch_tokens = batch_tokens
        self.task: Task = task_of(plain)
        self.name = name or plain.config._name_or_path or type(plain).__name__
        self.tokenizer = tokenizer
        self.module: PreTrainedModel = clone(plain)  # type: ignore[assignment]
        if self.task.kind == "choice":
            one_choice_each(self.module)
        self.config = self.module.config
        self.encoder = Encoder(tokenizer, self.config, position_limit(tokenizer, plain), vocabulary_limit(plain))
        self.pad_id = self._choose_pad_id()
        # Trunks whose head takes the last position as it is must have their last token there.
        self.pad_left = getattr(self.config, "summary_type", None) == "last" and hasattr(plain, "sequence_summary")
        self.proved_causal = False
        self.ignores_padding: bool | None = None  # not tried yet
        self._parts: Parts | None = None
        self._lock = threading.Lock()
        self._record = _Record()

    def _choose_pad_id(self) -> int:
        text_config = self.config.get_text_config()
        pad = getattr(text_config, "pad_token_id", None)
        if pad is None:
            pad = self.tokenizer.pad_token_id
        if pad is None:
            pad = self.tokenizer.eos_token_id or 0
        text_config.pad_token_id = pad  # the copy's own configuration; the caller's is untouched
        return int(pad)

    @cached_property
    def recorder(self) -> PreTrainedModel:
        """What is called for layers: transformers leaves hooks on such a model, which would slow every other pass."""
        found: PreTrainedModel = clone(self.module)  # type: ignore[assignment]
        return found

    @cached_property
    def embeddings(self) -> WordEmbeddings:
        """The word embeddings and what may stand in their place.

        Raises:
            UnsupportedModelError: If the model reads no words.
        """
        try:
            return WordEmbeddings(self.module)
        except NotImplementedError:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} has no word embeddings, which this method works on"
            ) from None

    @property
    def filler(self) -> int:
        """A token id for one-token sequences: the end-of-sequence token unless that is also the padding."""
        eos = getattr(self.config.get_text_config(), "eos_token_id", None)
        eos = eos[0] if isinstance(eos, list) else eos
        if eos is not None and eos != self.pad_id:
            return int(eos)
        return 1 if self.pad_id == 0 else 0

    @property
    def device(self) -> torch.device:
        """Where the inputs go."""
        weight = next(self.module.parameters())
        if weight.device.type == "meta":  # offloaded: its hook will move the inputs
            return torch.device("cpu")
        return weight.device

    @property
    def vocabulary_size(self) -> int:
        """Number of outputs of a language model's head."""
        return int(self.config.get_text_config().vocab_size)

    @property
    def parts(self) -> Parts:
        """The parts that were found; there after the first batch."""
        if self._parts is None:
            raise UnsupportedModelError("the model has not read anything yet")
        return self._parts

    def batch(self, encodings: Sequence[Any], indices: list[int]) -> Batch:
        """Pad encodings for this model."""
        return collate(encodings, indices, pad_id=self.pad_id, left=self.pad_left, device=self.device)

    def prepare(self, batch: Batch) -> None:
        """Take the model apart and prove the head, on the first batch only.

        Raises:
            HeadMismatchError: If the head cannot be applied by itself.
        """
        if self._parts is not None:
            return
        with self._lock:
            if self._parts is not None:
                return
            longest = max(len(e) for e in batch.encodings[:PROOF_TEXTS])
            width = min(longest, PROOF_TOKENS) if self.task.vocabulary else longest
            part = slice(-width, None) if self.pad_left else slice(width)
            sample = {
                name: value[:PROOF_TEXTS, part] if value.shape == batch.mask.shape else value[:PROOF_TEXTS]
                for name, value in batch.inputs.items()
            }
            self._parts = find_parts(self.module, sample, self.filler)
            self._install_hooks(self._parts)

    def _install_hooks(self, parts: Parts) -> None:
        record = self._record

        def after_trunk(_: nn.Module, __: Any, output: Any) -> None:
            if record.active:
                record.trunk = output
                if record.stop:
                    raise TrunkDone

        def passing(value: Any) -> None:
            if record.active and record.embedded is None:
                record.embedded = tensor_of(value)
                if record.stop_early:
                    raise TrunkDone

        self.module.get_submodule(parts.trunk).register_forward_hook(after_trunk)
        if parts.embedding_tap is not None:
            parts.embedding_tap.listen(self.module, passing)

    @contextmanager
    def recording(self, *, stop: bool) -> Iterator[_Record]:
        """Let the hooks of the current thread's pass note the trunk's output and the embeddings.

        Args:
            stop: End the pass after the trunk.
        """
        record = self._record
        record.active, record.stop, record.trunk, record.embedded = True, stop, None, None
        try:
            yield record
        except TrunkDone:
            pass
        finally:
            record.active = record.stop_early = False

    def run(self, batch: Batch, *, layers: bool = False, predict: bool = True) -> ForwardPass:
        """Run the trunk once over a batch.

        Args:
            batch: What to read.
            layers: Keep every layer's output.
            predict: Compute what a language model says at the position explained; without, `logits` has no columns.

        Raises:
            UnsupportedModelError: If layers are asked for and the model does not give them.
        """
        self.prepare(batch)
        parts = self.parts
        layers = layers and parts.early_exit is None
        keep = layers or parts.embedding_tap is None
        stop = self.task.vocabulary and (not keep or parts.trunk_gives_states)
        outputs: Mapping[str, Any] = {}
        with self.recording(stop=stop) as record:
            outputs = self.recorder(**batch.inputs, output_hidden_states=True) if keep else self.module(**batch.inputs)
        seen = record.trunk
        record.trunk, embedded, record.embedded = None, record.embedded, None
        states = states_of(outputs or seen) if keep else None
        if embedded is not None and parts.embedding_tap is not None:
            embedded = parts.embedding_tap.read(embedded, batch.mask.shape[1])  # (B, T, H)
        elif states:
            embedded = embedded_of(outputs or seen)
        if embedded is None or (layers and not states):
            raise UnsupportedModelError(f"{type(self.module).__name__} does not give its layers' outputs")
        if states and parts.states_late:
            states = (embedded, *states[:-1])
        if (hidden := hidden_of(seen)) is None:
            raise HeadMismatchError(f"{parts.trunk} of {type(self.module).__name__} returned no hidden states")
        return self.finish(batch, hidden, embedded, states if layers else None, answer_of(outputs), predict)

    def answer(
        self,
        inputs: Mapping[str, Tensor],
        positions: Tensor | None = None,
        rows: Tensor | None = None,
        module: nn.Module | None = None,
    ) -> Tensor:
        """The model's logits and nothing else; differentiable where gradients are on.

        Args:
            inputs: Model inputs, (B, T).
            positions: Where a head that answers at every token is read, (B,) or (B, 2) as in `ForwardPass`.
            rows: For vocabulary heads, the wanted entries, (R,): the vocabulary is not computed.
            module: A clone of `module` to run in its place.

        Returns:
            (B, C), or (B, R).
        """
        module = self.module if module is None else module
        if rows is not None and positions is not None:
            hidden = self.run_trunk(module, inputs)
            if hidden is not None:
                texts = torch.arange(len(hidden), device=hidden.device)
                logits = self.parts.head.tokens(hidden[texts, positions.to(hidden.device)], rows)  # (B, R)
                return logits.float()
        answer = answer_of(module(**inputs))
        if answer is None:
            raise HeadMismatchError(f"{type(self.module).__name__} returned no logits")
        return (answer if positions is None else at(answer, positions)).float()

    @property
    def autoregressive(self) -> bool:
        """Whether the trunk reads from left to right, so that a token is better deleted than masked."""
        return causal(self.config)

    def states(self, batch: Batch) -> Tensor:
        """What the head would read, and nothing more: (B, T, H)."""
        self.prepare(batch)
        hidden = self.run_trunk(self.module, batch.inputs)
        if hidden is None:
            raise HeadMismatchError(f"{self.parts.trunk} of {type(self.module).__name__} returned no hidden states")
        return self.parts.by_token(hidden, batch.mask.shape[1])

    def run_trunk(self, model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
        """Run `module` or a clone of it up to the end of its trunk: the hidden states, None if it gave none."""
        with self.recording(stop=True) as record:
            model(**inputs)
        hidden, record.trunk, record.embedded = hidden_of(record.trunk), None, None
        return hidden

    def from_outputs(self, batch: Batch, outputs: Mapping[str, Any], *, layers: bool = False) -> ForwardPass:
        """Use a forward pass that the caller has run with `output_hidden_states=True`.

        Raises:
            InputError: If the outputs hold no hidden states, or not those of this input, or NaN.
            HeadMismatchError: If the head on these states does not give these logits.
        """
        states, logits = check_shapes(outputs, batch, per_token=self.task.per_token)
        self.prepare(batch)
        parts = self.parts
        check_layer_count(states, parts)
        embedded, hidden = self._embedded(batch), states[-1]  # (B, T, H) each
        if parts.states_late:
            check_same(batch, hidden, self.states(batch))
            states = (embedded, *states[:-1])
        elif (theirs := embedded_of(outputs)) is not None:
            check_same(batch, theirs, embedded)
        run = self.finish(batch, hidden, embedded, states if layers else None, None)
        given = logits if run.positions is None else at(logits, run.positions)
        if given.isnan().any() or not batch.real(hidden).isfinite().all():
            raise InputError("the outputs hold NaN or infinite numbers, which cannot be explained")
        difference = (run.logits.to(given.device) - given.float()).abs().max().item()
        if not difference <= tolerance_for(given):
            raise HeadMismatchError(
                f"the head on these hidden states gives logits that differ from these outputs' by {difference:.2g}; "
                "are they of the same inputs, and was the model in evaluation mode?"
            )
        return run

    def _embedded(self, batch: Batch) -> Tensor:
        """Return the embedding layer's output alone, (B, T, H): the layers do not run."""
        tap = self.parts.embedding_tap
        if tap is None:
            return self.run(batch).embedded
        with self.recording(stop=True) as record:
            record.stop_early = True
            self.module(**batch.inputs)
        embedded, record.embedded = record.embedded, None
        if embedded is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} does not give its embedding layer's output")
        return tap.read(embedded, batch.mask.shape[1])

    def finish(
        self,
        batch: Batch,
        hidden: Tensor,
        embedded: Tensor,
        states: tuple[Tensor, ...] | None,
        logits: Tensor | None,
        predict: bool = True,
    ) -> ForwardPass:
        """Make a forward pass out of what a run of the trunk left.

        Args:
            batch: What was read.
            hidden: What the head reads, (B, T, H).
            embedded: The embedding layer's output, (B, T, H).
            states: Every layer's output, if they are kept.
            logits: The model's answer; None where the head has not run.
            predict: As for `run`.
        """
        if logits is None and not self.task.vocabulary:
            logits = self.parts.head.whole(hidden, batch.inputs)  # (B, C) or (B, T, C)
        hidden = self.parts.by_token(hidden, batch.mask.shape[1])  # (B, T, H)
        everywhere = logits if self.task.per_token and not self.task.vocabulary else None
        positions = self.task.positions(batch, self.tokenizer, logits)
        if self.task.vocabulary and positions is not None:
            rows = torch.arange(len(positions), device=hidden.device)
            logits = self.parts.head.tokens(hidden[rows, positions]) if predict else hidden[:, 0, :0]  # (B, V)
        elif positions is not None and logits is not None:
            logits = at(logits, positions)  # (B, C)
        if logits is None:
            raise HeadMismatchError(f"{type(self.module).__name__} returned no logits")
        each = None if self.task.vocabulary else self.read(hidden, batch)  # (N, C)
        return ForwardPass(batch, hidden, embedded, states, logits.float(), each, positions, everywhere)

    def read(self, hidden: Tensor, batch: Batch, rows: Tensor | None = None) -> Tensor:
        """The head at every real token: HoT(x_i).

        Args:
            hidden: What the head reads, (B, T, H).
            batch: What was read.
            rows: For vocabulary heads, the wanted entries, (R,).

        Returns:
            (N, C) or (N, R) over the N real tokens, in the order of `batch.mask`.
        """
        head = self.parts.head
        if self.parts.tokenwise:
            return head.tokens(batch.real(hidden), rows).float()  # (N, C)
        return batch.real(head.whole(hidden, batch.inputs)).float()  # (N, C)

    def final(self, run: ForwardPass, layer: int) -> Tensor:
        """A layer's output as the head would read it: by the way that the last layer's output takes to the head.

        Args:
            run: A forward pass with layers.
            layer: 1 to L.

        Returns:
            (B, T, H).
        """
        if layer == self.parts.layers:
            return run.hidden
        return self.parts.after(layer, run.states or (), run.batch.inputs, run.batch.mask.shape[1])

    def layer_count(self) -> int:
        """L, the number of layers whose output the head can read.

        Raises:
            UnsupportedModelError: If the layers' outputs cannot be brought to the head.
        """
        if self.parts.layers is None:
            raise UnsupportedModelError(
                f"the layers of {type(self.module).__name__} cannot be read one by one: no way was found that "
                "brings a layer's output to the head as the last layer's is brought there"
            )
        return self.parts.layers
