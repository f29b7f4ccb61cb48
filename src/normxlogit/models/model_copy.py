"""What is made of the caller's model at one moment: copies of its structure, and the parts found in them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..surgery.clone import clone, is_wrapped, one_choice_each, unwrapped
from ..surgery.isolated import Isolated
from ..surgery.layer_to_head import TrunkDone
from ..surgery.parts import Parts
from ..surgery.plain_module import as_task_model
from ..surgery.recorders import know_recorders
from ..surgery.same_answer import mixes_by_rounding
from ..surgery.snapshot import Snapshot
from ..surgery.trace import tensor_of
from .embeddings import WordEmbeddings
from .padding import NO_ID
from .proved_lengths import ProvedLengths
from .tasks import Task, answering

__all__ = ["ModelCopy", "Pinned"]


class _Seen(threading.local):
    """What the hooks of the current thread's forward pass saw."""

    active = False
    stop: bool
    at_embedding: bool
    trunk: Any = None
    embedded: Tensor | None = None


class ModelCopy:
    """Structural copies of one model, made together; weights are the caller's own.

    Everything that is learned about a model is kept here, so that it is forgotten together when the model changed.

    Args:
        given: The caller's model; only read.
        watched: What is to be copied anew when it changes, if that is more than the model.

    Attributes:
        reference: A copy that nothing was changed on: it answers as the caller's model does.
        asked: What the caller asks: a copy of an adapter with the model in it, otherwise `reference`.
        module: The copy that is explained, with the hooks.
        call: Runs `module`; nothing that a pass writes on its modules is left behind.
        adapted: Whether something was changed on `module` that could change its answer: it must be compared with that
            of `asked`.
        outputs: How many numbers a plain module answers with; None for transformers models, whose settings say so.
        parts: What was found in `module`; None before the first batch.
        padding: Lengths of texts that keep their states in one batch, padded.
        writes_padded: Lengths of prompts, and of what is generated, that are continued in one batch as alone, padded.
        writes_together: The same of prompts of one length.
        causal: Lengths of texts whose later tokens leave the states of earlier ones alone.
    """

    def __init__(self, given: nn.Module, watched: nn.Module | None = None) -> None:
        # First: a change while the copy is made must show.
        self._given = Snapshot(given if watched is None else watched)
        plain = unwrapped(given)
        know_recorders(plain)
        self.reference = cast(PreTrainedModel, clone(plain))
        self.asked = clone(given) if is_wrapped(given) else self.reference
        self.module = cast(PreTrainedModel, clone(plain))
        self.adapted = self.asked is not self.reference
        self.outputs: int | None = None
        self.call = Isolated(self.module)
        self.parts: Parts | None = None
        self.padding = ProvedLengths()
        self.writes_padded = ProvedLengths()
        self.writes_together = ProvedLengths()
        self.causal = ProvedLengths()
        self._seen = _Seen()
        self.lock = threading.RLock()

    @property
    def current(self) -> bool:
        """Whether the caller's model is still what was copied."""
        return self._given.unchanged()

    @cached_property
    def mixes_texts(self) -> bool:
        """Whether activations are quantised by the largest of a batch, so that texts change each other's answers."""
        return mixes_by_rounding(self.module)

    @cached_property
    def record(self) -> Isolated:
        """What is called for layers: transformers leaves hooks on such a model, which would slow every other pass."""
        return Isolated(clone(self.module))

    @cached_property
    def embeddings(self) -> WordEmbeddings:
        """The word embeddings of `module`.

        Raises:
            UnsupportedModelError: If the model has no table of them.
        """
        with self.lock:  # each puts a hook on the module
            return self.__dict__.get("embeddings") or WordEmbeddings(self.module)

    def adapt(self, task: Task) -> Task:
        """Let `module` be called like any other task model, with token ids of (B, T).

        Returns:
            The task, with the labels of a model that could not say how many it has before it was called.
        """
        module = self.module
        if not isinstance(module, PreTrainedModel):
            device = next((p.device for p in module.parameters()), torch.device("cpu"))
            logits = as_task_model(module, torch.tensor([[0, 1, 1]], device=device))  # (1, C) or (1, 3, C)
            self.outputs = logits.shape[-1]
            return answering(task, logits, type(module).__name__)
        config = module.config.get_text_config()
        if task.kind == "choice":
            self.adapted = True
            one_choice_each(module)
        if not task.per_token and getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = NO_ID  # heads that pool by it refuse two texts without; no text holds this one
            self.adapted = True
        return task

    def publish(self, parts: Parts) -> None:
        """Install the hooks, and then let the parts be seen: no thread finds the one without the other."""
        record = self._seen

        def after_trunk(_: nn.Module, __: Any, output: Any) -> None:
            if record.active:
                record.trunk = output
                if record.stop:
                    raise TrunkDone

        def passing(value: Any) -> None:
            if record.active and record.embedded is None:
                record.embedded = tensor_of(value)
                if record.at_embedding:
                    raise TrunkDone

        if parts.trunk is not None:
            self.module.get_submodule(parts.trunk).register_forward_hook(after_trunk)
        if parts.embedding_tap is not None:
            parts.embedding_tap.listen(self.module, passing)
        self.parts = parts

    @contextmanager
    def recording(self, *, stop: bool, at_embedding: bool = False) -> Iterator[_Seen]:
        """Let the hooks note what passes by in this thread and this block.

        Args:
            stop: End the pass after the trunk.
            at_embedding: End it where the embedding layer's output passes by.
        """
        record = self._seen
        record.active, record.stop, record.at_embedding = True, stop, at_embedding
        record.trunk = record.embedded = None
        try:
            yield record
        except TrunkDone:
            pass
        finally:
            record.active = False


class Pinned(threading.local):
    """The copies that the current thread's call began with; None before the first call."""

    copy: ModelCopy | None = None
