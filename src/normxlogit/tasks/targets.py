"""Targets, the explained outputs: the predicted label, a chosen one, a token, a contrast, or all labels."""

import enum
import operator
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeGuard

import torch
from torch import Tensor

from ..copies.arithmetic import log_normaliser, mean_logit
from ..errors import TargetError
from ..inputs.texts import whole_number
from ..results.storage.schema import FloatArray, Strings
from ..results.targets import OutputQuantity, Target
from .base import Task

if TYPE_CHECKING:
    from ..model.forward_pass import ForwardPass


class All(enum.Enum):
    """The type of `ALL`."""

    ALL = "all"

    def __repr__(self) -> str:
        return "ALL"


ALL = All.ALL
"""All labels as targets, or all layers."""

Choice = str | SupportsIndex
"""A label name, a token string, or an index (of any integer type)."""

TargetSpec = Choice | Sequence[Choice] | All | None
"""What a caller may ask for: None for the prediction, `ALL` labels, a choice, or several choices."""

Layers = All | SupportsIndex | Sequence[SupportsIndex] | None
"""Which layers: `ALL`, a number from 1, several, or None for the model's answer as it is."""

Place = int | str | tuple[int, int]
"""A token's index (negative from the end), a piece of the text, or a span of characters."""

Position = Place | Sequence[Place | None] | All | None
"""One place for all inputs, or a list with one for each; `ALL` for every place; None for the task's default."""


