"""Which question a model answers, and where in the text the answer stands."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto import modeling_auto as auto

from ..errors import TargetError, UnsupportedModelError
from .encoding import Batch

__all__ = ["TASKS", "Task", "TaskName", "causal", "no_head", "task_name", "task_of"]

TaskName = Literal["sequence-classification", "masked-lm", "causal-lm"]

TASKS: dict[TaskName, tuple[str, str]] = {
    "sequence-classification": ("MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", "ForSequenceClassification"),
    "masked-lm": ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "ForMaskedLM"),
    "causal-lm": ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "ForCausalLM"),
}
"""Task name to transformers' mapping of its models and the usual ending of their class names."""


@dataclass(frozen=True)
class Task:
    """What a model is for.

    Attributes:
        name: Its name in transformers' terms.
        kind: What its outputs are: one of several labels, several labels at once, a value, or a token.
        labels: Label names by class index; empty for language models.
    """

    name: TaskName
    kind: Literal["single-label", "multi-label", "regression", "token"]
    labels: tuple[str, ...]

    @property
    def vocabulary(self) -> bool:
        """Whether the head's outputs are the vocabulary."""
        return self.kind == "token"

    def positions(self, batch: Batch, tokenizer: PreTrainedTokenizerBase) -> Tensor | None:
        """The position whose prediction is explained: the mask, or the last token; None for whole-text heads.

        Returns:
            (B,) or None.

        Raises:
            TargetError: If a text has no mask token, or several.
        """
        if self.name == "sequence-classification":
            return None
        places = torch.arange(batch.mask.shape[1], device=batch.mask.device)
        if self.name == "causal-lm":
            last: Tensor = (batch.mask * places).argmax(-1)  # (B,)
            return last
        if tokenizer.mask_token_id is None:
            raise TargetError("the tokenizer has no mask token, so there is no position to explain")
        masked = (batch.inputs["input_ids"] == tokenizer.mask_token_id) & batch.mask  # (B, T)
        counts = masked.sum(-1).tolist()
        for index, count in zip(batch.indices, counts, strict=True):
            if count != 1:
                amount = f"{count} times" if count else "nowhere"
                raise TargetError(
                    f"input {index} must hold the mask token {tokenizer.mask_token} once; it stands there {amount}"
                )
        place: Tensor = masked.int().argmax(-1)  # (B,)
        return place


def causal(config: PretrainedConfig) -> bool:
    """Whether a configuration is of a family that transformers knows as causal and not as masked language models."""
    kind = config.model_type
    known = kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return known or bool(getattr(config, "is_decoder", False))


def task_of(model: PreTrainedModel) -> Task:
    """Tell the task of a loaded model by its class.

    Raises:
        UnsupportedModelError: If the model has no head, or one for another task.
    """
    name = type(model).__name__
    config = model.config
    # A user's subclass of a known model is still that model.
    task = next((found for kind in type(model).__mro__ if (found := task_name(kind.__name__))), None)
    if task is None:
        raise UnsupportedModelError(f"{name} {no_head(name)}")
    if task != "sequence-classification":
        return Task(task, "token", ())
    names = {int(index): label for index, label in (config.id2label or {}).items()}
    count = len(names)
    kind: Literal["single-label", "multi-label", "regression"] = "single-label"
    if config.problem_type == "regression" or (config.problem_type is None and count == 1):
        kind = "regression"
    elif config.problem_type == "multi_label_classification":
        kind = "multi-label"
    return Task(task, kind, tuple(names[i] for i in range(count)))


def task_name(class_name: str) -> TaskName | None:
    """The task of a model class by its name, None if it has none of the supported heads."""
    for task, (mapping, _) in TASKS.items():
        if class_name in getattr(auto, mapping).values():
            return task
    for task, (_, ending) in TASKS.items():
        if class_name.endswith(ending):
            return task
    return "causal-lm" if class_name.endswith("LMHeadModel") else None


def no_head(class_name: str) -> str:
    """Why a class without a supported head cannot be explained, and what to load instead."""
    if class_name.endswith("Model"):
        stem = class_name.removesuffix("Model")
        return (
            f"is a bare encoder: it has no head whose answer could be explained. Load a fine-tuned checkpoint with "
            f"one, such as {stem}ForSequenceClassification"
        )
    return f"has no head of a supported kind ({', '.join(TASKS)})"
