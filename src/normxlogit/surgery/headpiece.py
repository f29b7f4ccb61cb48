"""The head-on-top as a callable, found by trial and kept only when proved.

A *headpiece* is a copy of the model's structure whose trunk is replaced by a pass-through: calling it runs the head's
own code, with its scaling, capping, biases and adapters, on whatever hidden states it is given.
"""

import functools
import threading
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..errors import UnsupportedModelError
from .autocast import without_autocast
from .clone import instead_of, replaced, shallow_copy
from .memory import refuse_to_hide
from .trace import hand_back

__all__ = ["Headpiece", "answer_of"]

Inputs = Mapping[str, Any]

TOKENS_AT_ONCE = 65_536
"""Vocabulary logits computed at once where the rows cannot be cut out of the output embedding, in thousands."""

ROWS_AT_ONCE = 4096
"""Rows of the output embedding that the proof takes out of it at once."""


def answer_of(output: Any) -> Tensor | None:
    """Return the logits of a task model's output; start and end logits side by side, (B, T, 2); None if none."""
    logits = output.get("logits")
    if logits is None and output.get("start_logits") is not None and output.get("end_logits") is not None:
        logits = torch.stack((output["start_logits"], output["end_logits"]), -1)  # (B, T, 2)
    return logits if isinstance(logits, Tensor) else None


class _PassThrough:
    """The forward of what stands where the trunk stood: returns the states that the current thread put into it."""

    def __init__(self, output: Any, pooler: nn.Module | None) -> None:
        self.kind = type(output)
        self.length = len(output) if isinstance(output, tuple | list) else 1
        self.pooled = isinstance(output, ModelOutput) and output.get("pooler_output") is not None
        self.pooler = pooler
        self.held = threading.local()

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Give back the held states in the form of the trunk's own output."""
        hidden = self.held.hidden
        if issubclass(self.kind, Tensor):
            return hidden
        if not issubclass(self.kind, ModelOutput):
            return (hidden, *[None] * (self.length - 1))
        output = self.kind(last_hidden_state=hidden)
        if self.pooled and self.pooler is not None:
            output["pooler_output"] = self.pooler(hidden)
        return output