@dataclass(frozen=True)
class BatchTargets:
    """The explained outputs of each text of a batch, as indices.

    Attributes:
        ids: Classes or vocabulary entries explained, (B, K).
        contrast: The entry subtracted, (B,), None without contrast.
        positions: Position of the prediction explained, (B,), or (B, 2) for start and end of an answer; None for
            whole-text heads.
        has_target_axis: Whether results have an axis of targets, as of a list of targets; without it K is 1.
        task: The task of the model, which says what its outputs are.
        explained: What of these outputs `quantity` returns: their logits, or their log-probabilities.
    """

    ids: Tensor
    contrast: Tensor | None
    positions: Tensor | None
    has_target_axis: bool
    task: Task
    explained: OutputQuantity = field(default="logit", kw_only=True)

    def select(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Return the logits of the targets minus that of the contrast, (N, K): what NormXLogit and LogAt explain.

        Args:
            logits: All outputs, (N, C), of N texts or tokens.
            texts: Which text of the batch each row belongs to, (N,); None when N is B.
        """
        ids = self.ids if texts is None else self.ids[texts]  # (N, K)
        target_logits = logits.gather(1, ids)  # (N, K)
        if self.contrast is None:
            return target_logits
        contrast = self.contrast if texts is None else self.contrast[texts]  # (N,)
        return target_logits - logits.gather(1, contrast[:, None])  # (N, K)

    def quantity(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Return what methods other than NormXLogit and LogAt explain, (N, K), of all outputs, (N, C).

        A shift of all logits changes no probability, so the logit of a vocabulary entry counts minus its mean over the
        vocabulary (without entries that the head excludes with -inf), unless a contrast is subtracted. Where
        log-probabilities are explained, it counts minus the normaliser; with a contrast they are those among the two
        alone.

        Args:
            logits: All outputs, (N, C).
            texts: Which text of the batch each row belongs to, (N,); None when N is B.
        """
        values = self.select(logits, texts)  # (N, K)
        if self.explained == "log-probability":
            return self._log_probabilities(values, logits)
        if self.task.outputs.vocabulary and self.contrast is None:
            return values - mean_logit(logits)
        return values

    def _log_probabilities(self, values: Tensor, logits: Tensor) -> Tensor:
        """Return the log-probabilities of targets, (N, K).

        Args:
            values: Their logits minus that of the contrast, if there is one, (N, K).
            logits: All outputs, (N, C).
        """
        if self.task.outputs.outcomes is None:
            raise TargetError(f"a model for {self.task.name} gives no probability of a target")
        # The sigmoid of a difference of two logits is the softmax over the two.
        if self.task.outputs.outcomes == "independent" or self.contrast is not None:
            return torch.nn.functional.logsigmoid(values)
        return values - log_normaliser(logits)

    def vocabulary_rows(self) -> tuple[Tensor, "BatchTargets"]:
        """Return the vocabulary entries that `select` needs, (R,), and this target with its ids counted among them.

        A head then computes R logits of a hidden state, and not those of the whole vocabulary.
        """
        target_ids = self.ids.flatten()  # (B * K,)
        all_ids = target_ids if self.contrast is None else torch.cat([target_ids, self.contrast])
        rows, indices = all_ids.unique(return_inverse=True)
        count = len(target_ids)  # the indices of contrasts follow those of targets
        ids = indices[:count].view_as(self.ids)
        contrast = None if self.contrast is None else indices[count:]
        return rows, replace(self, ids=ids, contrast=contrast)


def check_target(
    task: Task,
    output_count: int,
    spec: TargetSpec,
    contrast: Choice | None,
    choice_by_text: Sequence[Choice] | None = None,
) -> None:
    """Refuse targets that are invalid for every text, before any forward pass.

    Args:
        task: The task.
        output_count: How many outputs the model has.
        spec: The target for all texts; None for the prediction.
        contrast: The output that is subtracted; None for none.
        choice_by_text: A target for each text, instead of `spec`.

    Raises:
        TargetError: If there is no such output, or the target is the contrast itself.
    """
    task.outputs.check_contrast(contrast)
    indices = list[int]()
    for place, choice in enumerate(choice_by_text or ()):
        try:
            indices.append(index_of(task, choice, output_count))
        except TargetError as error:  # noqa: PERF203  # it says which one
            raise TargetError(f"targets[{place}]: {error}") from None
    if spec is not None:
        choices, _ = _choices(task, spec, output_count)  # raises the errors
        if not isinstance(spec, All):  # the contrast may be one of all labels, whose scores are then zero
            indices += choices
    if contrast is not None and index_of(task, contrast, output_count) in indices:
        raise TargetError(
            f"the target {contrast!r} is also the contrast, and their difference is zero at every token: give another "
            "target or another contrast"
        )


def contrast_note(targets: Sequence[Target]) -> Strings:
    """Return a note if one of the targets of a text is the contrast itself, so that its scores are zero; or ()."""
    name = targets[0].contrast
    contrast_id = targets[0].contrast_id
    if contrast_id is None or all(target.id != contrast_id for target in targets):
        return ()
    return (f"{name!r} is both target and contrast: their difference is zero at every token",)


def resolve(
    task: Task,
    run: "ForwardPass",
    spec: TargetSpec = None,
    contrast: Choice | None = None,
    choice_by_text: Sequence[Choice] | None = None,
) -> BatchTargets:
    """Resolve the caller's target and contrast to indices of outputs.

    Args:
        task: The task.
        run: A forward pass over B texts, which says what they are predicted to be.
        spec: The target for all texts; None for the prediction.
        contrast: The output that is subtracted; None for none.
        choice_by_text: A target for each text, instead of `spec`.

    Returns:
        K outputs of each text, and where they are read.

    Raises:
        TargetError: If there is no such output.
    """
    output_count = run.logits.shape[-1]
    task.outputs.check_contrast(contrast)
    has_target_axis = False
    if choice_by_text is not None:
        rows = [[index_of(task, choice, output_count)] for choice in choice_by_text]
        ids = torch.tensor(rows, device=run.logits.device)  # (B, 1)
    elif spec is None:
        ids = task.outputs.default_target(run.logits)  # (B, 1)
    else:
        choices, has_target_axis = _choices(task, spec, output_count)
        ids = torch.tensor([choices], device=run.logits.device).expand(len(run.logits), -1)  # (B, K)
    contrast_ids = None
    if contrast is not None:
        contrast_ids = torch.full((len(ids),), index_of(task, contrast, output_count), device=ids.device)  # (B,)
    return BatchTargets(ids, contrast_ids, run.positions, has_target_axis, task)


def _choices(task: Task, spec: TargetSpec, output_count: int) -> tuple[list[int], bool]:
    """Return the indices of the outputs that a target names, and whether results have an axis of targets for them."""
    if isinstance(spec, All):
        if task.outputs.vocabulary:
            raise TargetError("ALL would be the whole vocabulary; name the tokens you want instead")
        return list(range(output_count)), True
    if is_choice(spec):
        return [index_of(task, spec, output_count)], False
    if not isinstance(spec, Sequence) or isinstance(spec, bytes):  # each byte would be an index
        advice = "; targets= takes one for each text" if isinstance(spec, Iterable) else ""
        kind = type(spec).__name__
        raise TargetError(f"a target is a name or an index, several of them, ALL or None, not {kind}{advice}")
    if not spec:
        raise TargetError("the list of targets is empty")
    return [index_of(task, choice, output_count) for choice in spec], True


def is_choice(value: object) -> TypeGuard[Choice]:
    """Return whether a value is one choice: a name, or an index of any integer type."""
    return isinstance(value, str) or whole_number(value) is not None


def describe_targets(
    target: BatchTargets, ids: FloatArray, contrast: FloatArray | None, places: FloatArray | None
) -> list[tuple[Target, ...]]:
    """Return the targets of each of B texts as results have them.

    The indices are given as the numbers that came from the device with the scores, which are floats.

    Args:
        target: The targets, which know the task.
        ids: The explained outputs, (B, K).
        contrast: The output that is subtracted, the same for all texts, (B,); None for none.
        places: The token at which the outputs are read, counted in each text's own tokens, (B,); or one for each of
            two outputs, (B, 2); None for the text as a whole.
    """
    outputs = target.task.outputs
    ids_by_text = ids.astype(int).tolist()
    names = {output_id: outputs.name_of(output_id) for text_ids in ids_by_text for output_id in text_ids}
    contrast_id = None if contrast is None else int(contrast[0])
    contrast_name = None if contrast_id is None else outputs.name_of(contrast_id)
    targets_by_text = []
    for text, text_ids in enumerate(ids_by_text):
        tokens = [None] if places is None else places[text].astype(int).reshape(-1).tolist()  # one, or two of a span
        has_token_per_output = len(tokens) > 1  # of a span, whose output 0 is its start and 1 its end
        targets = []
        for output_id in text_ids:
            token = tokens[output_id if has_token_per_output else 0]
            targets.append(Target(outputs.kind, names[output_id], output_id, contrast_name, contrast_id, token))
        targets_by_text.append(tuple(targets))
    return targets_by_text


def index_of(task: Task, choice: Choice, count: int) -> int:
    """Return the index of the output that a caller names.

    Args:
        task: The task, which knows the names.
        choice: A label, a token or an index.
        count: How many outputs there are.

    Raises:
        TargetError: If there is no such output, or several have the name.
    """
    if not is_choice(choice):
        raise TargetError(f"a target is a name or an index, not {choice!r} of type {type(choice).__name__}")
    index = task.outputs.index_of(choice) if isinstance(choice, str) else operator.index(choice)
    if not 0 <= index < count:
        raise TargetError(f"index {index} is outside the model's {count} outputs, which are counted from 0")
    return index


def choice_from_text(task: Task, text: str) -> Choice:
    """Return the choice that a user typed: a label or a token if one is called so, otherwise digits as an index.

    Args:
        task: The task, which knows the names.
        text: What was typed.
    """
    try:
        index_of(task, text, sys.maxsize)  # for any number of outputs
    except TargetError:
        return int(text) if text.isdecimal() and text.isascii() else text  # a text gets the error where it is resolved
    return text


def typed_targets(
    task: Task, targets: Sequence[str], contrast: str | None, *, all_labels: bool = False
) -> dict[str, Any]:
    """Return what a user typed as keyword arguments of `Explainer`.

    Args:
        task: The task, which knows the names.
        targets: What was typed as targets, see `choice_from_text`; empty for the prediction.
        contrast: What was typed as the contrast; None or empty for none.
        all_labels: Whether all labels are targets instead.
    """
    options: dict[str, Any] = {}
    if all_labels:
        options["target"] = ALL
    elif targets:
        choices = [choice_from_text(task, text) for text in targets]
        options["target"] = choices[0] if len(choices) == 1 else choices
    if contrast and contrast.strip():  # an empty field of a page is no contrast
        options["contrast"] = choice_from_text(task, contrast)
    return options
