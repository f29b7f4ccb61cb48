"""What is explained: the predicted label, a chosen one, a token, a contrast, or all labels."""

import enum
import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeGuard

import numpy as np
import torch
from torch import Tensor

from ..copies.non_finite import mean_logit
from ..copies.run import Replace
from ..errors import TargetError
from ..results.storage.schema import FloatArray
from ..results.targets import Target
from .base import Task
from .interfaces import ForwardInterface, ModelInterface

TEXTS_AT_ONCE = 256
"""Texts whose logits of the whole vocabulary are computed at once."""


class All(enum.Enum):
    """The type of `ALL`."""

    ALL = "all"

    def __repr__(self) -> str:
        return "ALL"


ALL = All.ALL
"""Every label, or every layer."""

Choice = str | SupportsIndex
"""A label name, a token string, or an index (of any integer type)."""

TargetSpec = Choice | Sequence[Choice] | All | None
"""What a caller may ask for: None for the prediction, `ALL` labels, a choice, or several choices."""

Layers = All | SupportsIndex | Sequence[SupportsIndex] | None
"""Which layers: `ALL`, a number from 1, several, or None for the model's answer as it is."""


@dataclass(frozen=True)
class BatchTargets:
    """What is explained of each text of a batch, as indices of outputs.

    Attributes:
        ids: Classes or vocabulary entries explained, (B, K).
        contrast: The entry subtracted, (B,), None without contrast.
        positions: Position of the prediction explained, (B,), or (B, 2) for start and end of an answer; None for
            whole-text heads.
        labelled: Whether results have a label axis.
    """

    ids: Tensor
    contrast: Tensor | None
    positions: Tensor | None
    labelled: bool
    task: Task

    def select(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Return the target's logits, minus the contrast's if there is one: what NormXLogit and LogAt explain.

        Args:
            logits: (N, C).
            texts: Which text of the batch each row belongs to, (N,); None when N is B.

        Returns:
            (N, K).
        """
        ids = self.ids if texts is None else self.ids[texts]  # (N, K)
        chosen = logits.gather(1, ids)  # (N, K)
        if self.contrast is None:
            return chosen
        contrast = self.contrast if texts is None else self.contrast[texts]  # (N,)
        return chosen - logits.gather(1, contrast[:, None])  # (N, K)

    def quantity(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Return what all methods but NormXLogit and LogAt explain: `select`, for language models minus the mean logit.

        A shift of all logits changes no probability, so the logit of a vocabulary entry counts minus its mean over the
        vocabulary (without entries that the head excludes with -inf), unless a contrast is subtracted.

        Args:
            logits: All outputs, (N, C).
            texts: As for `select`.

        Returns:
            (N, K).
        """
        values = self.select(logits, texts)  # (N, K)
        if self.task.vocabulary and self.contrast is None:
            return values - mean_logit(logits)
        return values

    def log_probability(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Return the log-probability of the target, (N, K); with a contrast, that of the target among these two."""
        if self.task.outcomes is None:
            raise TargetError(f"a model for {self.task.purpose} gives no probability of a target")
        values = self.select(logits, texts)  # (N, K)
        if self.task.outcomes == "independent" or self.contrast is not None:
            return torch.nn.functional.logsigmoid(values)
        return values - logits.logsumexp(-1, keepdim=True)

    def measure(
        self,
        model: ModelInterface,
        inputs: Mapping[str, Tensor],
        positions: Tensor | None,
        texts: Tensor,
        replace: Mapping[str, Replace] | None = None,
        log_probability: bool = False,
    ) -> Tensor:
        """Run a model and return `quantity` of its answers; differentiable where gradients are on.

        The arguments are those of `ForwardPass` and `copies.run`; `texts` is which text of the batch each row belongs
        to, (N,). With `log_probability` that is returned instead; both are (N, K).
        """
        quantity_of = BatchTargets.log_probability if log_probability else BatchTargets.quantity
        if not self.task.vocabulary or positions is None or model.parts.trunk is None:
            logits = model.answer(inputs, positions, replace=replace)  # (N, C)
            return quantity_of(self, logits, texts.to(logits.device))
        hidden = model.run_trunk(inputs, replace=replace)  # (N, T, H)
        indices = torch.arange(len(hidden), device=hidden.device)  # (N,)
        hidden, texts = hidden[indices, positions.to(hidden.device)], texts.to(hidden.device)  # (N, H), (N,)
        rows: Tensor | None = None
        target = self
        if self.contrast is not None:  # a difference needs no other logit
            rows, target = self.vocabulary_rows()
        values = []
        for states, texts_of_states in zip(hidden.split(TEXTS_AT_ONCE), texts.split(TEXTS_AT_ONCE), strict=True):
            logits = model.head.tokens(states, rows).float()  # (n, V) or (n, R)
            values.append(quantity_of(target, logits, texts_of_states))
        return torch.cat(values)

    def vocabulary_rows(self) -> tuple[Tensor, "BatchTargets"]:
        """Return the vocabulary rows that `select` needs, (R,), and this target with its ids counted in them."""
        parts = [self.ids.flatten()] + ([] if self.contrast is None else [self.contrast])
        rows, indices = torch.cat(parts).unique(return_inverse=True)
        count = self.ids.numel()
        ids = indices[:count].view_as(self.ids)
        contrast = None if self.contrast is None else indices[count:]
        return rows, BatchTargets(ids, contrast, self.positions, self.labelled, self.task)


def output_count(model: ModelInterface) -> int:
    """Return how many outputs a target can be: labels, or entries of the vocabulary."""
    return model.vocabulary_size if model.task.vocabulary else len(model.task.labels)


def check_target(
    model: ModelInterface, spec: TargetSpec, contrast: Choice | None, choice_by_text: Sequence[Choice] | None = None
) -> None:
    """Refuse targets that no text can have, before any text is read."""
    count = output_count(model)
    model.task.check_contrast(contrast)
    indices = [index_of(model, choice, count) for choice in choice_by_text or ()]
    if spec is not None:
        chosen, _ = _choices(model, spec, count)
        indices += [] if isinstance(spec, All) else chosen
    if contrast is not None and index_of(model, contrast, count) in indices:
        raise TargetError(
            f"the target {contrast!r} is also the contrast, and their difference is zero at every token: give another "
            "target or another contrast"
        )


def contrast_note(ids: Sequence[int], contrast: int | None, name: str | None) -> tuple[str, ...]:
    """Return a note if what is explained, such as the prediction, is the contrast itself, () otherwise."""
    is_contrast = contrast is not None and contrast in ids
    return (f"{name!r} is both target and contrast: their difference is zero at every token",) if is_contrast else ()


def resolve(
    model: ModelInterface,
    run: ForwardInterface,
    spec: TargetSpec = None,
    contrast: Choice | None = None,
    choice_by_text: Sequence[Choice] | None = None,
) -> BatchTargets:
    """Return the caller's target as indices of outputs.

    Args:
        model: The model.
        run: Its forward pass, for the prediction.
        spec: See `TargetSpec`.
        contrast: A choice to subtract.
        choice_by_text: One choice for each text of the batch instead of `spec`.

    Raises:
        TargetError: If a label or token does not exist, is ambiguous, or cannot be explained by this model.
    """
    task, outputs = model.task, run.logits.shape[-1]
    task.check_contrast(contrast)
    if choice_by_text is not None:
        rows = [[index_of(model, choice, outputs)] for choice in choice_by_text]
        ids, labelled = torch.tensor(rows, device=run.logits.device), False  # (B, 1)
    elif spec is None:
        ids, labelled = task.default_target(run.logits), False  # (B, 1)
    else:
        chosen, labelled = _choices(model, spec, outputs)
        ids = torch.tensor([chosen], device=run.logits.device).expand(len(run.logits), -1)  # (B, K)
    contrast_ids = None
    if contrast is not None:
        contrast_ids = torch.full((len(ids),), index_of(model, contrast, outputs), device=ids.device)  # (B,)
    return BatchTargets(ids, contrast_ids, run.positions, labelled, task)


def _choices(model: ModelInterface, spec: TargetSpec, outputs: int) -> tuple[list[int], bool]:
    """Return the outputs of the caller's target, and whether results have a label axis for them."""
    if isinstance(spec, All):
        if model.task.vocabulary:
            raise TargetError("ALL would be the whole vocabulary; name the tokens you want instead")
        return list(range(outputs)), True
    if is_choice(spec):
        return [index_of(model, spec, outputs)], False
    if not isinstance(spec, Sequence) or isinstance(spec, bytes):
        advice = "; targets= takes one for each text" if isinstance(spec, Iterable) else _as_integer(spec)
        kind = type(spec).__name__
        raise TargetError(f"a target is a name or an index, several of them, ALL or None, not {kind}{advice}")
    if not spec:
        raise TargetError("the list of targets is empty")
    return [index_of(model, choice, outputs) for choice in spec], True


def is_choice(value: object) -> TypeGuard[Choice]:
    """Return whether a value is one choice: a name, or an index of any integer type."""
    if isinstance(value, str):
        return True
    if isinstance(value, bool | np.bool_):
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]
    except (TypeError, RuntimeError):  # tensors of several elements, of floats, or without data
        return False
    return True


def _place_of(output_id: int, places: Sequence[int]) -> int | None:
    """Return where an output is read: the start and the end of a span, outputs 0 and 1, each at a place of its own."""
    if not places:
        return None
    return places[output_id] if len(places) > 1 else places[0]


def describe_targets(
    model: ModelInterface, target: BatchTargets, ids: FloatArray, contrast: FloatArray | None, places: FloatArray | None
) -> list[tuple[Target, ...]]:
    """Return the target information for the results of the texts of a batch.

    Args:
        model: The model.
        target: What is explained.
        ids: `target.ids`, (B, K), on the host.
        contrast: `target.contrast`, (B,), on the host.
        places: The positions explained, counted in each text's own tokens, (B,) or (B, 2), on the host.
    """
    ids_by_text = ids.astype(int).tolist()
    names = {output_id: name_of(model, output_id) for text_ids in ids_by_text for output_id in text_ids}
    contrast_id = None if contrast is None else int(contrast[0])
    contrast_name = None if contrast_id is None else name_of(model, contrast_id)
    kind = target.task.target_kind
    by_text = []
    for text, text_ids in enumerate(ids_by_text):
        text_places = [] if places is None else places[text].astype(int).reshape(-1).tolist()
        by_text.append(
            tuple(Target(kind, names[i], i, contrast_name, contrast_id, _place_of(i, text_places)) for i in text_ids)
        )
    return by_text


def name_of(model: ModelInterface, index: int) -> str:
    """Return the name of an output of the model's head."""
    return model.task.output_name(index)


def index_of(model: ModelInterface, choice: Choice, count: int) -> int:
    """Return the index of the output of the model's head that a caller means."""
    if not is_choice(choice):
        raise TargetError(f"a target is a name or an index, not {type(choice).__name__}{_as_integer(choice)}")
    index = model.task.output_index(choice) if isinstance(choice, str) else operator.index(choice)
    if not 0 <= index < count:
        raise TargetError(f"index {index} is outside the model's {count} outputs, which are counted from 0")
    return index


def _as_integer(choice: object) -> str:
    """Return what to pass for an index that is a float, as a column with missing values has it."""
    return f": pass int({choice})" if isinstance(choice, float) and choice.is_integer() else ""


def choice_from_text(model: ModelInterface, text: str) -> Choice:
    """Return a choice that was typed: a name where there is one, otherwise an index if it is a string of digits."""
    try:
        index_of(model, text, sys.maxsize)
    except TargetError:
        return int(text) if text.isdecimal() and text.isascii() else text
    return text


def typed_targets(
    model: ModelInterface, targets: Sequence[str], contrast: str | None, *, all_labels: bool = False
) -> dict[str, Any]:
    """Return targets that were typed as keywords of `Explainer`; see `choice_from_text`.

    Args:
        model: The model.
        targets: The targets; none for the prediction.
        contrast: What is subtracted; empty for none.
        all_labels: Whether every label is explained instead.
    """

    def parse(text: str) -> Choice:
        return text if model.task.compares else choice_from_text(model, text)

    options: dict[str, Any] = {}
    if all_labels:
        options["target"] = ALL
    elif targets:
        options["target"] = parse(targets[0]) if len(targets) == 1 else [parse(text) for text in targets]
    if contrast and contrast.strip():
        options["contrast"] = parse(contrast)
    return options
