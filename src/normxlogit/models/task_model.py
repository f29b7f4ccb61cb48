"""A task model, taken apart, and its forward passes."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..errors import HeadMismatchError, NormXLogitError, UnsupportedModelError
from ..inputs.batching import Batch, collate
from ..inputs.encoder import Encoder
from ..inputs.texts import counted
from ..results.base import FloatArray
from ..surgery.autocast import without_autocast
from ..surgery.clone import unwrapped
from ..surgery.find_parts import find_parts
from ..surgery.headpiece import Head, answer_of
from ..surgery.non_finite import is_number, non_finite_error
from ..surgery.parts import Parts
from ..surgery.run import Replace
from ..surgery.trace import embedded_of, states_of
from .embeddings import WordEmbeddings
from .forward_pass import ForwardPass, no_states
from .given_task import check_given_task
from .input_limits import input_names, position_limit, vocabulary_limit
from .model_copy import ModelCopy, Pinned
from .padding import filler_id, padding_id
from .proof import compare, first_alone, reading, sample_of
from .task_classes import TaskName, causal
from .tasks import Task, at, check_answer, task_of
from .token_budget import TokenBudget

__all__ = ["ForwardPass", "TaskModel"]


class TaskModel:
    """A task model, taken apart into trunk and head without being touched.

    Args:
        model: The user's model; only read.
        tokenizer: Its tokenizer.
        name: What to call it in results.
        batch_tokens: Most tokens (padding included) in one forward pass.
        task: Its task; a module that is not of transformers does not say.
        labels: Names for its outputs, in the place of those in its configuration.

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
        task: TaskName | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        self.given = model
        self.budget = TokenBudget(counted(batch_tokens, "batch_tokens"))
        self.tokenizer = tokenizer
        self._asked = task, labels
        self._lock = threading.RLock()
        self._pinned = Pinned()
        self._newest = self._copied()
        self.name = (
            (name and str(name)) or getattr(self.config, "_name_or_path", None) or type(unwrapped(model)).__name__
        )

    def _copied(self, watched: nn.Module | None = None) -> ModelCopy:
        """Copy the caller's model, and read from it what depends on its settings; `watched` is as for `ModelCopy`."""
        plain = unwrapped(self.given)
        task = task_of(plain, *self._asked)
        found = ModelCopy(self.given, watched)
        own = getattr(found.module, "config", None)
        self.config: PretrainedConfig = own if isinstance(own, PretrainedConfig) else PretrainedConfig()
        self.task = self._adapt(found, task)
        check_given_task(found, plain, self.task, self._asked[0], self.tokenizer)
        self.encoder = Encoder(
            self.tokenizer,
            self.config,
            self._limit(plain),
            vocabulary_limit(plain),
            input_names(self.tokenizer, plain),
        )
        # Trunks whose head takes the last position as it is must have their last token there.
        self.pad_left = getattr(self.config, "summary_type", None) == "last" and hasattr(plain, "sequence_summary")
        self.pad_id, usable = self._padding(found.module)
        if not (usable or self.task.per_token or self.pad_left):
            found.padding.refuted = True  # a head that looks for padding would take any other token for the text's
        return found

    def _limit(self, plain: nn.Module) -> int | None:
        """Return how many tokens the caller's model reads, whatever its tokenizer says."""
        return position_limit(None, plain)

    def _adapt(self, copy: ModelCopy, task: Task) -> Task:
        """Let a copy of the model be called as this class calls it; see `ModelCopy.adapt`."""
        return copy.adapt(task)

    def _padding(self, module: PreTrainedModel) -> tuple[int, bool]:
        """Return the token id to pad with, and whether a head that pools by it finds it."""
        return padding_id(module, self.config, self.tokenizer)

    @property
    def copy(self) -> ModelCopy:
        """The copies that this thread's call began with: another thread may make new ones meanwhile."""
        return self._pinned.copy or self._newest

    @property
    def module(self) -> PreTrainedModel:
        """The copy that is explained."""
        return self.copy.module

    @property
    def embeddings(self) -> WordEmbeddings:
        """The word embeddings and what may stand in their place.

        Raises:
            UnsupportedModelError: If the model has no table of them.
        """
        return self.copy.embeddings

    @property
    def batch_tokens(self) -> int:
        """Most tokens in one forward pass: what the caller set, or fewer since memory ran out."""
        return self.budget.tokens

    @property
    def filler(self) -> int:
        """A token id for one-token sequences: the end-of-sequence token unless that is also the padding."""
        return filler_id(self.config, self.pad_id)

    @property
    def device(self) -> torch.device:
        """Where the inputs go."""
        weight = next(self.module.parameters(), None)
        if weight is None or weight.device.type == "meta":  # offloaded: its hook will move the inputs
            return torch.device("cpu")
        return weight.device

    @property
    def vocabulary_size(self) -> int:
        """Number of outputs of a language model's head."""
        if self.copy.outputs is not None:
            return self.copy.outputs
        return int(self.config.get_text_config().vocab_size)

    @property
    def parts(self) -> Parts:
        """The parts that were found; there after the first batch."""
        return self.copy.known_parts

    @property
    def head(self) -> Head:
        """The proved head, there after the first batch: `tokens` applies it to single tokens, `whole` to texts.

        Raises:
            HeadMismatchError: If no head was found that reproduces the model's logits.
        """
        return self.copy.head

    def refresh(self) -> bool:
        """Copy the model anew if it is no longer what was copied: other modules, hooks, adapters or settings.

        Returns:
            Whether it was.
        """
        known = self._pinned.copy = self.copy
        if known.current:
            return False
        with self._lock:
            if self._newest is known:
                self._newest = self._copied()
            self._pinned.copy = self._newest
        return True

    def batch(self, encodings: Sequence[Any], indices: list[int]) -> Batch:
        """Pad encodings for this model, as it is now."""
        changed = self.refresh()
        batch = self._collated(encodings, indices)
        if changed:
            self.prepare(batch)  # what was found before went with the copy before
        return batch

    def _collated(self, encodings: Sequence[Any], indices: list[int]) -> Batch:
        return collate(encodings, indices, pad_id=self.pad_id, left=self.pad_left, device=self.device)

    def prepare(self, batch: Batch) -> ModelCopy:
        """Take the model apart and prove the head, on the first batch only.

        Raises:
            HeadMismatchError: If the head cannot be applied by itself, or the copy answers otherwise than the model.
            UnsupportedModelError: If the answer is no number.
            InputError: If the model cannot read the batch.
        """
        copy = self.copy
        if copy.parts is not None:
            return copy
        with copy.lock:
            if copy.parts is None:
                sample = sample_of(batch, self.task)
                with reading(copy.module, batch.inputs), without_autocast(sample):
                    if copy.adapted:
                        row = first_alone(batch)
                        compare(copy, row, self._as_given(row, batch))
                    parts = find_parts(copy.pool, sample, self.filler)
                copy.parts = self._settle(copy, parts)
        return copy

    def _as_given(self, inputs: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        """Return the inputs of one text as the caller's model takes them."""
        choice = self.task.kind == "choice"
        return {name: value[:, None] if choice and value.ndim > 1 else value for name, value in inputs.items()}

    def _settle(self, copy: ModelCopy, parts: Parts) -> Parts:
        """Find what else belongs to the parts, before they are used."""
        return parts

    def run(self, batch: Batch, *, layers: bool = False, predict: bool = True) -> ForwardPass:
        """Run the trunk once over a batch.

        Args:
            batch: What to read.
            layers: Keep every layer's output.
            predict: Compute what a language model says at the position explained; without, `logits` has no columns.

        Raises:
            UnsupportedModelError: If layers are asked for and the model does not give them.
        """
        copy = self.prepare(batch)
        parts = self.parts
        layers = layers and parts.early_exit is None and parts.trunk is not None
        keep = layers or parts.embedding_tap is None
        trunk, tap = parts.trunk_site, None if parts.embedding_tap is None else parts.embedding_tap.site
        stop = trunk if self.task.vocabulary and (not keep or parts.trunk_gives_states) else None
        sites = [site for site in (trunk, tap) if site is not None]
        with reading(self.module, batch.inputs):
            done = copy.run(batch.inputs, record=sites, stop=stop, states=keep)
        outputs: Mapping[str, Any] = done.output or {}
        seen, embedded = done.last(trunk), done.last(tap)
        states = states_of(outputs or seen) if keep else None
        if layers and not states:
            raise no_states(self.module)
        first: Tensor | NormXLogitError | None = parts.embedded(embedded, batch.mask.shape[1])
        if first is None and states and parts.trunk is not None:
            first = embedded_of(outputs or seen)
        if first is None:
            first = no_states(self.module)
        if states and parts.states_late and isinstance(first, Tensor):
            states = (first, *states[:-1])
        hidden = None if parts.trunk is None else parts.hidden(self.module, seen)
        return self.finish(batch, hidden, first, states if layers else None, answer_of(outputs), predict)

    def answer(
        self,
        inputs: Mapping[str, Tensor],
        positions: Tensor | None = None,
        rows: Tensor | None = None,
        *,
        replace: Mapping[str, Replace] | None = None,
        on: nn.Module | None = None,
    ) -> Tensor:
        """Return the model's logits and nothing else; differentiable where gradients are on.

        Args:
            inputs: Model inputs, (B, T).
            positions: Where a head that answers at every token is read, (B,) or (B, 2) as in `ForwardPass`.
            rows: For vocabulary heads, the wanted entries, (R,): the vocabulary is not computed.
            replace: What takes the place of which modules' outputs, see `surgery.run`.
            on: A copy that the caller has leased, to be run.

        Returns:
            (B, C), or (B, R).
        """
        if rows is not None and positions is not None and self.parts.trunk is not None:
            hidden = self.run_trunk(inputs, replace=replace, on=on)
            texts = torch.arange(len(hidden), device=hidden.device)
            logits = self.head.tokens(hidden[texts, positions.to(hidden.device)], rows)  # (B, R)
            return logits.float()
        with reading(self.module, inputs, gradients=torch.is_grad_enabled()):
            answer = answer_of(self.copy.run(inputs, replace=replace, on=on).output)
        if answer is None:
            raise HeadMismatchError(f"{type(self.module).__name__} returned no logits")
        answer = answer if positions is None else at(answer, positions)
        return (answer if rows is None else answer[..., rows]).float()

    @property
    def autoregressive(self) -> bool:
        """Whether the trunk reads from left to right, so that a token is better deleted than masked."""
        return causal(self.config)

    def states(self, batch: Batch) -> Tensor:
        """Return the hidden states that the head would read, and nothing more: (B, T, H)."""
        self.prepare(batch)
        return self.copy.by_token(self.run_trunk(batch.inputs), batch.mask.shape[1])

    def run_trunk(
        self,
        inputs: Mapping[str, Tensor],
        *,
        replace: Mapping[str, Replace] | None = None,
        on: nn.Module | None = None,
    ) -> Tensor:
        """Run the model up to the end of its trunk, and return the hidden states, (B, T, H); see `answer`."""
        _ = self.parts.head  # without one, its error says why there is no trunk
        trunk = self.parts.trunk_site
        with reading(self.module, inputs, gradients=torch.is_grad_enabled()):
            done = self.copy.run(inputs, replace=replace, stop=trunk, on=on)
        return self.parts.hidden(self.module, done.last(trunk))

    def finish(
        self,
        batch: Batch,
        hidden: Tensor | None,
        embedded: Tensor | NormXLogitError,
        states: tuple[Tensor, ...] | None,
        logits: Tensor | None,
        predict: bool = True,
    ) -> ForwardPass:
        """Make a forward pass out of what a run of the model left.

        Args:
            batch: What was read.
            hidden: What the head reads, (B, T, H); None where there is no head.
            embedded: The embedding layer's output, (B, T, H), or why there is none.
            states: Every layer's output, if they are kept.
            logits: The model's answer; None where the head has not run.
            predict: As for `run`.
        """
        parts, length, vocabulary = self.parts, batch.mask.shape[1], self.task.vocabulary
        if hidden is not None and logits is None and not vocabulary:
            logits = self.head.whole(hidden, batch.inputs)  # (B, C) or (B, T, C)
        everywhere = logits if self.task.per_token and not vocabulary else None
        if logits is not None and not vocabulary:
            check_answer(self.task, logits, type(self.module).__name__)
        positions = self.task.positions(batch, self.tokenizer, logits)
        each = None
        if hidden is not None:
            hidden = self.copy.by_token(hidden, length)  # (B, T, H)
            each = None if vocabulary else self.read(hidden, batch)  # (N, C)
        if hidden is not None and vocabulary and positions is not None:
            rows = torch.arange(len(positions), device=hidden.device)
            logits = self.head.tokens(hidden[rows, positions]) if predict else hidden[:, 0, :0]  # (B, V)
        elif positions is not None and logits is not None:
            logits = at(logits, positions)  # (B, C)
        if logits is None:
            raise HeadMismatchError(f"{type(self.module).__name__} returned no logits")
        final = parts.lacks_head if hidden is None else hidden
        return ForwardPass(batch, final, embedded, states, logits.float(), each, positions, everywhere)

    def check_finite(self, values: FloatArray, batch: Batch) -> None:
        """Refuse scores or logits that are no numbers, on the host, where looking at them waits for nothing.

        Args:
            values: What is to be shown, of any shape.
            batch: What was read.

        Raises:
            UnsupportedModelError: If there is NaN or infinity among them; says at which layer it began.
        """
        if not np.isfinite(values).all() and not is_number(torch.from_numpy(values)):  # -inf may be an excluded answer
            raise non_finite_error(self.module, batch.inputs)

    def read(self, hidden: Tensor, batch: Batch, rows: Tensor | None = None) -> Tensor:
        """Apply the head to every real token: HoT(x_i).

        Args:
            hidden: What the head reads, (B, T, H).
            batch: What was read.
            rows: For vocabulary heads, the wanted entries, (R,).

        Returns:
            (N, C) or (N, R) over the N real tokens, in the order of `batch.mask`.
        """
        head = self.head
        if self.parts.tokenwise:
            return head.tokens(batch.real(hidden), rows).float()  # (N, C)
        return batch.real(head.whole(hidden, batch.inputs)).float()  # (N, C)

    def final(self, run: ForwardPass, layer: int) -> Tensor:
        """Return a layer's output as the head would read it: by the way that the last layer's output takes to the head.

        Args:
            run: A forward pass with layers.
            layer: 1 to L.

        Returns:
            (B, T, H).
        """
        if layer == self.parts.layers:
            return run.hidden
        return self.copy.after(layer, run.states or (), run.batch.inputs, run.batch.mask.shape[1])

    def layer_count(self) -> int:
        """Return L, the number of layers whose output the head can read.

        Raises:
            UnsupportedModelError: If the layers' outputs cannot be brought to the head.
        """
        if self.parts.layers is None:
            _ = self.parts.head  # without one, its error says why
            raise UnsupportedModelError(
                f"the layers of {type(self.module).__name__} cannot be read one by one: no way was found that "
                "brings a layer's output to the head as the last layer's is brought there"
            )
        return self.parts.layers
