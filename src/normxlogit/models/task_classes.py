"""Which tasks the model classes of transformers have."""

from typing import Literal, get_args

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto as auto

__all__ = ["NAMES", "TASKS", "TaskName", "causal", "declared_tasks", "is_bare", "no_head", "task_name"]

TaskName = Literal[
    "sequence-classification",
    "masked-lm",
    "causal-lm",
    "token-classification",
    "question-answering",
    "multiple-choice",
    "image-classification",
    "audio-classification",
    "seq2seq-lm",
    "embedding",
]

TASKS: dict[TaskName, tuple[str, str]] = {
    "sequence-classification": ("MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", "ForSequenceClassification"),
    "masked-lm": ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "ForMaskedLM"),
    "causal-lm": ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "ForCausalLM"),
    "token-classification": ("MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES", "ForTokenClassification"),
    "question-answering": ("MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "ForQuestionAnswering"),
    "multiple-choice": ("MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES", "ForMultipleChoice"),
    "image-classification": ("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "ForImageClassification"),
    "audio-classification": ("MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES", "ForAudioClassification"),
    "seq2seq-lm": ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "ForSeq2SeqLM"),
}
"""Task name to transformers' mapping of its models and the usual ending of their class names."""

NAMES: tuple[TaskName, ...] = get_args(TaskName)


def causal(config: PretrainedConfig) -> bool:
    """Return whether a configuration's family is known to transformers as causal and not as masked language models."""
    kind = config.model_type
    known = kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return known or bool(getattr(config, "is_decoder", False))


def is_bare(model: nn.Module) -> bool:
    """Return whether a model has no head, by its class and those it comes from."""
    return isinstance(model, PreTrainedModel) and not any(task_name(kind.__name__) for kind in type(model).__mro__)


def declared_tasks(model: nn.Module) -> tuple[TaskName, ...]:
    """Return the tasks of a model by its class; a user's subclass of a known model is still that model."""
    return next((found for kind in type(model).__mro__ if (found := _tasks_of(kind.__name__))), ())


def task_name(class_name: str) -> TaskName | None:
    """Return the task of a model class by its name, None if it has none of the supported heads."""
    return next(iter(_tasks_of(class_name)), None)


def _tasks_of(class_name: str) -> tuple[TaskName, ...]:
    """Return the tasks of a model class by its name, the first one first: BART's is of two."""
    known = tuple(task for task, (mapping, _) in TASKS.items() if class_name in getattr(auto, mapping).values())
    if known:
        return known
    endings: dict[TaskName, str] = {task: ending for task, (_, ending) in TASKS.items()}
    ended = tuple(task for task, ending in endings.items() if class_name.endswith(ending))
    return ended or (("causal-lm",) if class_name.endswith("LMHeadModel") else ())


def no_head(class_name: str) -> str:
    """Return why a class without a supported head cannot be explained, and what to load instead."""
    if class_name.endswith("Model"):
        stem = class_name.removesuffix("Model")
        return (
            f"is a bare encoder: it has no head whose answer could be explained. Load a fine-tuned checkpoint with "
            f"one, such as {stem}ForSequenceClassification; a model that embeds texts needs task='embedding'"
        )
    return f"has no head of a supported kind ({', '.join(TASKS)})"