class _WantedRows(nn.Module):
    """An output embedding that computes only the rows that the current thread asks for."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding  # asked at each call: a parametrised weight is made anew each time
        self.held = threading.local()

    @property
    def weight(self) -> Tensor:
        """The whole table, for models that ask for its type or device."""
        return self.embedding.weight  # type: ignore[return-value]

    def forward(self, hidden: Tensor) -> Tensor:
        """Project on the wanted rows."""
        rows = self.held.rows  # (R,)
        bias = getattr(self.embedding, "bias", None)
        bias = None if bias is None else bias[rows]
        return nn.functional.linear(hidden, self.weight[rows], bias)  # (..., R)


class Headpiece:
    """The head of a model, given a guess where its trunk is.

    Args:
        model: A structural clone of the model (see `clone`).
        trunk: Path of the trunk inside it.
        output: What the trunk returned in a trial, for its form.
        skipped: Paths of the layers where the trunk does not hold them, with what each returned: they hand on what
            they are given, for the head does not need them.
        filler: A token id that is neither padding nor absent from the vocabulary: heads that look for the last real
            token or the end-of-sequence token find it in every one-token sequence.
        time_first: Whether the trunk gives (T, B, H).
    """

    def __init__(
        self,
        model: PreTrainedModel,
        trunk: str,
        output: Any,
        filler: int,
        skipped: Mapping[str, Any] | None = None,
        *,
        time_first: bool = False,
    ) -> None:
        self.trunk = trunk
        self.time_first = time_first
        self.filler = filler
        self.copies = 1  # how often a token stands in its sequence of one: heads may pool two places
        module = shallow_copy(model.get_submodule(trunk))  # heads also read a trunk's attributes, such as a scale
        self._through = _PassThrough(output, getattr(module, "pooler", None))
        module.__dict__["forward"] = self._through
        made: nn.Module = model
        for path, form in (skipped or {}).items():
            if path != trunk and not path.startswith(f"{trunk}."):
                made = replaced(made, path, instead_of(made.get_submodule(path), functools.partial(hand_back, form)))
        self._model = replaced(made, trunk, module)
        self._by_ids = True
        self._rows: _WantedRows | None = None
        self._row_model: nn.Module | None = None
        self._cut_out_rows(model)

    def _cut_out_rows(self, model: PreTrainedModel) -> None:
        embedding = model.get_output_embeddings()
        weight = getattr(embedding, "weight", None)
        if embedding is None or not isinstance(weight, Tensor) or weight.ndim != 2:
            return
        if embedding._forward_hooks or embedding._forward_pre_hooks:
            return  # they see the whole vocabulary, and may change single entries of it
        path = next((name for name, module in self._model.named_modules() if module is embedding), None)
        if path is not None:
            self._rows = _WantedRows(embedding)
            self._row_model = replaced(self._model, path, self._rows)

    def by_text(self, hidden: Tensor) -> Tensor:
        """Return what the trunk gives as (B, T, H); the same turns it back."""
        return hidden.transpose(0, 1) if self.time_first else hidden

    def whole(self, hidden: Tensor, inputs: Inputs) -> Tensor:
        """Apply the head to whole sequences: what the model itself would answer.

        Args:
            hidden: The trunk's output, (B, T, H).
            inputs: The model's inputs.

        Returns:
            The model's logits.
        """
        return self._call(self._model, hidden, inputs)

    def tokens(self, hidden: Tensor, rows: Tensor | None = None) -> Tensor:
        """Apply the head to each token as a sequence of its own.

        Args:
            hidden: Final representations, (N, H).
            rows: Vocabulary rows to compute, (R,); None for all of the head's outputs.

        Returns:
            (N, C) logits, (N, R) for chosen rows.
        """
        if rows is None:
            return self._fold(self._model, hidden)
        if self._rows is None or self._row_model is None:
            return self._columns(hidden, rows)
        self._rows.held.rows = rows
        try:
            return self._fold(self._row_model, hidden)  # (N, R)
        finally:
            del self._rows.held.rows

    def prove_rows(self, hidden: Tensor, logits: Tensor, tolerance: float) -> None:
        """Compare chosen rows with the full logits; fall back to slicing those where they differ.

        Args:
            hidden: (N, H).
            logits: The model's own logits for them, (N, V).
            tolerance: Largest allowed difference.
        """
        size = logits.shape[-1]
        # Every row at one token, in an order in which what is done to an entry of the vocabulary by its index is seen.
        parts = torch.arange(size - 1, -1, -1, device=hidden.device).split(ROWS_AT_ONCE)
        several = torch.linspace(0, size - 1, 7, dtype=torch.float64, device=hidden.device).long()
        try:
            proved = self._rows_agree(hidden, logits, several, tolerance) and all(
                self._rows_agree(hidden[-1:], logits[-1:], rows, tolerance) for rows in parts
            )
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
            refuse_to_hide(error)
            proved = False
        if not proved:
            self._rows = self._row_model = None

    def _rows_agree(self, hidden: Tensor, logits: Tensor, rows: Tensor, tolerance: float) -> bool:
        found = self.tokens(hidden, rows)  # (N, R)
        wanted = logits[:, rows]  # (N, R)
        return found.shape == wanted.shape and bool((found - wanted).abs().max() <= tolerance)

    def _columns(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """Return chosen columns of the full logits, computed in pieces that bound the memory."""
        width = self._fold(self._model, hidden[:1]).shape[-1]
        step = max(1, TOKENS_AT_ONCE * 1000 // width)
        return torch.cat([self._fold(self._model, part)[:, rows] for part in hidden.split(step)])

    def _fold(self, model: nn.Module, hidden: Tensor) -> Tensor:
        count = len(hidden)
        alone = hidden[:, None].expand(-1, self.copies, -1)  # (N, 1, H)
        mask = hidden.new_ones((count, 1), dtype=torch.long)
        inputs = {"input_ids": mask * self.filler} if self._by_ids else {"inputs_embeds": alone}
        logits = self._call(model, alone, inputs | {"attention_mask": mask})
        return logits.reshape(count, -1)  # (N, C)

    def prove_tokens(self, hidden: Tensor) -> Tensor:
        """Call the head on each token; where it stumbles over a text of one token id, give it none.

        Args:
            hidden: (N, H).

        Returns:
            (N, C) logits.
        """
        try:
            return self.tokens(hidden)
        except Exception as error:  # some heads search the ids, as Longformer's does for three separators
            refuse_to_hide(error)
            self._by_ids = False
            return self.tokens(hidden)

    def _call(self, model: nn.Module, hidden: Tensor, inputs: Inputs) -> Tensor:
        self._through.held.hidden = self.by_text(hidden)
        try:
            with without_autocast(inputs):
                logits = answer_of(model(**inputs))
        finally:
            del self._through.held.hidden
        if logits is None:
            raise UnsupportedModelError(f"{type(self._model).__name__} returns no logits")
        return logits
